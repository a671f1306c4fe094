"""Bit sets of batch indexes: a Python int inside, 64-bit words on the wire (java.util.BitSet). 1: not acknowledged."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["left_of", "ones", "set_of", "words_of"]

_WORD = 0xFFFFFFFFFFFFFFFF


def ones(count: int) -> int:
    """A set of so many bits, all of them set."""
    return (1 << count) - 1


def left_of(value: int, messages: int) -> int:
    """How many of so many messages are not acknowledged; bits beyond them do not count.

    A client may claim two thousand million messages: no set of that size is made.
    """
    return (value & ones(messages)).bit_count() if value.bit_length() > messages else value.bit_count()


def set_of(words: Iterable[int]) -> int:
    """Words of ``ack_set`` (int64, the lowest first) as one number."""
    value = 0
    for place, word in enumerate(words):
        value |= (word & _WORD) << 64 * place
    return value


def words_of(value: int) -> list[int]:
    """The words of a set, as signed 64-bit numbers; zero words at the end are left out."""
    words = []
    while value:
        word = value & _WORD
        words.append(word - (1 << 64) if word >> 63 else word)
        value >>= 64
    return words
