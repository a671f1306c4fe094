"""The bytes of frames: events in, frames out, by the constructors of pcli.codec.wire.

Payloads come from a pool of random buffers, which costs almost no time. An entry is kept from its SEND until no pending
event needs it. Frames of one kind differ only at their ends, in the entry id, so the bytes before it are kept too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from load import traffic
from load.participants import Participants, key_of
from load.settings import Load
from load.traffic import (
    ACKS,
    ANSWER,
    CUMULATIVE,
    ENTRY,
    EXTRA,
    FLOW,
    KIND,
    LEDGER,
    NACK,
    PARTICIPANT,
    PING,
    PONG,
    RAW,
    TICK,
)
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.codec.wire.build import join_frame
from pcli.codec.wire.hot import push_ack, push_flow, push_message, push_send, push_varint
from pcli.minibroker.topics.frame_writers import SendReceiptWriter

POOL = 64
"""Number of different payloads."""
_MANY = 1 << 16
_VARINTS = [push_varint(number) for number in range(_MANY)]
START_NS = 1_795_000_000_000_000_000
"""The time of tick 0."""


class FrameEncoder:
    """Encodes events as frames."""

    def __init__(self, load: Load, participants: Participants, rng: np.random.Generator) -> None:
        self.load, self.participants = load, participants
        self.raw: list[bytes] = []
        """Frames by the numbers in `RAW` events."""
        self._keyed = "Key_Shared" in load.subscriptions and load.batch == 1
        self._keys = [b"\x32" + _sized(key_of(key)) for key in range(load.keys)] if self._keyed else []
        self._payloads = [self._payload(rng) for _ in range(POOL)]
        self._uncompressed = b"\x48" + push_varint(len(self._payloads[0]))
        self._overhead = 10 + len(self._payloads[0])
        """Bytes of an entry besides its metadata."""
        self._times: dict[int, bytes] = {}
        self._begun: dict[tuple[int, ...], bytes] = {}
        """Frames up to the entry id, by the values before it."""
        self._names = [b"\x0a" + _sized(one.name.encode()) + b"\x10" for one in participants.producers]
        self._producers = [one.id for one in participants.producers]
        self._receipts = [SendReceiptWriter(one.id) for one in participants.producers]
        self._consumers = [one.id for one in participants.consumers]
        self._sends: list[bytes] = []
        """SENDs of messages from ``_base`` on."""
        self._stored: list[bytes] = []
        """The entries in them."""
        self._base = 0

    def _payload(self, rng: np.random.Generator) -> bytes:
        """Return the payload of an entry: one message, or several with their metadata."""
        single = [rng.bytes(self.load.message_size) for _ in range(self.load.batch)]
        if self.load.batch == 1:
            return single[0]
        head = pb.SingleMessageMetadata(payload_size=self.load.message_size).SerializeToString()
        return b"".join(len(head).to_bytes(4, "big") + head + one for one in single)

    def publish(self, columns: dict[str, Any]) -> None:
        """Create the SENDs of new messages."""
        batch = self.load.batch
        many = b"" if batch == 1 else b"\x58" + push_varint(batch)
        published = (START_NS + columns["tick"] * self.load.tick_ns) // 1_000_000
        for time_ms in np.unique(published).tolist():
            self._times.setdefault(time_ms, b"\x18" + push_varint(time_ms))
        rows = zip(
            columns["number"].tolist(), columns["producer"].tolist(), columns["sequence"].tolist(), published.tolist(),
            columns["key"].tolist(),
        )  # fmt: skip
        names, ids, times, payloads, overhead = (
            self._names,
            self._producers,
            self._times,
            self._payloads,
            -self._overhead,
        )
        add_send, add_stored = self._sends.append, self._stored.append
        for number, producer, sequence, time_ms, key in rows:
            highest = sequence + batch - 1 if many else 0
            metadata = b"".join((
                names[producer], push_varint(sequence), times[time_ms], self._keys[key] if self._keyed else b"",
                self._uncompressed, many, b"\xc0\x01" + push_varint(highest) if many else b"",
            ))  # fmt: skip
            sent = push_send(ids[producer], sequence, batch, highest, metadata, payloads[number % POOL])
            add_send(sent)
            add_stored(sent[overhead - len(metadata) :])
        self._times.clear()

    def forget(self, before: int) -> None:
        """Release the messages before this one, which no event needs."""
        del self._sends[: before - self._base]
        del self._stored[: before - self._base]
        self._base = max(before, self._base)

    def encode(self, events: Any) -> tuple[list[bytes], Any]:
        """Return the frame of each event, and for each event the index of the event with its frame.

        Acks and nacks of one consumer in one tick share a frame, which belongs to the first of them.
        """
        out = [b""] * events.shape[1]
        leader = np.arange(events.shape[1])
        for kind in np.flatnonzero(np.bincount(events[KIND])).tolist():
            rows = np.flatnonzero(events[KIND] == kind)
            if kind in (ACKS, NACK):
                self._encode_groups(kind, rows, events, out, leader)
            else:
                self._encode_kind(kind, rows.tolist(), events[PARTICIPANT : EXTRA + 1, rows].tolist(), out)
        return out, leader

    def _encode_kind(self, kind: int, rows: list[int], columns: list[list[int]], out: list[bytes]) -> None:
        participant, msg, ledger, entry, extra = columns
        places = zip(rows, participant, ledger, entry, extra, msg)
        base, sends, last = self._base, self._sends, self.load.batch - 1
        match kind:
            case traffic.SEND:
                for row, number in zip(rows, msg):
                    out[row] = sends[number - base]
            case traffic.RECEIPT:
                write = [one.write for one in self._receipts]
                for row, one, ledger, entry, sequence, _ in places:
                    out[row] = write[one](sequence, sequence + last if last else 0, ledger, entry)
            case traffic.DISPATCH:
                self._encode_dispatches(places, out)
            case traffic.ACK | traffic.CUMULATIVE:
                self._encode_acks(int(kind == CUMULATIVE), places, out)
            case _:
                for row, one, number in zip(rows, participant, extra):
                    out[row] = self._encode_other(kind, one, number)

    def _encode_dispatches(self, places: Iterable[tuple[int, ...]], out: list[bytes]) -> None:
        base, all_stored, begun = self._base, self._stored, self._begun
        for row, one, ledger, entry, again, message in places:
            stored = all_stored[message - base]
            if again or entry >= _MANY:
                out[row] = push_message(self._consumers[one], ledger, entry, -1, again, stored)
                continue
            number = _VARINTS[entry]
            key = one, ledger, len(number), len(stored)
            if key not in begun:
                whole = push_message(self._consumers[one], ledger, entry, -1, again, stored)
                begun[key] = whole[: -len(stored) - len(number)]
            out[row] = b"".join((begun[key], number, stored))

    def _encode_acks(self, kind: int, places: Iterable[tuple[int, ...]], out: list[bytes]) -> None:
        begun = self._begun
        for row, one, ledger, entry, request, _ in places:
            if request >= 0 or entry >= _MANY:
                out[row] = push_ack(self._consumers[one], kind, [(ledger, entry, -1, -1)], request)
                continue
            number = _VARINTS[entry]
            key = one, ledger, len(number)
            if key not in begun:
                begun[key] = push_ack(self._consumers[one], kind, [(ledger, entry, -1, -1)])[: -len(number)]
            out[row] = begun[key] + number

    def _encode_other(self, kind: int, one: int, number: int) -> bytes:
        if kind == FLOW:
            return push_flow(self._consumers[one], number)
        if kind == ANSWER:
            body = b"\x08" + push_varint(self._consumers[one]) + b"\x30" + push_varint(number)
            return join_frame(_ANSWER + push_varint(len(body)) + body)
        return self.raw[number] if kind == RAW else _PING_PONG[kind]

    def _encode_groups(self, kind: int, rows: Any, events: Any, out: list[bytes], leader: Any) -> None:
        """Encode one frame for all events of a consumer in a tick."""
        rows = rows[np.lexsort((rows, events[PARTICIPANT, rows], events[TICK, rows]))]
        tick, participant = events[TICK, rows], events[PARTICIPANT, rows]
        starts = np.flatnonzero(np.r_[True, (tick[1:] != tick[:-1]) | (participant[1:] != participant[:-1])])
        leader[rows] = np.repeat(rows[starts], np.diff(np.r_[starts, len(rows)]))
        ledgers, entries = events[LEDGER, rows].tolist(), events[ENTRY, rows].tolist()
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)]):
            consumer = self._consumers[int(participant[start])]
            places = list(zip(ledgers[start:end], entries[start:end]))
            if kind == ACKS:
                frame = push_ack(consumer, 0, [(ledger, entry, -1, -1) for ledger, entry in places])
            else:
                ids = [pb.MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in places]
                body = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer, message_ids=ids)
                frame = push_frame(body)
            out[int(rows[start])] = frame


_ANSWER = push_frame(pb.CommandAckResponse(consumer_id=0))[8:-3]
"""Type and tag of an ACK_RESPONSE."""
_PING_PONG = {PING: push_frame(pb.CommandPing()), PONG: push_frame(pb.CommandPong())}


def _sized(text: bytes) -> bytes:
    return bytes([len(text)]) + text
