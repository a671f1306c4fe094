"""The consumer selectors of Key_Shared. They map the slot of a key to a consumer (interface StickyKeyConsumerSelector).

| selector | when | slots |
|---|---|---|
| ConsistentHashing | auto-split with ``subscriptionKeySharedUseConsistentHashing`` (default) | 1 to 65535 |
| HashRangeAutoSplit | auto-split without this setting | 0 to 65535 |
| HashRangeExclusive | sticky: consumers declare their ranges | 0 to 65535 |

The slot of a key is never 0, because 0 means unknown. A key that hashes to 0 gets slot 1. The ring of the Classic
dispatcher has the size of an int.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Final, Protocol

from pcli.codec.proto import pb
from pcli.codec.wire.hashes import CONSISTENT_RANGE, SLOTS, murmur3_31, slot_of
from pcli.minibroker.dispatch.key_hash_ranges import KeyHashRanges
from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer

INT_RANGE: Final = (1 << 31) - 2
"""Size of the ring of the Classic dispatcher."""


class ConsumerSelector(Protocol):
    """Assignment of slots to consumers."""

    def add(self, consumer: Consumer) -> set[Consumer]:
        """Add a consumer. Return the consumers that lost slots. Raises Refused if no slots can be assigned to it."""

    def remove(self, consumer: Consumer) -> set[Consumer]:
        """Remove a consumer. Return the consumers that received its slots."""

    def slot(self, key_hash: int) -> int:
        """Return the slot of a key from its 31-bit Murmur3 hash."""

    def select(self, slot: int) -> Consumer | None:
        """Return the consumer of a slot, or None."""

    def ranges(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Return the ranges of each consumer for statistics. Both ends are included."""


class ConsistentHashing:
    """A ring with ``points`` points per consumer (ConsistentHashingStickyKeyConsumerSelector).

    Consumers with the same name get different indexes. If consumers share a point, the first consumer owns it, and the
    other consumers wait in a queue.
    """

    def __init__(self, points: int, size: int = CONSISTENT_RANGE) -> None:
        self._count = points
        self._size = size
        self._points: list[int] = []
        self._owners: dict[int, list[Consumer]] = {}
        self._index: dict[Consumer, int] = {}
        self._taken: dict[str, set[int]] = {}
        """The indexes of consumers by their name."""

    def add(self, consumer: Consumer) -> set[Consumer]:
        """Add the points of a consumer to the ring. Return the owners of these slots until now."""
        taken = self._taken.setdefault(consumer.name, set())
        index = next(free for free in range(len(taken) + 1) if free not in taken)
        taken.add(index)
        self._index[consumer] = index
        points = self._points_of(consumer.name, index)
        before = self._owners_at(points)
        for point in points:
            owners = self._owners.setdefault(point, [])
            if not owners:
                insort(self._points, point)
            owners.append(consumer)
        return before

    def remove(self, consumer: Consumer) -> set[Consumer]:
        """Remove the points of a consumer. The next consumer in the queue of a point becomes its owner."""
        index, taken = self._index.pop(consumer), self._taken[consumer.name]
        taken.remove(index)
        if not taken:
            del self._taken[consumer.name]
        points = self._points_of(consumer.name, index)
        for point in points:
            owners = self._owners[point]
            owners.remove(consumer)
            if not owners:
                del self._owners[point]
                self._points.pop(bisect_left(self._points, point))
        return self._owners_at(points)

    def slot(self, key_hash: int) -> int:
        """Return the slot of a key, from 1 to the size of the ring."""
        return key_hash % self._size + 1

    def select(self, slot: int) -> Consumer | None:
        """Return the owner of the first point at or above the slot."""
        points = self._points
        if not points:
            return None
        place = bisect_left(points, slot)
        return self._owners[points[place if place < len(points) else 0]][0]

    def ranges(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Return the ranges; adjacent ranges are merged. Slots above the last point belong to the first owner."""
        found: dict[Consumer, list[tuple[int, int]]] = {}
        start = 1
        for point in self._points:
            _join(found.setdefault(self._owners[point][0], []), start, point)
            start = point + 1
        if self._points and start <= self._size:
            _join(found[self._owners[self._points[0]][0]], start, self._size)
        return found

    def _owners_at(self, points: list[int]) -> set[Consumer]:
        return {owner for owner in map(self.select, points) if owner is not None}

    def _points_of(self, name: str, index: int) -> list[int]:
        """Return the distinct points of a consumer."""
        found = (murmur3_31(f"{name}\0{index}\0{point}".encode()) % self._size + 1 for point in range(self._count))
        return list(dict.fromkeys(found))


class HashRangeAutoSplit:
    """A selector that splits the widest range for each new consumer (HashRangeAutoSplitStickyKeyConsumerSelector).

    The new consumer gets the lower half.
    """

    def __init__(self) -> None:
        self._bounds: list[int] = []
        """Upper bounds, ascending; the last bound is SLOTS."""
        self._owners: dict[int, Consumer] = {}

    def add(self, consumer: Consumer) -> set[Consumer]:
        """Assign all slots, or half of the widest range. Raises Refused if no range can be halved."""
        if not self._bounds:
            self._put(SLOTS, consumer)
            return set()
        lower, widest, upper = 0, 0, 0
        for bound in self._bounds:
            if bound - lower > widest:
                widest, upper = bound - lower, bound
            lower = bound
        if widest <= 1:
            raise _refused("No more range can assigned to new consumer")
        self._put(upper - (widest >> 1), consumer)
        return {self._owners[upper]}

    def remove(self, consumer: Consumer) -> set[Consumer]:
        """Merge the consumer's range into the next higher range. The highest range is merged into the one below it."""
        bound = next(bound for bound, owner in self._owners.items() if owner is consumer)
        place = self._bounds.index(bound)
        if bound == SLOTS and place:
            below = self._bounds.pop(place - 1)
            self._owners[SLOTS] = self._owners.pop(below)
        else:
            del self._bounds[place]
            del self._owners[bound]
        owner = self.select(bound)
        return set() if owner is None else {owner}

    def slot(self, key_hash: int) -> int:
        """Return the slot of a key; never 0."""
        return slot_of(key_hash)

    def select(self, slot: int) -> Consumer | None:
        """Return the owner of the smallest bound at or above the slot."""
        if not self._bounds:
            return None
        return self._owners[self._bounds[bisect_left(self._bounds, slot)]]

    def ranges(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Return the single range of each consumer."""
        found: dict[Consumer, list[tuple[int, int]]] = {}
        lower = 0
        for bound in self._bounds:
            found[self._owners[bound]] = [(lower, bound)]
            lower = bound + 1
        return found

    def _put(self, bound: int, consumer: Consumer) -> None:
        insort(self._bounds, bound)
        self._owners[bound] = consumer


class HashRangeExclusive:
    """A selector with disjoint ranges that consumers declare (HashRangeExclusiveStickyKeyConsumerSelector)."""

    def __init__(self) -> None:
        self._ranges: dict[Consumer, KeyHashRanges] = {}
        self._starts: list[int] = []
        self._by_start: list[tuple[int, Consumer]] = []
        """End and owner of each range, ordered by the start of the range."""

    def add(self, consumer: Consumer) -> set[Consumer]:
        """Add a consumer and its ranges. No consumer loses slots.

        Raises Refused if the ranges are invalid or overlap another consumer's ranges.
        """
        meta = consumer.key_shared_meta
        ranges = KeyHashRanges.of(meta) if meta is not None else KeyHashRanges([])
        problem = ranges.problem()
        if problem:
            raise _refused(problem)
        other = self.overlapping_consumer(ranges)
        if other is not None:
            raise _refused(f"Range conflict with consumer {other}")
        self._ranges[consumer] = ranges
        self._sort_ranges()
        return set()

    def overlapping_consumer(self, ranges: KeyHashRanges) -> Consumer | None:
        """Return a consumer whose ranges overlap the ranges in ``meta``, or None."""
        return next((one for one, taken in self._ranges.items() if taken.overlap(ranges)), None)

    def remove(self, consumer: Consumer) -> set[Consumer]:
        """Remove a consumer and its ranges. No consumer receives them."""
        self._ranges.pop(consumer, None)
        self._sort_ranges()
        return set()

    def _sort_ranges(self) -> None:
        dealt = sorted(
            (start, end, number, one)
            for number, (one, ranges) in enumerate(self._ranges.items())
            for start, end in ranges.pairs
        )
        self._starts = [start for start, *_ in dealt]
        self._by_start = [(end, one) for _, end, _, one in dealt]

    def slot(self, key_hash: int) -> int:
        """Return the slot of a key; never 0."""
        return slot_of(key_hash)

    def select(self, slot: int) -> Consumer | None:
        """Return the consumer that declared the slot, or None."""
        place = bisect_right(self._starts, slot) - 1
        if place < 0:
            return None
        end, owner = self._by_start[place]
        return owner if slot <= end else None

    def ranges(self) -> dict[Consumer, list[tuple[int, int]]]:
        """Return the declared ranges."""
        return {one: list(ranges.pairs) for one, ranges in self._ranges.items()}


def _refused(text: str) -> Refused:
    """Return the error for a consumer without slots (ConsumerAssignError)."""
    return Refused(pb.ConsumerAssignError, text)


def _join(ranges: list[tuple[int, int]], start: int, end: int) -> None:
    """Add a range, or merge it with the last range if the two are adjacent."""
    if ranges and ranges[-1][1] == start - 1:
        ranges[-1] = (ranges[-1][0], end)
    else:
        ranges.append((start, end))
