"""Key hashes and the arithmetic of slots.

Sources: java.lang.String.hashCode; MurmurHash3_x86_32 (Austin Appleby, public domain description) with seed 0 as
Pulsar's Murmur3_32Hash uses it; StickyKeyConsumerSelectorUtils for the slots of Key_Shared.
"""

from __future__ import annotations

import binascii
from contextlib import suppress
from typing import Final

from pcli.codec.errors import LocalError

__all__ = [
    "CONSISTENT_RANGE",
    "SLOTS",
    "consistent_hash",
    "java_string_hash",
    "murmur3_31",
    "murmur3_32",
    "partition_key_bytes",
    "partition_of",
    "slot_of",
    "sticky_hash",
]

SLOTS: Final = 65536
"""Slots of Key_Shared with ranges (auto-split or sticky): 0 to 65535."""

CONSISTENT_RANGE: Final = 65535
"""Places on the ring of Key_Shared with consistent hashing: 1 to 65535."""

_MASK: Final = 0xFFFFFFFF


def java_string_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 code units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & _MASK
    return value - (1 << 32) if value >> 31 else value


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """MurmurHash3_x86_32, unsigned 32-bit."""
    value = seed
    whole = len(data) & ~3
    for index in range(0, whole, 4):
        value ^= _scramble(int.from_bytes(data[index : index + 4], "little"))
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        value ^= _scramble(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def _scramble(block: int) -> int:
    block = block * 0xCC9E2D51 & _MASK
    # The rotation keeps its high bits until the multiplication is masked: mask both, or large blocks go wrong.
    block = (block << 15 | block >> 17) & _MASK
    return block * 0x1B873593 & _MASK


def murmur3_31(data: bytes) -> int:
    """Murmur3 as Pulsar uses it: seed 0, the sign bit cut off."""
    return murmur3_32(data) & 0x7FFFFFFF


def partition_key_bytes(key: bytes, *, base64_encoded: bool) -> bytes:
    """Return the bytes of a partition key that are hashed for Key_Shared (Commands.resolveStickyKey).

    ``base64_encoded``: the field partition_key_b64_encoded. A key that is not valid base64 is hashed as it is.
    """
    if base64_encoded:
        with suppress(binascii.Error):
            return binascii.a2b_base64(key)
    return key


def slot_of(key_hash: int, slots: int = SLOTS) -> int:
    """The slot of a Murmur3 hash among 0..slots-1, for auto-split by ranges and sticky ranges; 0 is kept free: 1."""
    return key_hash % slots or 1


def sticky_hash(key: bytes, slots: int = SLOTS) -> int:
    """The slot of a key."""
    return slot_of(murmur3_31(key), slots)


def consistent_hash(key: bytes) -> int:
    """The place of a key on the ring of consistent hashing, 1..65535."""
    return murmur3_31(key) % CONSISTENT_RANGE + 1


def partition_of(key: str, partitions: int, *, murmur: bool = False) -> int:
    """The partition to which a client routes a key: JavaStringHash by default, Murmur3_32Hash by setting.

    LocalError for a topic of no partitions.
    """
    if partitions < 1:
        raise LocalError(f"{partitions} partitions: at least one is needed")
    # Half of a surrogate pair is a question mark to String.getBytes.
    value = murmur3_31(key.encode(errors="replace")) if murmur else java_string_hash(key) & 0x7FFFFFFF
    return value % partitions
