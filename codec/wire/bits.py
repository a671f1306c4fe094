"""Bit sets of unacknowledged batch indexes: a Python int, or 64-bit words on the wire (java.util.BitSet)."""

from __future__ import annotations

from collections.abc import Iterable
from struct import pack, unpack

_WORD = 0xFFFFFFFFFFFFFFFF


def ones(count: int) -> int:
    """Return a set of ``count`` bits, all of them 1."""
    return (1 << count) - 1


def left_of(value: int, messages: int) -> int:
    """Return the number of unacknowledged messages in a batch; bits beyond the batch size are ignored.

    No set with that many bits is created, because a client may send a batch size of two billion.
    """
    return (value & ones(messages)).bit_count() if value.bit_length() > messages else value.bit_count()


def set_of(words: Iterable[int]) -> int:
    """Return the words of ``ack_set`` (int64, lowest first) as one number."""
    packed = [word & _WORD for word in words]
    return int.from_bytes(pack(f"<{len(packed)}Q", *packed), "little")


def words_of(value: int) -> list[int]:
    """Return a set's words as signed 64-bit numbers, without zero words at the end."""
    count = (value.bit_length() + 63) // 64
    return list(unpack(f"<{count}q", value.to_bytes(8 * count, "little")))
