"""Key hashes, and the slots and partitions computed from them.

Sources: java.lang.String.hashCode; MurmurHash3_x86_32 (Austin Appleby, public domain description) with seed 0 as in
Pulsar's Murmur3_32Hash; StickyKeyConsumerSelectorUtils for the slots of Key_Shared.
"""

from __future__ import annotations

import binascii
from contextlib import suppress
from typing import Final

from pcli.codec.errors import LocalError

SLOTS: Final = 65536
"""Number of slots of a Key_Shared subscription with ranges (auto-split or sticky): 0 to 65535."""

CONSISTENT_RANGE: Final = 65535
"""Number of points on the ring of a Key_Shared subscription with consistent hashing: 1 to 65535."""

_MASK: Final = 0xFFFFFFFF


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode, computed from UTF-16 code units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & _MASK
    return value - (1 << 32) if value >> 31 else value


def murmur3_32(data: bytes) -> int:
    """Return the MurmurHash3_x86_32 of data, with seed 0, as an unsigned 32-bit number."""
    value = 0
    whole = len(data) & ~3
    for index in range(0, whole, 4):
        value ^= _mix_block(int.from_bytes(data[index : index + 4], "little"))
        value = ((value << 13 | value >> 19) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        value ^= _mix_block(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    return value ^ value >> 16


def _mix_block(block: int) -> int:
    block = block * 0xCC9E2D51 & _MASK
    # The rotation sets bits above the lowest 32; the mask removes them.
    block = (block << 15 | block >> 17) & _MASK
    return block * 0x1B873593 & _MASK


def murmur3_31(data: bytes) -> int:
    """Return Pulsar's variant of Murmur3: seed 0, without the sign bit."""
    return murmur3_32(data) & 0x7FFFFFFF


def partition_key_bytes(key: bytes, *, base64_encoded: bool) -> bytes:
    """Return the bytes that Key_Shared hashes for a partition key (Commands.resolveStickyKey).

    ``base64_encoded`` is the field partition_key_b64_encoded. A key that is not valid base64 is hashed unchanged.
    """
    if base64_encoded:
        with suppress(binascii.Error):
            return binascii.a2b_base64(key)
    return key


def slot_of(key_hash: int, slots: int = SLOTS) -> int:
    """Return the slot, 1 to slots-1, of a Murmur3 hash for auto-split and sticky ranges. Slot 0 is reserved."""
    return key_hash % slots or 1


def sticky_hash(key: bytes, slots: int = SLOTS) -> int:
    """Return the slot of a key."""
    return slot_of(murmur3_31(key), slots)


def partition_of(key: str, partitions: int, *, murmur: bool = False) -> int:
    """Return the partition to which a client routes a key. JavaStringHash is the default; Murmur3_32Hash is optional.

    Raise LocalError for a topic with no partitions.
    """
    if partitions < 1:
        raise LocalError(f"{partitions} partitions: at least one is needed")
    # String.getBytes encodes a lone surrogate as a question mark.
    value = murmur3_31(key.encode(errors="replace")) if murmur else java_string_hash(key) & 0x7FFFFFFF
    return value % partitions
