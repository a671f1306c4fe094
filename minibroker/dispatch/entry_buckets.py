"""The consumer selector for entry buckets, by which the stream consumers of a segment share it (5.0).

Rules of this file (measured on 5.0.1)
1. Each consumer declares the same buckets: ranges of entry hashes that follow each other from 0 to 65535.
2. Of B buckets, consumer i of n, in the order of their names and ids, gets the buckets from i*B/n, rounded down, to the
   next consumer's (EntryBucketConsumerSelector).
3. The entry hash of an entry is its ``entry_hash_min``, or else the lower 16 bits of the hash of its key.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.codec.scalable.segment_name import HASHES
from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.topics.consumer import Consumer


def uses_entry_buckets(meta: pb.KeySharedMeta | None, settings: Settings) -> bool:
    """Return whether a consumer requests entry buckets. A version without scalable topics ignores the request."""
    return meta is not None and meta.entry_bucket_dispatch and settings.scalableTopicsEnabled


class EntryBucketSelector:
    """The buckets of a subscription (class ConsumerSelector). A slot is the number of a bucket, from 1."""

    def __init__(self) -> None:
        self._buckets: list[tuple[int, int]] = []
        self._starts: list[int] = []
        self._consumers: list[Consumer] = []

    def add(self, consumer: Consumer) -> set[Consumer]:
        """Add a consumer. Raises Refused if its buckets are invalid or differ from those of the others."""
        meta = consumer.key_shared_meta
        declared = [(one.start, one.end) for one in meta.hashRanges] if meta is not None else []
        _check(declared)
        if not self._consumers:
            self._buckets, self._starts = declared, [start for start, _ in declared]
        elif declared != self._buckets:
            theirs, ours = ([list(one) for one in ranges] for ranges in (declared, self._buckets))
            text = f"Consumer declares different entry-bucket boundaries than the subscription: {theirs} != {ours}"
            raise Refused(pb.ConsumerAssignError, text)
        losers = set(self._consumers)
        self._consumers.append(consumer)
        self._consumers.sort(key=lambda one: (one.name, one.id))
        return losers

    def remove(self, consumer: Consumer) -> set[Consumer]:
        """Remove a consumer. All others can receive buckets."""
        self._consumers.remove(consumer)
        return set(self._consumers)

    def slot(self, key_hash: int) -> int:
        """Return the number of the bucket of an entry hash."""
        return bisect_right(self._starts, key_hash % HASHES)

    def select(self, slot: int) -> Consumer | None:
        """Return the consumer of a bucket, or None if there are no consumers."""
        count = len(self._consumers)
        return self._consumers[(slot * count - 1) // len(self._buckets)] if count else None

    def ranges(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Return the buckets of each consumer."""
        found: dict[Consumer, list[tuple[int, int]]] = {one: [] for one in self._consumers}
        for slot, bucket in enumerate(self._buckets, 1):
            owner = self.select(slot)
            if owner is not None:
                found[owner].append(bucket)
        return found


def _check(ranges: list[tuple[int, int]]) -> None:
    """Raise Refused (UnknownError) unless the ranges follow each other from 0 to 65535."""
    expected = 0
    if not ranges:
        raise Refused(pb.UnknownError, "Entry-bucket subscription must declare the segment's bucket boundaries")
    for start, end in ranges:
        if start != expected or end < start:
            rule = "Entry-bucket boundaries must be ascending, contiguous and start at 0"
            raise Refused(pb.UnknownError, f"{rule}: found [{start},{end}] where start {expected} was expected")
        expected = end + 1
    if expected != HASHES:
        rule = "Entry-bucket boundaries must tile the 16-bit ring"
        raise Refused(pb.UnknownError, f"{rule}: last range ends at {expected - 1}")
