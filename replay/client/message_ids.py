"""Message ids of the client: position in the topic, index in the batch, and the ack set of the batch.

Rules of this file (MessageIdAdvUtils, BatchMessageIdImpl, ChunkMessageIdImpl; 4.2.4)
1. Ids are compared by ledger, entry, partition and batch index; topic and batch size are ignored.
2. The ids of one batch share its ack set. An id whose batch size is unknown (for example an id parsed from text) has no
   ack set, and its acknowledgement never completes an entry.
3. An id belongs to a batch if it has a batch index and a batch size. Redelivery is tracked by entry (`whole`).
4. The id of a chunked message is the id of its last chunk, and contains the first chunk's id, which a seek and an
   inclusive start use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import MessageId


class AckSet:
    """The unacknowledged messages in one batch: bit i is 1 for the message with index i."""

    __slots__ = ("bits",)

    def __init__(self, bits: int) -> None:
        self.bits = bits


@total_ordering
@dataclass(slots=True, eq=False, repr=False)
class ClientMessageId:
    """The id of a message."""

    ledger: int
    entry: int
    partition: int = -1
    batch_index: int = -1
    """Index in the batch; -1 if the entry is not a batch."""
    batch_size: int = 0
    """Number of messages in the batch; 0 if unknown."""
    acks: AckSet | None = None
    """The ack set that the ids of the batch share; None if unknown."""
    topic: str = ""
    """Full name of the topic, with its partition; empty if unknown."""
    first: ClientMessageId | None = None
    """The id of the first chunk; None if the message is not chunked."""

    @classmethod
    def of(cls, data: pb.MessageIdData, topic: str = "") -> ClientMessageId:
        """Return the id in a MessageIdData, without a batch size or an ack set."""
        one = MessageId.of(data)
        return cls(one.ledger, one.entry, one.partition, one.batch, topic=topic)

    @classmethod
    def parse(cls, text: str, topic: str = "") -> ClientMessageId:
        """Parse an id as a user writes it (`codec.wire.MessageId`). Raises LocalError if it is invalid."""
        one = MessageId.parse(text)
        return cls(one.ledger, one.entry, one.partition, one.batch, topic=topic)

    @property
    def place(self) -> tuple[int, int, int, int]:
        """The key for comparisons."""
        return self.ledger, self.entry, self.partition, self.batch_index

    @property
    def is_batch(self) -> bool:
        """Whether the id is in a batch of known size (isBatch)."""
        return self.batch_index >= 0 and self.batch_size > 0

    @property
    def whole(self) -> ClientMessageId:
        """The id of the entry (discardBatch); for a chunked message, the id itself."""
        if self.first is not None or self.batch_index < 0:
            return self
        return ClientMessageId(self.ledger, self.entry, self.partition, topic=self.topic)

    @property
    def previous(self) -> ClientMessageId:
        """The id of the previous entry (prevMessageId), which may not exist."""
        return ClientMessageId(self.ledger, self.entry - 1, self.partition, topic=self.topic)

    def acknowledge(self, *, cumulative: bool = False) -> bool:
        """Clear the id's bit in the ack set and, if ``cumulative`` is set, all earlier bits.

        Return whether all bits are clear.
        """
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
        return self.place == other.place if isinstance(other, ClientMessageId) else NotImplemented

    def __lt__(self, other: ClientMessageId) -> bool:
        return self.place < other.place

    def __hash__(self) -> int:
        return hash((self.ledger, self.entry, self.partition, self.batch_index))

    def __str__(self) -> str:
        """Return the text form of codec.wire.MessageId."""
        return str(MessageId(*self.place))

    def __repr__(self) -> str:
        return f"ClientMessageId({self})"


EARLIEST: Final = ClientMessageId(-1, -1)
"""The position before all messages (MessageId.earliest)."""

LATEST: Final = ClientMessageId((1 << 63) - 1, (1 << 63) - 1)
"""The position after all messages (MessageId.latest)."""
