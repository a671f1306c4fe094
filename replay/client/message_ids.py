"""Message ids as a client has them: a place in a topic, in a batch, and what of that batch is acknowledged.

Rules of this file (MessageIdAdvUtils, BatchMessageIdImpl, ChunkMessageIdImpl; 4.2.4)
1. Ids are equal, and ordered, by ledger, entry, partition and batch index; the topic and the size of the batch say
   nothing.
2. The ids of one batch share the set of what is not acknowledged yet. An id whose batch is unknown (it was read from a
   text) has no such set, and acknowledging it alone never completes an entry.
3. An id with an index and a size is one of a batch. What is tracked for redelivery is the entry (`whole`).
4. A message of several chunks has the id of its last chunk, and knows the first: a seek and an inclusive start go
   there.
"""

from __future__ import annotations

from functools import total_ordering
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import MessageId

__all__ = ["EARLIEST", "LATEST", "AckSet", "Id"]


class AckSet:
    """What is not acknowledged yet of one batch: bit i is 1 for the message with index i."""

    __slots__ = ("bits",)

    def __init__(self, bits: int) -> None:
        self.bits = bits


@total_ordering
class Id:
    """The id of a message."""

    __slots__ = ("acks", "batch_index", "batch_size", "entry", "first", "ledger", "partition", "topic")

    def __init__(
        self,
        ledger: int,
        entry: int,
        partition: int = -1,
        batch_index: int = -1,
        batch_size: int = 0,
        acks: AckSet | None = None,
        topic: str = "",
        first: Id | None = None,
    ) -> None:
        self.ledger = ledger
        self.entry = entry
        self.partition = partition
        self.batch_index = batch_index
        """-1: the entry is no batch."""
        self.batch_size = batch_size
        """0: not known."""
        self.acks = acks
        """Shared by the ids of the batch; None: not known."""
        self.topic = topic
        """Full name of the topic, with its partition; empty: not known."""
        self.first = first
        """The id of the first chunk; None: the message was not chunked."""

    @classmethod
    def of(cls, data: pb.MessageIdData, topic: str = "") -> Id:
        """The id in a MessageIdData; without the batch's size and set."""
        one = MessageId.of(data)
        return cls(one.ledger, one.entry, one.partition, one.batch, topic=topic)

    @classmethod
    def parse(cls, text: str, topic: str = "") -> Id:
        """The id that a person writes (`codec.wire.MessageId`); LocalError when it is none."""
        one = MessageId.parse(text)
        return cls(one.ledger, one.entry, one.partition, one.batch, topic=topic)

    @property
    def place(self) -> tuple[int, int, int, int]:
        """What ids are compared by."""
        return self.ledger, self.entry, self.partition, self.batch_index

    @property
    def is_batch(self) -> bool:
        """Whether it is one of a batch whose size is known (isBatch)."""
        return self.batch_index >= 0 and self.batch_size > 0

    @property
    def whole(self) -> Id:
        """The id of the entry (discardBatch); of a chunked message its own."""
        if self.first is not None or self.batch_index < 0:
            return self
        return Id(self.ledger, self.entry, self.partition, topic=self.topic)

    @property
    def previous(self) -> Id:
        """The id of the entry before (prevMessageId), which need not exist."""
        return Id(self.ledger, self.entry - 1, self.partition, topic=self.topic)

    def acknowledge(self, *, cumulative: bool = False) -> bool:
        """Mark it in the set of its batch, with all before it if cumulative; whether the entry is done with now."""
        if not self.is_batch:
            return True
        acks = self.acks
        if acks is None:
            return False
        if cumulative:
            acks.bits = acks.bits >> self.batch_index + 1 << self.batch_index + 1
        else:
            acks.bits &= ~(1 << self.batch_index)
        return not acks.bits

    def __eq__(self, other: object) -> bool:
        return self.place == other.place if isinstance(other, Id) else NotImplemented

    def __lt__(self, other: Id) -> bool:
        return self.place < other.place

    def __hash__(self) -> int:
        return hash((self.ledger, self.entry, self.partition, self.batch_index))

    def __str__(self) -> str:
        """As codec.wire.MessageId has it."""
        return str(MessageId(*self.place))

    def __repr__(self) -> str:
        return f"Id({self})"


EARLIEST: Final = Id(-1, -1)
"""Before all messages (MessageId.earliest)."""

LATEST: Final = Id((1 << 63) - 1, (1 << 63) - 1)
"""Behind all messages (MessageId.latest)."""
