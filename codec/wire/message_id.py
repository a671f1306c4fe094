"""Message ids: where a message lies, as text and as a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb

__all__ = ["MessageId", "signed"]

# Bits of each number with its sign: Java's long and int, as the broker keeps them.
_BITS: Final = (64, 64, 32, 32)
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


def signed(value: int) -> int:
    """An unsigned 64-bit field as it is meant: 2^64-1 is -1 (proto has uint64 where the broker has Java's long)."""
    return value - (1 << 64) if value >= 1 << 63 else value


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """An id. -1: none.

    The order is that of the clients (MessageIdAdvUtils): ledger, entry, partition, batch index. The positions by which
    a broker orders are ledger and entry alone.
    """

    ledger: int
    entry: int
    partition: int = -1
    batch: int = -1

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read ``ledger:entry[:partition[:batch]]``; LocalError if it is none, or a number is too large."""
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
        """The value of a MessageIdData."""
        return cls(signed(data.ledgerId), signed(data.entryId), data.partition, data.batch_index)

    def proto(self) -> pb.MessageIdData:
        """The MessageIdData; what is -1 is left out, but for ledger and entry. LocalError: a number too large."""
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
        """``ledger:entry``, ``:partition`` when it or the batch index is set, ``:batch`` when set."""
        text = f"{self.ledger}:{self.entry}"
        if self.partition == -1 and self.batch == -1:
            return text
        return f"{text}:{self.partition}" if self.batch == -1 else f"{text}:{self.partition}:{self.batch}"
