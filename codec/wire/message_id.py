"""Message ids: positions of messages, as text and as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb

# Size of each number in bits, including the sign: the broker uses Java's long and int.
_BITS: Final = (64, 64, 32, 32)
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


def signed(value: int) -> int:
    """Convert an unsigned 64-bit field to signed: 2^64-1 is -1 (uint64 in the proto file, long in the broker)."""
    return value - (1 << 64) if value >= 1 << 63 else value


def position(data: pb.MessageIdData) -> tuple[int, int]:
    """Return ledger and entry as the broker's longs; a number that is missing because of a truncation is -1."""
    ledger, entry = data.ledgerId, data.entryId
    if 0 < ledger < 1 << 63 and 0 < entry < 1 << 63:  # nearly always: the rest is slower
        return ledger, entry
    return (signed(ledger) if data.HasField("ledgerId") else -1, signed(entry) if data.HasField("entryId") else -1)


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """A message id; unset parts are -1.

    Ids are ordered as in the clients (MessageIdAdvUtils): by ledger, entry, partition and batch index. A broker orders
    positions by ledger and entry only.
    """

    ledger: int
    entry: int
    partition: int = -1
    batch: int = -1

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Parse ``ledger:entry[:partition[:batch]]``. Raise LocalError for other text or a number that is too large."""
        words = text.strip().split(":")
        if not 2 <= len(words) <= 4 or not all(map(_NUMBER.fullmatch, words)):
            raise LocalError(f"{text!r} is not a message id: write ledger:entry, ledger:entry:partition or …:batch")
        numbers = [int(word) for word in words]
        for number, bits in zip(numbers, _BITS, strict=False):
            if not -(1 << bits - 1) <= number < 1 << bits - 1:
                raise LocalError(f"{text!r} is not a message id: {number} does not fit into {bits} bits")
        return cls(*numbers)

    @classmethod
    def of(cls, data: pb.MessageIdData) -> MessageId:
        """Return the id of a MessageIdData."""
        return cls(signed(data.ledgerId), signed(data.entryId), data.partition, data.batch_index)

    def proto(self) -> pb.MessageIdData:
        """Return the MessageIdData, without an unset partition or batch. Raise LocalError if a number is too large."""
        data = pb.MessageIdData(ledgerId=self.ledger & 2**64 - 1, entryId=self.entry & 2**64 - 1)
        try:
            if self.partition != -1:
                data.partition = self.partition
            if self.batch != -1:
                data.batch_index = self.batch
        except ValueError:
            raise LocalError(f"{self}: partition and batch index have 32 bits") from None
        return data

    def __str__(self) -> str:
        """Return ``ledger:entry``, ``ledger:entry:partition`` or, if the batch index is set, all four numbers."""
        text = f"{self.ledger}:{self.entry}"
        if self.partition == -1 and self.batch == -1:
            return text
        return f"{text}:{self.partition}" if self.batch == -1 else f"{text}:{self.partition}:{self.batch}"
