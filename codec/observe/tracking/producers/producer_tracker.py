"""The producer's side: every message from its SEND to its receipt, producers across reconnects, transactions.

- senders.py: how producers come and go; roster.py: those that are known; sender.py: one session
- sends.py: SEND; receipts.py: its answers; numbering.py: sequence ids; resends.py: what was sent lately
- transactions.py: transactions

Rules of this file
1. One step per command type; what has no step is nothing to a producer.
2. A life that gets an id is given to Lives with each entry that it has (`stored`: once for every chunk); one that gets
   none is given away when nobody will send it again (`gone`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.producers.producer_commands import ProducerCommands
from pcli.codec.observe.tracking.producers.producer_registry import ProducerRegistry
from pcli.codec.observe.tracking.producers.receipts import Receipts
from pcli.codec.observe.tracking.producers.sends import Sends
from pcli.codec.observe.tracking.transactions import Transactions
from pcli.codec.wire.commands import BY_NAME

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker

__all__ = ["ProducerTracker"]


class ProducerTracker:
    """Producers, what they send, and transactions."""

    def __init__(
        self, subscriptions: SubscriptionTracker, *, on_done: Callable[[str, Any], None] | None = None
    ) -> None:
        """``on_done`` is given records that are forgotten to bound the memory, with their group."""
        self._registry = registry = ProducerRegistry(subscriptions, on_done)
        self._commands = commands = ProducerCommands(registry)
        self._transactions = transactions = Transactions(subscriptions, on_done=on_done)
        receipts = Receipts(registry)
        self._sends = Sends(registry, receipts)
        steps: dict[str, Callable[[Facts], object]] = {
            "SEND": self._send,
            "SEND_RECEIPT": receipts.receipt,
            "SEND_ERROR": receipts.error,
            "PRODUCER": commands.producer,
            "PRODUCER_SUCCESS": commands.producer_success,
            "ERROR": commands.error,
            "CLOSE_PRODUCER": commands.close,
            "SUCCESS": commands.success,
            "ACK": transactions.add_acks,
            "NEW_TXN": transactions.request,
            "NEW_TXN_RESPONSE": transactions.response,
            "ADD_PARTITION_TO_TXN": transactions.transaction_of,
            "ADD_PARTITION_TO_TXN_RESPONSE": transactions.response,
            "ADD_SUBSCRIPTION_TO_TXN": transactions.transaction_of,
            "ADD_SUBSCRIPTION_TO_TXN_RESPONSE": transactions.response,
            "END_TXN": transactions.request,
            "END_TXN_RESPONSE": transactions.response,
            "END_TXN_ON_PARTITION": transactions.end_on_broker,
            "END_TXN_ON_SUBSCRIPTION": transactions.end_on_broker,
        }
        self._steps = {BY_NAME[name].number: step for name, step in steps.items()}

    def see(self, facts: Facts) -> None:
        """Take in a frame."""
        frame = facts.frame
        if not frame.from_client:
            self.note_broker_frame(frame.stream.number, frame.time_ns, frame.number)
        step = self._steps.get(frame.type)
        if step is not None:
            step(facts)

    def note_broker_frame(self, stream: int, time_ns: int, frame: int) -> None:
        """The broker has sent a frame on a connection, whatever it was."""
        connection = self._registry.connections.get(stream)
        if connection is not None:
            connection.heard_ns, connection.heard_frame = time_ns, frame

    def add_doubts(self, stream: int, doubts: set[str]) -> None:
        """The capture does not show all of a connection, for these reasons (doubts.py)."""
        self._registry.add_doubts(stream, doubts)
        self._transactions.add_doubts(stream, doubts)

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """A connection has ended, in one of the ways of links.ENDS; ``frame`` is its last one."""
        self._commands.end(stream, end, time_ns, frame)
        self._transactions.end(stream, time_ns)

    def finish(self, now_ns: int) -> None:
        """No more will come; ``now_ns`` is the time of the last frame."""
        self._registry.finish()
        self._transactions.finish()

    def records(self) -> Iterator[tuple[str, Any]]:
        """Every record that is kept, up to date, with the name of its group."""
        for producer in self._registry.records():
            yield "producer", producer
        for transaction in self._transactions.records():
            yield "transaction", transaction

    def _send(self, facts: Facts) -> None:
        lifecycle = self._sends.see(facts)
        if lifecycle is not None and lifecycle.txn is not None:
            self._transactions.sent(lifecycle, facts)
