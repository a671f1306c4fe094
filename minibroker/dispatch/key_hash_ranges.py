"""Ranges of key hashes that a consumer declares (KeySharedMeta.hashRanges), both ends included."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.codec.proto import pb


class KeyHashRanges:
    """A set of slots as ranges."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self.pairs = sorted(pairs)

    @classmethod
    def of(cls, meta: pb.KeySharedMeta) -> KeyHashRanges:
        """Return the ranges that a consumer declared."""
        return cls([(one.start, one.end) for one in meta.hashRanges])

    def __contains__(self, slot: int) -> bool:
        return any(start <= slot <= end for start, end in self.pairs)

    def overlap(self, other: KeyHashRanges) -> tuple[int, int] | None:
        """Return one of these ranges that overlaps ``other``, or None."""
        for start, end in self.pairs:
            for first, last in other.pairs:
                if start <= last and first <= end:
                    return start, end
        return None

    def problem(self) -> str:
        """Return the reason why the ranges are invalid, or an empty string if they are valid."""
        if not self.pairs:
            return "Ranges for KeyShared policy must not be empty."
        for (start, end), following in zip_longest(self.pairs, self.pairs[1:]):
            if start > end:
                return f"Fixed hash range start > end for range: [{start},{end}]"
            if following is not None and following[0] <= end:
                first, last = following
                return f"Consumer's own ranges conflict: [{start},{end}] overlaps with [{first},{last}]"
        return ""
