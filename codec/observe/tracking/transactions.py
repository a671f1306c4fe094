"""Transactions: NEW_TXN, messages and acknowledgements in them, END_TXN.

Rules of this file
1. A transaction id is assigned by the coordinator and is the same on all connections. The client of a transaction is
   the connection that sent NEW_TXN.
2. A transaction that began before the capture is recorded from the first frame with its id, with the doubt "start".
3. After the timeout the coordinator aborts a transaction and does not notify the client. A capture on the broker's host
   contains END_TXN_ON_PARTITION and END_TXN_ON_SUBSCRIPTION without END_TXN.
4. The number of records is bounded: ended transactions are evicted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.records.connection_records import MAX_CONNECTIONS, MAX_TXN_TOPICS, TransactionRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.texts import as_text
from pcli.codec.wire.topic_name import full_name

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker

MAX_TRANSACTIONS: Final = 10_000
"""Maximum number of transactions."""

_MAX_REQUESTS: Final = 1_000  # NEW_TXN and END_TXN without a response

_NEW_TXN: Final = BY_NAME["NEW_TXN"].number
_END_TXN_RESPONSE: Final = BY_NAME["END_TXN_RESPONSE"].number


class Transactions:
    """All transactions, by id."""

    def __init__(
        self,
        subscriptions: SubscriptionTracker,
        *,
        on_done: Callable[[str, Any], None] | None = None,
        limit: int = MAX_TRANSACTIONS,
    ) -> None:
        """``on_done`` receives ``transaction`` and each evicted record."""
        self._subscriptions = subscriptions
        self._on_done = on_done
        self._limit = limit
        self._records: dict[tuple[int, int], TransactionRecord] = {}
        self._requests: BoundedDict[int, int | str] = BoundedDict(_MAX_REQUESTS)
        """The timeout in ms of each open NEW_TXN and the action of each open END_TXN, by frame."""
        self._doubts: BoundedDict[int, set[str]] = BoundedDict(MAX_CONNECTIONS)

    def request(self, facts: Facts) -> None:
        """Process NEW_TXN and END_TXN."""
        frame = facts.frame
        if frame.type == _NEW_TXN:
            self._requests[frame.number] = frame.command.newTxn.txn_ttl_millis
        else:
            record = self.transaction_of(facts)
            self._requests[frame.number] = pb.TxnAction.Name(frame.command.endTxn.txn_action)
            if record is not None:
                record.end_asked_ns, record.end_asked_frame = frame.time_ns, frame.number

    def response(self, facts: Facts) -> None:
        """Process the responses to NEW_TXN, END_TXN, ADD_PARTITION_TO_TXN and ADD_SUBSCRIPTION_TO_TXN."""
        frame, request = facts.frame, facts.request
        request_value = self._requests.pop(request.number, None) if request is not None else None
        error, _ = facts.error
        if error and request is not None and request.type == _NEW_TXN:
            return
        record = self.transaction_of(facts)
        if record is None:
            return
        if error:
            record.error = error
        elif request is not None and request.type == _NEW_TXN:
            record.began_ns, record.began_frame = frame.time_ns, frame.number
            record.timeout_ms = request_value if isinstance(request_value, int) else 0
            record.doubts.discard("start")
        elif frame.type == _END_TXN_RESPONSE:
            _end(record, facts, str(request_value or ""), "client")

    def transaction_of(self, facts: Facts) -> TransactionRecord | None:
        """Return the record of the transaction in a command, or None."""
        body = facts.frame.body
        known = body.HasField("txnid_most_bits") and body.HasField("txnid_least_bits")
        return self._record_of((body.txnid_most_bits, body.txnid_least_bits), facts) if known else None

    def add_topics(self, facts: Facts) -> None:
        """Process ADD_PARTITION_TO_TXN."""
        record, add = self.transaction_of(facts), facts.frame.command.addPartitionToTxn
        if record is not None:
            record.scalable = record.scalable or add.scalable
            for topic in add.partitions:
                _add_topic(record, full_name(as_text(topic)), facts.frame.number)

    def sent(self, lifecycle: Lifecycle, facts: Facts) -> None:
        """Count a SEND in a transaction."""
        if lifecycle.txn is not None:
            record = self._record_of(lifecycle.txn, facts)
            record.sent += lifecycle.messages
            if lifecycle.topic is not None:
                _add_topic(record, lifecycle.topic.name, facts.frame.number)

    def add_acks(self, facts: Facts) -> None:
        """Count an ACK if it is in a transaction."""
        record = self.transaction_of(facts)
        if record is not None:
            record.acked += len(facts.frame.command.ack.message_id)

    def end_on_broker(self, facts: Facts) -> None:
        """Process END_TXN_ON_PARTITION and END_TXN_ON_SUBSCRIPTION, with or without an END_TXN from the client."""
        record = self.transaction_of(facts)
        if record is not None and record.ended_ns < 0 and not record.end_asked_frame:
            body = facts.frame.body
            action = pb.TxnAction.Name(body.txn_action) if body.HasField("txn_action") else ""
            _end(record, facts, action, "coordinator")

    def end(self, stream: int, time_ns: int) -> None:
        """Record the end of the client's connection in its open transactions."""
        for record in self._records.values():
            if record.stream == stream and record.ended_ns < 0 and record.left_ns < 0:
                record.left_ns = time_ns
        self._doubts.pop(stream, None)

    def add_doubts(self, stream: int, doubts: set[str]) -> None:
        """Add doubts to the transactions of a connection."""
        self._doubts[stream] = set(doubts)
        for record in self._records.values():
            if record.stream == stream:
                record.doubts |= doubts

    def finish(self) -> None:
        """Mark open transactions at the end of the capture."""
        for record in self._records.values():
            if record.ended_ns < 0:
                record.doubts.add("end")

    def records(self) -> Iterator[TransactionRecord]:
        """Return the records."""
        return iter(list(self._records.values()))

    def _record_of(self, number: tuple[int, int], facts: Facts) -> TransactionRecord:
        record = self._records.get(number)
        if record is None:
            if len(self._records) >= self._limit:
                self._evict()
            frame = facts.frame
            record = self._records[number] = TransactionRecord(number, frame.stream.number, frame.time_ns, 0)
            record.doubts |= self._doubts.get(record.stream, set()) | {"start"}
        return record

    def _evict(self) -> None:
        number = next((number for number, one in self._records.items() if one.ended_ns >= 0), next(iter(self._records)))
        record = self._records.pop(number)
        if record.ended_ns < 0:
            record.doubts.add("evicted")
            evicted = self._subscriptions.capture.evicted
            evicted["transactions"] = evicted.get("transactions", 0) + 1
        if self._on_done is not None:
            self._on_done("transaction", record)


def _add_topic(record: TransactionRecord, topic: str, frame: int) -> None:
    if len(record.topics) < MAX_TXN_TOPICS:
        record.topics.setdefault(topic, frame)


def _end(record: TransactionRecord, facts: Facts, action: str, by: str) -> None:
    record.action, record.ended_by = action, by
    record.ended_ns, record.ended_frame = facts.frame.time_ns, facts.frame.number
