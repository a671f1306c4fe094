"""Entries that wait for their receipts, and what an answer of the broker does to them.

Rules of this file (ProducerImpl.ackReceived, recoverChecksumError, recoverNotAllowedError, OpSendMsgQueue; 4.2.4)
1. Receipts come in the order of the SENDs. One for the first that waits completes it.
2. A receipt with a lower sequence id belongs to an entry that was given up: ignored. One with a higher id says that
   something was lost: the connection is closed, and all that waits is sent again over the next one.
3. A receipt whose ``highest_sequence_id`` is above its ``sequence_id`` must name the same one as the entry, or the
   connection is closed too. What is lower comes of brokers that do not care, and is ignored.
4. An error names the highest sequence id of its entry. It means the first entry, or one that was given up.
5. An entry whose checksum does not fit its own bytes any more was damaged here, and fails; another one is sent again.
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

__all__ = ["MISMATCH", "OpSendMsg", "PendingSends"]

_SEND: Final = BY_NAME["SEND"].number

MISMATCH: Final = "mismatch"
"""A receipt that fits nothing: the connection is to be closed."""


class OpSendMsg:
    """One entry on its way (OpSendMsg)."""

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
        """The last sequence id of a batch; -1: it is none."""
        self.dones = dones
        """Who is told, for each message."""
        self.count = max(1, len(dones))
        """Messages (a chunk counts as one)."""
        self.size = size
        """Bytes of memory that are free again when it is done."""
        self.time = time
        """When it was made."""
        self.last = last
        """It is no chunk, or the last chunk of its message: the one of which the application is told."""
        self.frame = b""
        """The SEND; empty while its schema is not registered."""
        self.schema: pb.Schema | None = None
        """What is to be registered before it can be sent; None: nothing."""
        self.write: Callable[[bytes], list[OpSendMsg] | ClientFailure] | None = None
        """Where there is a schema to be registered: gives what takes its place, once the version is known."""
        self.flushes: list[Callable[[ClientFailure | None], None]] = []
        """Who waits for everything up to here."""

    @property
    def named(self) -> int:
        """The sequence id by which an error names it."""
        return max(self.highest, self.sequence_id)

    def complete(self, place: MessageId) -> None:
        """It is stored there: tell the application."""
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
        """It will not be stored: tell the application."""
        if not self.last:
            return
        for done in self.dones:
            if done is not None:
                done(failure)
        for flushed in self.flushes:
            flushed(failure)

    @property
    def sound(self) -> bool:
        """Whether its bytes still have their checksum."""
        return Frame(self.frame, _SEND).checksum == "good"


class PendingSends:
    """The entries of one producer that wait, in the order of their SENDs."""

    __slots__ = ("messages", "ops")

    def __init__(self) -> None:
        self.ops: deque[OpSendMsg] = deque()
        self.messages = 0
        """Messages of all of them."""

    def add(self, op: OpSendMsg) -> None:
        """One more, at the end."""
        self.ops.append(op)
        self.messages += op.count

    def receipt(self, sequence_id: int, highest: int) -> OpSendMsg | str | None:
        """The entry that is stored, taken out; MISMATCH; or None: the receipt is late."""
        if not self.ops or sequence_id < self.ops[0].sequence_id:
            return None
        op = self.ops[0]
        if sequence_id > op.sequence_id or (sequence_id < highest != op.highest):
            return MISMATCH
        return self.pop()

    def named(self, sequence_id: int) -> OpSendMsg | None:
        """The first entry, if an error with this sequence id means it; left in the queue."""
        return self.ops[0] if self.ops and self.ops[0].named == sequence_id else None

    def pop(self) -> OpSendMsg:
        """The first entry, taken out."""
        op = self.ops.popleft()
        self.messages -= op.count
        return op

    def replace(self, op: OpSendMsg, others: Sequence[OpSendMsg] = ()) -> None:
        """Others stand in the place of this one, or none."""
        place = self.ops.index(op)
        del self.ops[place]
        for number, other in enumerate(others):
            self.ops.insert(place + number, other)
        self.messages += sum(other.count for other in others) - op.count

    def behind(self, op: OpSendMsg | None) -> list[OpSendMsg]:
        """This one and all behind it; None: all."""
        ops = list(self.ops)
        return ops if op is None else ops[ops.index(op) :]

    def drain(self) -> list[OpSendMsg]:
        """All of them, taken out."""
        ops = list(self.ops)
        self.ops.clear()
        self.messages = 0
        return ops
