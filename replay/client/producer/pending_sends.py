"""Entries that wait for their receipts, and the effects of the broker's responses.

Rules of this file (ProducerImpl.ackReceived, recoverChecksumError, recoverNotAllowedError, OpSendMsgQueue; 4.2.4)
1. Receipts arrive in the order of the SENDs. A receipt for the first pending entry completes it.
2. A receipt with a lower sequence id belongs to an entry that is no longer pending, and is ignored. A higher id means
   that an entry was lost: the connection is closed, and all pending entries are resent on the next connection.
3. If the ``highest_sequence_id`` of a receipt is above its ``sequence_id``, it must be equal to the entry's highest
   sequence id; otherwise the connection is also closed. Lower values come from brokers that do not set the field, and
   are ignored.
4. An error contains the highest sequence id of its entry. It applies to the first entry, or to an entry that is no
   longer pending.
5. An entry whose checksum does not match its own bytes was damaged in the client. It fails, and other entries are
   resent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import MessageId
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.batch_container import Done

_SEND: Final = BY_NAME["SEND"].number

MISMATCH: Final = "mismatch"
"""A receipt that matches no entry. The connection must then be closed."""


class OpSendMsg:
    """One entry that waits for its receipt (OpSendMsg)."""

    __slots__ = (
        "count",
        "dones",
        "flushes",
        "frame",
        "highest",
        "last",
        "schema",
        "sequence_id",
        "size",
        "time",
        "write",
    )

    def __init__(
        self, sequence_id: int, highest: int, dones: Sequence[Done | None], size: int, time: int, *, last: bool = True
    ) -> None:
        self.sequence_id = sequence_id
        self.highest = highest
        """The last sequence id of a batch; -1 if the entry is not a batch."""
        self.dones = dones
        """One callback for each message."""
        self.count = max(1, len(dones))
        """Number of messages. A chunk counts as one message."""
        self.size = size
        """Number of reserved bytes to release when the entry is complete."""
        self.time = time
        """Creation time."""
        self.last = last
        """Whether the callbacks belong to this entry. This is false only for chunks before the last chunk."""
        self.frame = b""
        """The SEND frame; empty until the schema is registered."""
        self.schema: pb.Schema | None = None
        """The schema to register before the entry is sent, or None."""
        self.write: Callable[[bytes], list[OpSendMsg] | ClientFailure] | None = None
        """The function that builds the entries that replace this entry when the version of ``schema`` is known."""
        self.flushes: list[Callable[[ClientFailure | None], None]] = []
        """Callbacks that wait for all entries up to this entry."""

    @property
    def named(self) -> int:
        """The sequence id of this entry in an error."""
        return max(self.highest, self.sequence_id)

    def complete(self, place: MessageId) -> None:
        """Report the entry as stored."""
        if not self.last:
            return
        dones = self.dones
        if self.highest < 0:
            for done in dones:
                if done is not None:
                    done(place)
        else:
            for index, done in enumerate(dones):
                if done is not None:
                    done(MessageId(place.ledger, place.entry, place.partition, index))
        for flushed in self.flushes:
            flushed(None)

    def fail(self, failure: ClientFailure) -> None:
        """Report the entry as failed."""
        if not self.last:
            return
        for done in self.dones:
            if done is not None:
                done(failure)
        for flushed in self.flushes:
            flushed(failure)

    @property
    def sound(self) -> bool:
        """Whether the checksum matches the bytes."""
        return Frame(self.frame, _SEND).checksum == "good"


class PendingSends:
    """The pending entries of one producer, in the order of their SENDs."""

    def __init__(self) -> None:
        self.ops: deque[OpSendMsg] = deque()
        self.messages = 0
        """Number of messages in all entries."""

    def add(self, op: OpSendMsg) -> None:
        """Append an entry."""
        self.ops.append(op)
        self.messages += op.count

    def receipt(self, sequence_id: int, highest: int) -> OpSendMsg | str | None:
        """Remove and return the entry that a receipt completes. Return MISMATCH, or None if the receipt is late."""
        if not self.ops or sequence_id < self.ops[0].sequence_id:
            return None
        op = self.ops[0]
        if sequence_id > op.sequence_id or (sequence_id < highest != op.highest):
            return MISMATCH
        return self.pop()

    def named(self, sequence_id: int) -> OpSendMsg | None:
        """Return the first entry if its errors contain this sequence id, or else None. The entry remains queued."""
        return self.ops[0] if self.ops and self.ops[0].named == sequence_id else None

    def pop(self) -> OpSendMsg:
        """Remove and return the first entry."""
        op = self.ops.popleft()
        self.messages -= op.count
        return op

    def replace(self, op: OpSendMsg, others: Sequence[OpSendMsg] = ()) -> None:
        """Replace an entry with other entries, or remove it."""
        place = self.ops.index(op)
        del self.ops[place]
        for number, other in enumerate(others):
            self.ops.insert(place + number, other)
        self.messages += sum(other.count for other in others) - op.count

    def after(self, op: OpSendMsg | None) -> list[OpSendMsg]:
        """Return this entry and all later entries, or all entries if ``entry`` is None."""
        ops = list(self.ops)
        return ops if op is None else ops[ops.index(op) :]

    def drain(self) -> list[OpSendMsg]:
        """Remove and return all entries."""
        ops = list(self.ops)
        self.ops.clear()
        self.messages = 0
        return ops
