"""The producer side: messages from SEND to receipt, producers across reconnects, and transactions.

- producer_commands.py: open and close; producer_registry.py: all producers; producer_session.py: one session
- sends.py: SEND; receipts.py: its responses; sequence_ids.py: gaps in sequence ids; recent_sends.py: resends

Rules of this file
1. Each command type that concerns producers has its own function.
2. A lifecycle whose message is stored is passed to SubscriptionTracker.stored once per entry (once per chunk). If the
   message was never stored, the lifecycle is passed to SubscriptionTracker.never_stored when it can no longer be
   resent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.entry_metadata import may_be_of_v5_client
from pcli.codec.observe.tracking.producers.entry_hashes import check_hashes
from pcli.codec.observe.tracking.producers.producer_commands import ProducerCommands
from pcli.codec.observe.tracking.producers.producer_registry import ProducerRegistry
from pcli.codec.observe.tracking.producers.receipts import Receipts
from pcli.codec.observe.tracking.producers.segment_resends import SegmentResends
from pcli.codec.observe.tracking.producers.sends import Sends
from pcli.codec.observe.tracking.transactions import Transactions
from pcli.codec.scalable.segment_name import is_name_on_segment
from pcli.codec.steps import Steps
from pcli.codec.wire.commands import BY_NAME

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.producers.producer_session import ProducerSession
    from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker


class ProducerTracker:
    """Producers, the messages that they send, and transactions."""

    def __init__(
        self,
        subscriptions: SubscriptionTracker,
        *,
        on_done: Callable[[str, Any], None] | None = None,
        on_end: Callable[[ProducerSession], None] | None = None,
    ) -> None:
        """``on_done`` receives the group and each record that is evicted.

        ``on_end`` receives each session when no more receipts can follow.
        """
        self._registry = registry = ProducerRegistry(subscriptions, on_done, on_end=on_end)
        self._commands = commands = ProducerCommands(registry)
        self._transactions = transactions = Transactions(subscriptions, on_done=on_done)
        self._receipts = receipts = Receipts(registry)
        self._sends = Sends(registry, receipts)
        self._resends = SegmentResends()
        steps: dict[str, Callable[[Facts], object]] = {
            "SEND": self._send,
            "SEND_RECEIPT": receipts.receipt,
            "SEND_ERROR": self._send_error,
            "PRODUCER": commands.producer,
            "PRODUCER_SUCCESS": commands.producer_success,
            "ERROR": commands.error,
            "CLOSE_PRODUCER": self._close,
            "SUCCESS": commands.success,
            "ACK": transactions.add_acks,
            "NEW_TXN": transactions.request,
            "NEW_TXN_RESPONSE": transactions.response,
            "ADD_PARTITION_TO_TXN": transactions.add_topics,
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
        """Process a frame."""
        frame = facts.frame
        if not frame.from_client:
            self.note_broker_frame(frame.stream.number, frame.time_ns, frame.number)
        step = self._steps.get(frame.type)
        if step is not None:
            step(facts)

    def note_broker_frame(self, stream: int, time_ns: int, frame: int) -> None:
        """Record a frame of any type from the broker."""
        connection = self._registry.connections.get(stream)
        if connection is not None:
            connection.heard_ns, connection.heard_frame = time_ns, frame

    def add_doubts(self, stream: int, doubts: set[str]) -> None:
        """Add doubts (keys of DOUBTS) to the records of a connection."""
        self._registry.add_doubts(stream, doubts)
        self._transactions.add_doubts(stream, doubts)

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """End the sessions of a connection; ``end`` is a key of ENDS, and ``frame`` is the last frame."""
        self._commands.end(stream, end, time_ns, frame)
        self._resends.end(stream)
        self._transactions.end(stream, time_ns)

    def forget_ended(self, before_ns: int) -> Steps[None]:
        """Remove the producers that ended before a time."""
        yield from self._registry.forget_ended(before_ns)

    def finish(self, now_ns: int) -> None:
        """Complete all records; ``now_ns`` is the time of the last frame."""
        self._registry.finish()
        self._transactions.finish()

    def records(self, now_ns: int | None = None) -> Iterator[tuple[str, Any]]:
        """Yield each record with the name of its group; at a time, copies that include the open SENDs."""
        for producer in self._registry.records(now_ns):
            yield "producer", producer
        for transaction in self._transactions.records():
            yield "transaction", transaction

    def _send(self, facts: Facts) -> None:
        lifecycle = self._sends.see(facts)
        if lifecycle is None:
            return
        if lifecycle.txn is not None:
            self._transactions.sent(lifecycle, facts)
        record = lifecycle.producer
        if record is not None and not (record.topic or record.on_segment):
            metadata = facts.frame.metadata if may_be_of_v5_client(facts.frame) else None
            hashed = metadata is not None and metadata.HasField("entry_hash_min")
            record.on_segment = hashed or is_name_on_segment(record.name)
        if lifecycle.topic is not None and lifecycle.topic.segment is not None:
            self._resends.sent(facts, lifecycle)
            check_hashes(facts, lifecycle.topic.segment)

    def _send_error(self, facts: Facts) -> None:
        self._receipts.error(facts)
        self._resends.closed(facts)

    def _close(self, facts: Facts) -> None:
        self._resends.closed(facts)
        self._commands.close(facts)
