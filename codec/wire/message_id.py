"""Message ids: where a message lies, as text and as a value; and the bit sets of partly acknowledged batches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb

__all__ = ["MessageId", "pull_ack_set", "push_ack_set", "signed"]


def signed(value: int) -> int:
    """An unsigned 64-bit field as it is meant: 2^64-1 is -1 (proto has uint64 where the broker has Java's long)."""
    return value - (1 << 64) if value >> 63 else value


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """An id, ordered as the broker orders: ledger, entry, then index in the batch. -1: none."""

    ledger: int
    entry: int
    partition: int = -1
    batch: int = -1

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read ``ledger:entry[:partition[:batch]]``; LocalError if it is nothing like that."""
        words = text.strip().split(":")
        try:
            numbers = [int(word) for word in words]
        except ValueError:
            numbers = []
        if not 2 <= len(numbers) <= 4:
            raise LocalError(f"{text!r} is no message id: write ledger:entry, ledger:entry:partition or …:batch")
        return cls(*numbers)

    @classmethod
    def of(cls, data: pb.MessageIdData) -> MessageId:
        """The value of a MessageIdData."""
        return cls(signed(data.ledgerId), signed(data.entryId), data.partition, data.batch_index)

    def proto(self) -> pb.MessageIdData:
        """The MessageIdData; what is -1 is left out, but for ledger and entry."""
        data = pb.MessageIdData(ledgerId=self.ledger & 2**64 - 1, entryId=self.entry & 2**64 - 1)
        if self.partition != -1:
            data.partition = self.partition
        if self.batch != -1:
            data.batch_index = self.batch
        return data

    def __str__(self) -> str:
        """``ledger:entry``, ``:partition`` when it or the batch index is set, ``:batch`` when set."""
        text = f"{self.ledger}:{self.entry}"
        if self.partition == -1 and self.batch == -1:
            return text
        return f"{text}:{self.partition}" if self.batch == -1 else f"{text}:{self.partition}:{self.batch}"


def pull_ack_set(words: Iterable[int], size: int) -> list[int]:
    """The batch indexes below ``size`` whose bit is set: those that are not acknowledged (java.util.BitSet)."""
    bits = 0
    for place, word in enumerate(words):
        if place * 64 >= size:
            break
        bits |= (word & 2**64 - 1) << 64 * place
    return [index for index in range(size) if bits >> index & 1]


def push_ack_set(indexes: Iterable[int]) -> list[int]:
    """The words of a bit set with these bits, signed 64-bit; no trailing zero words (BitSet.toLongArray)."""
    words: list[int] = []
    for index in indexes:
        place = index >> 6
        words += [0] * (place + 1 - len(words))
        words[place] |= 1 << (index & 63)
    return [signed(word) for word in words]
