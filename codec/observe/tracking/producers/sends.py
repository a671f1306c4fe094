"""SEND: the beginning of a lifecycle, or its continuation with a resend or another chunk.

Rules of this file
1. Only the metadata fields that a lifecycle needs are read; the payload is not decoded.
2. All chunks of a message have one lifecycle and one sequence id. A chunk is a resend if its number is not above the
   highest chunk number sent so far.
3. The publish_time shows how far the producer's clock differs from the clock of the capture. The client sets it before
   SEND. For a batch, the client sets it when it adds the first message, earlier by up to the batching delay. A resend
   contains the old time and is not compared.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import Facts, Producer
from pcli.codec.observe.tracking.entry_metadata import FIELD, Fields, fields_of, key_of, number_of, text_of
from pcli.codec.observe.tracking.producers.producer_registry import ProducerRegistry
from pcli.codec.observe.tracking.producers.producer_session import OpenSend, ProducerSession
from pcli.codec.observe.tracking.producers.receipts import Receipts
from pcli.codec.observe.tracking.producers.recent_sends import RecentSends
from pcli.codec.observe.tracking.records.client_records import ProducerRecord
from pcli.codec.observe.tracking.records.lifecycle import MOST_CHUNKS, Lifecycle

SKEW_MS: Final = 10_000
"""Minimum age of publish_time at the SEND, in ms, that counts as clock skew."""

_MOST: Final = 64
"""Maximum number of resends that a lifecycle lists, and of incomplete chunked messages per session."""


class Sends:
    """A processor of SENDs."""

    def __init__(self, registry: ProducerRegistry, receipts: Receipts) -> None:
        self._registry = registry
        self._receipts = receipts
        self._sent = RecentSends()

    def see(self, facts: Facts) -> Lifecycle | None:
        """Process SEND and return its lifecycle, or None."""
        peer = facts.peer
        if not isinstance(peer, Producer):
            return None
        frame = facts.frame
        send = frame.body
        if not send.HasField("sequence_id"):
            return None  # truncated
        sequence_id = send.sequence_id
        fields = fields_of(frame)
        producer: ProducerSession = peer.record or self._add_unseen_producer(facts, peer, fields)
        highest = send.highest_sequence_id if send.HasField("highest_sequence_id") else -1
        ids = (sequence_id, highest, max(1, send.num_messages))
        if _CHUNK_ID in fields and _UUID in fields:
            lifecycle, chunk, again = self._chunk(facts, producer, fields, ids)
        else:
            chunk, old = -1, None
            # Chunks share their sequence id, so a chunk with truncated metadata must not match the chunk before it.
            known = sequence_id <= producer.sequence_ids.highest or sequence_id <= producer.highest_before
            if known and not send.is_chunk:
                old = self._find_resent(facts, producer, fields, ids)
            again = old is not None
            lifecycle = old or self._begin(facts, producer, fields, ids)
        if again:
            _send_again(producer, lifecycle, facts)
        if send.HasField("txnid_least_bits"):
            lifecycle.txn = send.txnid_most_bits, send.txnid_least_bits
        self._open(producer, facts, lifecycle, ids, chunk, again=again)
        if producer.early_receipts:
            self._receipts.match_early_receipt(producer, frame.time_ns)
        return lifecycle

    def _open(
        self,
        producer: ProducerSession,
        facts: Facts,
        lifecycle: Lifecycle,
        ids: tuple[int, int, int],
        chunk: int,
        *,
        again: bool,
    ) -> None:
        frame, record, registry = facts.frame, producer.record, self._registry
        now, number = frame.time_ns, frame.number
        producer.place += 1
        size = frame.length - frame.parts.command_end
        producer.open_sends.append(OpenSend(ids[0], lifecycle, number, now, producer.place, ids[2], size, chunk, again))
        whole = chunk < 0 or chunk + 1 == lifecycle.num_chunks
        if whole and not again:
            registry.contents.put(producer, lifecycle, frame, size)
        if producer.since_ns < 0:
            producer.since_ns, producer.since_frame = now, number
        registry.open_count += 1
        if registry.open_count > registry.max_open:
            registry.give_up_oldest(producer)
        record.sent_entries += 1
        record.last_ns = now
        if whole and not again:
            record.sent += lifecycle.messages
            if producer.topic is not None:
                producer.topic.messages.sent += lifecycle.messages

    def _find_resent(
        self, facts: Facts, producer: ProducerSession, fields: Fields, ids: tuple[int, int, int]
    ) -> Lifecycle | None:
        """Return the lifecycle that this SEND resends, or None if the message is new."""
        parts = facts.frame.parts
        publish_ms, size = number_of(fields, _PUBLISHED), parts.payload_end - parts.payload_start
        old = self._sent.find(producer.serial, ids[0], publish_ms, size, ids[2]) if publish_ms else None
        return None if old is not None and _was_receipted(old, producer) else old

    def _add_unseen_producer(self, facts: Facts, peer: Producer, fields: Fields) -> ProducerSession:
        """Begin a session for a SEND whose PRODUCER is missing or whose session has ended."""
        producer = self._registry.begin(facts, peer, peer.name)
        if not peer.topic:
            self._registry.began_before_capture(producer, text_of(fields, _NAME))
        return producer

    def _begin(self, facts: Facts, producer: ProducerSession, fields: Fields, ids: tuple[int, int, int]) -> Lifecycle:
        """Begin the lifecycle of a new message."""
        frame, record = facts.frame, producer.record
        now, number, parts = frame.time_ns, frame.number, frame.parts
        sequence_id, highest, messages = ids
        sequence_ids = producer.sequence_ids
        if not sequence_ids.take(sequence_id, highest, messages, now, number) and "cut" not in record.doubts:
            record.backwards.add(now, number, sample=f"{sequence_id} after {sequence_ids.highest}")
        publish_ms = number_of(fields, _PUBLISHED)
        lifecycle = Lifecycle(
            producer.topic, record, record.name or text_of(fields, _NAME), sequence_id, highest, producer.partition,
            frame.stream.number, number, now, messages, _BATCH in fields, parts.payload_end - parts.payload_start,
            key_of(fields), publish_ms,
        )  # fmt: skip
        if parts.checksum is not None:
            lifecycle.checksum = parts.checksum
        if _DELIVER_AT in fields:
            lifecycle.deliver_at_ms = number_of(fields, _DELIVER_AT)
        if _MARKER in fields:
            lifecycle.marker = True
        if publish_ms:
            _compare_clocks(record, now, number, publish_ms)
        self._sent.put(producer.serial, lifecycle)
        return lifecycle

    def _chunk(
        self, facts: Facts, producer: ProducerSession, fields: Fields, ids: tuple[int, int, int]
    ) -> tuple[Lifecycle, int, bool]:
        """Process a chunk; return the lifecycle, the chunk's number, and whether it is a resend."""
        frame = facts.frame
        uuid, chunk = text_of(fields, _UUID), number_of(fields, _CHUNK_ID)
        lifecycle, last = producer.chunks.pop(uuid, (None, -1))
        again = chunk <= last
        if lifecycle is None:
            lifecycle = self._begin(facts, producer, fields, ids)
            lifecycle.messages, lifecycle.uuid, lifecycle.num_chunks = 1, uuid, number_of(fields, _CHUNKS)
            if chunk:
                lifecycle.doubts |= {"start"}
        elif again:
            producer.record.chunks_resent.add(frame.time_ns, frame.number, sample=f"{uuid} chunk {chunk}")
        else:
            lifecycle.size += frame.parts.payload_end - frame.parts.payload_start
        if not again and len(lifecycle.chunks) < MOST_CHUNKS:
            lifecycle.chunks += ((chunk, frame.number, -1, -1),)
        producer.chunks[uuid] = (lifecycle, max(chunk, last))
        if len(producer.chunks) > _MOST:
            del producer.chunks[next(iter(producer.chunks))]
        return lifecycle, chunk, again


def _send_again(producer: ProducerSession, lifecycle: Lifecycle, facts: Facts) -> None:
    """Record a resend."""
    frame, record = facts.frame, producer.record
    now, number, stream = frame.time_ns, frame.number, frame.stream.number
    producer.resendable.pop(lifecycle.sequence_id, None)
    lifecycle.stream = stream
    if len(lifecycle.resent) < _MOST:
        lifecycle.resent += ((stream, number, now),)
    record.resent.add(now, lifecycle.sent_frame, number, sample=str(lifecycle.sequence_id))
    if lifecycle.receipt_ns >= 0 and not lifecycle.error:
        record.resent_with_receipt.add(
            now, lifecycle.sent_frame, lifecycle.receipt_frame, number, sample=str(lifecycle.sequence_id)
        )
    else:
        if not lifecycle.error and lifecycle.state == "lost":
            record.resent_blind.add(
                now, lifecycle.sent_frame, number, sample=str(lifecycle.sequence_id), count=lifecycle.messages
            )
        if lifecycle.error and producer.topic is not None:
            producer.topic.messages.refused -= lifecycle.messages
        lifecycle.state, lifecycle.error, lifecycle.receipt_ns = "in_flight", "", -1
    producer.sequence_ids.skip(lifecycle.sequence_id, lifecycle.highest_sequence_id, lifecycle.messages)


def _was_receipted(lifecycle: Lifecycle, producer: ProducerSession) -> bool:
    """Return whether the client received the receipt in this session.

    If so, the application is sending a new message.
    """
    return lifecycle.receipt_ns >= producer.session.began_ns and not lifecycle.error


def _compare_clocks(record: ProducerRecord, now: int, number: int, publish_ms: int) -> None:
    age_ms = now // 1_000_000 - publish_ms
    least, most, last = record.clock_skew_ms
    if age_ms != last:
        first = not record.sent_entries
        record.clock_skew_ms = (
            age_ms if first or age_ms < least else least,
            age_ms if first or age_ms > most else most,
            age_ms,
        )
    if not 0 <= age_ms <= SKEW_MS:
        record.skewed.add(now, number, sample=f"{age_ms} ms")


_NAME: Final = FIELD["producer_name"]
_PUBLISHED: Final = FIELD["publish_time"]
_BATCH: Final = FIELD["num_messages_in_batch"]
_UUID: Final = FIELD["uuid"]
_CHUNK_ID: Final = FIELD["chunk_id"]
_CHUNKS: Final = FIELD["num_chunks_from_msg"]
_DELIVER_AT: Final = FIELD["deliver_at_time"]
_MARKER: Final = FIELD["marker_type"]
