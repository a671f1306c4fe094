"""The route of a key in a scalable topic: its hash, its segment and its entry bucket.

The hash is Murmur3 (32 bits, seed 0) of the UTF-8 key. The high 16 bits choose the segment, and the low 16 bits are the
entry hash, which chooses the entry bucket in the segment. Source: entries of a V5 client 5.0.1, recomputed.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

from pcli.codec.scalable.layout import Segment
from pcli.codec.wire.hashes import murmur3_32


@lru_cache(1 << 14)
def key_hashes(key: bytes) -> tuple[int, int]:
    """Return the hash of a key that chooses the segment, and the entry hash; both are 0 to 65535."""
    value = murmur3_32(key)
    return value >> 16, value & 0xFFFF


def bucket_of(segment: Segment, hash_of_entry: int) -> int:
    """Return the index of the entry bucket that has an entry hash."""
    return bisect_right(segment.bucket_starts, hash_of_entry)
