"""Pseudonyms of keys that fall where the keys fall: the same Murmur3 hash, so the same slot whatever the slots are.

Rules of this file
1. Brokers place a key by its Murmur3 hash with the sign bit cut off: modulo 65536 for ranges, modulo 65535 for the
   ring of consistent hashing. Together the two settle the hash, so a pseudonym has the very same one.
2. Murmur3 can be run backwards: of eight bytes the first four are chosen, the others follow. Some hundred choices are
   tried until those are letters and digits too, which takes a fraction of a millisecond.
3. Who can guess a key can test the guess by its hash. That cannot be helped: the slot is what shows why a key waited.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from pcli.codec.wire.hashes import murmur3_31

__all__ = ["key_pseudonyms"]

_MASK: Final = 0xFFFFFFFF
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

# The inverses of the multiplications in MurmurHash3_x86_32, modulo 2 to the 32nd.
_FIRST, _SECOND, _FIVE, _MIX, _LAST = (
    pow(factor, -1, 1 << 32) for factor in (0xCC9E2D51, 0x1B873593, 5, 0x85EBCA6B, 0xC2B2AE35)
)


def key_pseudonyms(key: bytes) -> Iterator[bytes]:
    """All texts of eight letters and digits with the key's hash, always in the same order: several hundred thousand."""
    wanted = murmur3_31(key)
    ends = [_before_end(wanted | sign) for sign in (0, 1 << 31)]
    for choice in product(_LETTERS, repeat=4):
        first = bytes(choice)
        state = _after(first)
        for end in ends:
            last = _block(end, state).to_bytes(4, "little")
            if _ALLOWED.issuperset(last):
                yield first + last


_ALLOWED: Final = frozenset(_LETTERS)


def _after(block: bytes) -> int:
    """The state behind the first block, seed 0."""
    value = int.from_bytes(block, "little") * 0xCC9E2D51 & _MASK
    value = _left(value, 15) * 0x1B873593 & _MASK
    return (_left(value, 13) * 5 + 0xE6546B64) & _MASK


def _before_end(value: int) -> int:
    """The state behind the last block, with which eight bytes end in this hash."""
    value = (value ^ value >> 16) * _LAST & _MASK
    value = (value ^ value >> 13 ^ value >> 26) * _MIX & _MASK
    return value ^ value >> 16 ^ 8


def _block(after: int, before: int) -> int:
    """The block that leads from one state to the other."""
    value = _left((after - 0xE6546B64) * _FIVE & _MASK, 19) ^ before
    return _left(value * _SECOND & _MASK, 17) * _FIRST & _MASK


def _left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
