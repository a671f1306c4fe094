"""SEND_RECEIPT and SEND_ERROR.

Rules of this file
1. The broker writes a producer's receipts in the order of its SENDs, as entries are stored. A receipt is out of order
   only if it arrives after the receipt of a later SEND, not if it is missing from the capture.
2. SEND_ERROR and the receipt of a duplicate (-1:-1) are written immediately and may precede earlier receipts
   (Producer.java, PersistentTopic.java). They prove nothing about the order.
3. The SEND_ERROR of a batch contains the highest sequence id if the SEND contained it. The receipt of a batch contains
   the lowest sequence id.
4. On a non-persistent topic all ids are 0:0, and -1:-1 means that the broker dropped the message because too many
   messages of the connection were pending.
5. Captures sometimes contain packets of the two directions out of order: a receipt may precede its SEND.
6. If a resend stores a message a second time, the topic contains two entries. The second entry has its own lifecycle,
   and each lifecycle contains the id of the other entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.observe.observer_state import Facts, Producer
from pcli.codec.observe.tracking.producers.producer_commands import producer_of
from pcli.codec.observe.tracking.producers.producer_registry import ProducerRegistry
from pcli.codec.observe.tracking.producers.producer_session import OpenSend, ProducerSession
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.wire.message_id import position

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.topic_records import TopicRecord

MAX_BEFORE: Final = 1_000
"""Maximum number of refused SENDs per producer that are kept for a resend."""

EARLY_NS: Final = 50_000_000
"""Maximum time in ns by which a receipt precedes its SEND in a capture."""

MAX_EARLY: Final = 64
"""Maximum number of receipts per session that wait for their SEND."""

MAX_OTHERS: Final = 64
"""Maximum number of further ids in a lifecycle."""


class Receipts:
    """A processor of the responses to SENDs."""

    def __init__(self, registry: ProducerRegistry) -> None:
        self._registry = registry
        self._subscriptions = registry.subscriptions

    def receipt(self, facts: Facts) -> None:
        """Process SEND_RECEIPT."""
        peer = facts.peer
        producer: ProducerSession | None = peer.record if isinstance(peer, Producer) else None
        if producer is None:
            return
        frame = facts.frame
        receipt = frame.body
        message_id, sequence_id = receipt.message_id, receipt.sequence_id
        at = position(message_id)
        if (at[0] <= 0 or at[1] <= 0) and not message_id.IsInitialized():
            return  # truncated
        now, number = frame.time_ns, frame.number
        one = self._take_open_send(producer, sequence_id)
        if one is not None:
            self._answer(producer, one, at, now, number)
            return
        producer.give_up_early(now - EARLY_NS)
        producer.early_receipts[sequence_id] = (*at, now, number)
        if len(producer.early_receipts) > MAX_EARLY:
            producer.give_up_early(0)

    def match_early_receipt(self, producer: ProducerSession, now: int) -> None:
        """Match the latest SEND with a receipt that was captured before it."""
        producer.give_up_early(now - EARLY_NS)
        one = producer.open_sends[-1]
        if one.sequence_id in producer.early_receipts:
            ledger, entry, time_ns, number = producer.early_receipts.pop(one.sequence_id)
            producer.open_sends.pop()
            self._registry.open_count -= 1
            self._answer(producer, one, (ledger, entry), time_ns, number)

    def _answer(self, producer: ProducerSession, one: OpenSend, at: tuple[int, int], now: int, number: int) -> None:
        record = producer.record
        record.receipts += 1
        record.last_ns = now
        producer.response_received(now, number)
        if at[0] < 0:
            self._duplicate(producer, one, now, number)
            return
        if one.place < producer.last_receipted:
            record.out_of_order.add(now, one.frame, number, producer.last_receipt_frame, sample=str(one.sequence_id))
        else:
            producer.last_receipted, producer.last_receipt_frame = one.place, number
        self._stored(producer, one, at, now, number)

    def error(self, facts: Facts) -> None:
        """Process SEND_ERROR: the client may resend the message."""
        producer = producer_of(facts)
        if producer is None:
            return
        frame, (error, text) = facts.frame, facts.error
        code = error or "UnknownError"
        one = self._take_open_send(producer, frame.command.send_error.sequence_id)
        errors = producer.record.send_errors.setdefault(code, Occurrences())
        errors.add(frame.time_ns, one.frame if one else 0, frame.number, sample=text)
        if one is None:
            return
        producer.response_received(frame.time_ns, frame.number)
        if producer.topic is not None and code not in _UNCOUNTED:
            _count(producer.topic, one, frame.time_ns)
        lifecycle = one.lifecycle
        if lifecycle.receipt_ns < 0:
            if producer.topic is not None and _is_whole(one):
                producer.topic.messages.refused += lifecycle.messages
            lifecycle.error, lifecycle.state = code, "refused"
            lifecycle.receipt_ns, lifecycle.receipt_frame = frame.time_ns, frame.number
            self._registry.keep_resendable(producer, one)
            if len(producer.resendable) > MAX_BEFORE:
                self._registry.mark_lost(producer, [next(iter(producer.resendable))])

    def _take_open_send(self, producer: ProducerSession, sequence_id: int) -> OpenSend | None:
        """Remove and return the oldest open SEND with this id, or None."""
        queue = producer.open_sends
        if queue and queue[0].sequence_id == sequence_id:
            self._registry.open_count -= 1
            return queue.popleft()
        for place, one in enumerate(queue):
            if sequence_id in (one.sequence_id, one.lifecycle.highest_sequence_id):
                del queue[place]
                self._registry.open_count -= 1
                return one
        return None

    def _duplicate(self, producer: ProducerSession, one: OpenSend, now: int, number: int) -> None:
        record, topic, lifecycle = producer.record, producer.topic, one.lifecycle
        persistent = topic is None or topic.persistent
        if persistent:
            refused = record.resends_refused if one.again else record.reuses_refused
            refused.add(
                now, one.frame, number, sample=str(one.sequence_id), count=lifecycle.messages if _is_whole(one) else 0
            )
        if topic is not None and persistent:
            topic.deduplicates = True
            _count(topic, one, now)
        if lifecycle.receipt_ns < 0:
            if topic is not None and _is_whole(one):
                topic.messages.deduplicated += lifecycle.messages if persistent else 0
                topic.messages.refused += 0 if persistent else lifecycle.messages
            lifecycle.receipt_ns, lifecycle.receipt_frame = now, number
            lifecycle.state, lifecycle.error = ("duplicate", "") if persistent else ("refused", "dropped")
            if lifecycle.ledger < 0:
                self._subscriptions.never_stored(lifecycle)

    def _stored(self, producer: ProducerSession, one: OpenSend, at: tuple[int, int], now: int, number: int) -> None:
        topic, lifecycle = producer.topic, one.lifecycle
        persistent = topic is None or topic.persistent
        if topic is not None:
            _count(topic, one, now)
            topic.entries_in += 1
            if one.chunk < 0:
                _count_stored(topic, lifecycle)
            if persistent and at > topic.last_id:
                topic.last_id = at
        if one.chunk >= 0:
            lifecycle = _chunk_stored(producer, one, at, now, number)
        elif lifecycle.receipt_ns >= 0:
            lifecycle = _store_copy(producer, one, at, now, number)
        else:
            lifecycle.receipt_ns, lifecycle.receipt_frame, lifecycle.state = now, number, "stored"
        if persistent:
            lifecycle.ledger, lifecycle.entry = at
        else:
            lifecycle.state = "non_persistent"
        self._subscriptions.stored(lifecycle)
        self._report_latency(topic, lifecycle, now, number)

    def _report_latency(self, topic: TopicRecord | None, lifecycle: Lifecycle, now: int, number: int) -> None:
        """Pass on the time from the last SEND of a message to this receipt, if the receipt completes the message."""
        on_latency = self._subscriptions.lifecycles.on_latency
        if on_latency is not None and topic is not None and lifecycle.receipt_frame == number:
            sent = max([lifecycle.sent_ns, *(time_ns for _, _, time_ns in lifecycle.resent if time_ns <= now)])
            on_latency("publish", lifecycle, topic, "", max(0, now - sent))


def _chunk_stored(producer: ProducerSession, one: OpenSend, at: tuple[int, int], now: int, number: int) -> Lifecycle:
    """Record the id of a chunk; the last chunk completes the message."""
    lifecycle = one.lifecycle
    for place, (chunk, frame, ledger, entry) in enumerate(lifecycle.chunks):
        if chunk == one.chunk and ledger < 0:
            before, after = lifecycle.chunks[:place], lifecycle.chunks[place + 1 :]
            lifecycle.chunks = (*before, (chunk, frame, *at), *after)
        elif chunk == one.chunk:
            ids = f"{ledger}:{entry} and {at[0]}:{at[1]}"
            producer.record.duplicates_stored.add(
                now, frame, one.frame, number, sample=ids, count=1 if _is_whole(one) else 0
            )
            lifecycle.other_ids += (at,)
    if one.chunk + 1 == lifecycle.num_chunks and lifecycle.receipt_ns < 0:
        if producer.topic is not None:
            _count_stored(producer.topic, lifecycle)
        lifecycle.receipt_ns, lifecycle.receipt_frame, lifecycle.state = now, number, "stored"
    return lifecycle


def _store_copy(producer: ProducerSession, one: OpenSend, at: tuple[int, int], now: int, number: int) -> Lifecycle:
    """Return a new lifecycle for a second entry with the same message."""
    lifecycle = one.lifecycle
    ids = f"{lifecycle.id} and {at[0]}:{at[1]}" if lifecycle.id else str(one.sequence_id)
    frames = (lifecycle.receipt_frame, one.frame, number)
    producer.record.duplicates_stored.add(now, *frames, sample=ids, count=lifecycle.messages)
    second = lifecycle.copy()
    second.resent, second.other_ids = (), ((lifecycle.ledger, lifecycle.entry),)
    second.deliveries, second.unacked = {}, {}
    second.sent_frame, second.sent_ns = one.frame, one.time_ns
    second.receipt_frame, second.receipt_ns = number, now
    if len(lifecycle.other_ids) < MAX_OTHERS:
        lifecycle.other_ids += (at,)
    return second


def _is_whole(one: OpenSend) -> bool:
    """Return whether a SEND completes a message: it is not chunked, or it is the last chunk."""
    return one.chunk < 0 or one.chunk + 1 == one.lifecycle.num_chunks


def _count_stored(topic: TopicRecord, lifecycle: Lifecycle) -> None:
    """Count the messages of an entry with an id; ``lifecycle`` is its state before the receipt."""
    counts = topic.messages
    if lifecycle.receipt_ns >= 0:
        counts.stored_twice += lifecycle.messages
        return
    counts.stored += lifecycle.messages
    if lifecycle.txn is not None:
        counts.uncommitted += lifecycle.messages


def _count(topic: TopicRecord, one: OpenSend, now: int) -> None:
    """Count an entry as msgInCounter and bytesInCounter do, which include duplicates and refused messages."""
    topic.messages_in += one.messages
    topic.bytes_in += one.size
    topic.last_in_ns = now


_UNCOUNTED: Final = frozenset({"ChecksumError", "MetadataError"})
"""SEND_ERRORs of checks that the broker makes before it counts a message (Producer.java)."""
