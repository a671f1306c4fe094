"""Pseudonyms of keys, with the same Murmur3 hash as the key: the slots, segments and buckets of both are equal.

Rules of this file
1. Brokers compute the slot of a key from its Murmur3 hash without the sign bit: modulo 65536 for ranges, and modulo
   65535 for consistent hashing. V5 clients use all 32 bits, for segments and entry buckets. A pseudonym must therefore
   have exactly the same hash.
2. Murmur3 can be inverted: the first four of eight bytes determine the other four. A few hundred choices are tried
   until all eight bytes are letters and digits, which takes a fraction of a millisecond.
3. A guess of the key can be verified by its hash. This is unavoidable, because a diagnosis needs the key's slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from pcli.codec.wire.hashes import murmur3_32

_MASK: Final = 0xFFFFFFFF
_LETTERS: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

# The inverses of the multipliers of MurmurHash3_x86_32, modulo 2 to the 32nd.
_FIRST, _SECOND, _FIVE, _MIX, _LAST = (
    pow(factor, -1, 1 << 32) for factor in (0xCC9E2D51, 0x1B873593, 5, 0x85EBCA6B, 0xC2B2AE35)
)


def key_pseudonyms(key: bytes) -> Iterator[bytes]:
    """Yield all strings of eight letters and digits with the key's hash (about 50,000) in a fixed order."""
    end = _before_end(murmur3_32(key))
    for choice in product(_LETTERS, repeat=4):
        first = bytes(choice)
        last = _block(end, _after(first)).to_bytes(4, "little")
        if _ALLOWED.issuperset(last):
            yield first + last


_ALLOWED: Final = frozenset(_LETTERS)


def _after(block: bytes) -> int:
    """Return the state after the first block, with seed 0."""
    value = int.from_bytes(block, "little") * 0xCC9E2D51 & _MASK
    value = _left(value, 15) * 0x1B873593 & _MASK
    return (_left(value, 13) * 5 + 0xE6546B64) & _MASK


def _before_end(value: int) -> int:
    """Return the state after the second of two blocks that results in this hash."""
    value = (value ^ value >> 16) * _LAST & _MASK
    value = (value ^ value >> 13 ^ value >> 26) * _MIX & _MASK
    return value ^ value >> 16 ^ 8


def _block(after: int, before: int) -> int:
    """Return the block that changes the state ``before`` to ``after``."""
    value = _left((after - 0xE6546B64) * _FIVE & _MASK, 19) ^ before
    return _left(value * _SECOND & _MASK, 17) * _FIRST & _MASK


def _left(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
