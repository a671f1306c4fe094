"""The changes of a layout: creation, split, merge, rebucket, prune and migration.

Rules of this file (measured on 5.0.1)
1. The initial segments have equal widths, rounded down; the last one has the rest. They share the entry buckets of
   ``scalableTopicEntryBucketBudget``, and each has at least one.
2. A split divides the range and the entry buckets of a segment in two, rounded down. A merge adds the buckets of its
   two segments. The new segment of a rebucket has the same range.
3. The bounds of entry buckets divide the 65536 entry hashes evenly, whatever the range of the segment is.
4. A segment that is pruned also disappears from the parents and children of the others.

Each function returns a new layout, and raises LayoutError if the change is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence

from pcli.codec.scalable import Layout, Segment
from pcli.codec.scalable.segment_name import HASHES, initial_starts


class LayoutError(Exception):
    """A change that a layout does not permit. The text is that of the real broker."""


def _bounds(buckets: int) -> tuple[int, ...]:
    """Return the first entry hashes of all buckets but the first."""
    return tuple(HASHES * index // buckets for index in range(1, buckets))


def _ranges(count: int) -> list[tuple[int, int]]:
    if count > HASHES:
        raise LayoutError("end must be in [0x0000, 0xFFFF], got: -1")
    starts = initial_starts(count)
    return list(zip(starts, [*(start - 1 for start in starts[1:]), HASHES - 1], strict=True))


def buckets(segment: Segment) -> int:
    """Return the number of entry buckets of a segment."""
    return len(segment.bucket_starts) + 1


def initial(count: int, budget: int, now: int) -> Layout:
    """Return the layout of a new topic with ``count`` segments and a budget of entry buckets."""
    splits = _bounds(max(1, budget // count))
    segments = [
        Segment(index, start, end, active=True, created_ms=now, bucket_starts=splits)
        for index, (start, end) in enumerate(_ranges(count))
    ]
    return Layout(0, {one.id: one for one in segments}, {})


def of_classic_topic(names: Sequence[str], now: int) -> Layout:
    """Return the layout that a lookup shows of a classic topic: its partitions are the segments."""
    segments = [
        Segment(index, start, end, active=True, created_ms=now, legacy_topic=name)
        for index, (name, (start, end)) in enumerate(zip(names, _ranges(len(names)), strict=True))
    ]
    return Layout(0, {one.id: one for one in segments}, {})


def migrated(names: Sequence[str], budget: int, now: int) -> Layout:
    """Return the layout of a migrated classic topic: its partitions are sealed, and each has all new children."""
    count = len(names)
    new = range(count, 2 * count)
    old = [
        Segment(
            index, 0, HASHES - 1, active=False, children=tuple(new), sealed_epoch=0, created_ms=now, sealed_ms=now,
            legacy_topic=name,
        )
        for index, name in enumerate(names)
    ]  # fmt: skip
    parents = tuple(range(count))
    fresh = [one._replace(id=count + one.id, parents=parents) for one in initial(count, budget, now).segments.values()]
    return Layout(0, {one.id: one for one in [*old, *fresh]}, {})


def _replaced(layout: Layout, sealed: Sequence[Segment], new: Sequence[Segment], now: int) -> Layout:
    """Return the next layout: some segments are sealed, and the new ones, whose ids are missing, are their children."""
    epoch = layout.epoch + 1
    first = max(layout.segments) + 1
    parents = tuple(one.id for one in sealed)
    children = tuple(range(first, first + len(new)))
    segments = dict(layout.segments)
    for number in parents:
        segments[number] = segments[number]._replace(active=False, children=children, sealed_epoch=epoch, sealed_ms=now)
    for number, one in zip(children, new, strict=True):
        segments[number] = one._replace(id=number, parents=parents, created_epoch=epoch, created_ms=now)
    return layout._replace(epoch=epoch, segments=segments)


def _get(layout: Layout, number: int) -> Segment:
    if number not in layout.segments:
        raise LayoutError(f"Segment not found: {number}")
    return layout.segments[number]


def split(layout: Layout, number: int, now: int) -> Layout:
    """Split an active segment in the middle."""
    parent = _get(layout, number)
    if not parent.active:
        raise LayoutError(f"Cannot split non-active segment: {number}")
    if parent.start == parent.end:
        raise LayoutError("Cannot split range of size 1")
    middle = (parent.start + parent.end) // 2
    splits = _bounds(max(1, buckets(parent) // 2))
    parts = (parent.start, middle), (middle + 1, parent.end)
    new = [Segment(-1, start, end, active=True, bucket_starts=splits) for start, end in parts]
    return _replaced(layout, [parent], new, now)


def merge(layout: Layout, first: int, second: int, most_buckets: int, now: int) -> Layout:
    """Merge two active segments with adjacent ranges, in any order."""
    if not {first, second} <= layout.segments.keys():
        raise LayoutError("Segment not found")
    one, other = layout.segments[first], layout.segments[second]
    if not (one.active and other.active):
        raise LayoutError("Both segments must be active")
    low, high = sorted((one, other), key=lambda segment: segment.start)
    if low.end + 1 != high.start:
        ranges = [f"[{segment.start:04x}, {segment.end:04x}]" for segment in (one, other)]
        raise LayoutError(f"Segments are not adjacent: {ranges[0]} and {ranges[1]}")
    splits = _bounds(min(buckets(low) + buckets(high), most_buckets))
    return _replaced(layout, [one, other], [Segment(-1, low.start, high.end, active=True, bucket_starts=splits)], now)


def rebucket(layout: Layout, number: int, count: int, most_buckets: int, now: int) -> Layout:
    """Replace an active segment by one with the same range and ``count`` entry buckets."""
    if not 1 <= count <= most_buckets:
        raise LayoutError(f"bucketCount must be in [1, {most_buckets}]: {count}")
    parent = _get(layout, number)
    if not parent.active:
        raise LayoutError(f"Cannot rebucket non-active segment: {number}")
    new = Segment(-1, parent.start, parent.end, active=True, bucket_starts=_bounds(count))
    if new.bucket_starts == parent.bucket_starts:
        raise LayoutError(f"Segment {number} already has the requested entry-bucket splits")
    return _replaced(layout, [parent], [new], now)


def prune(layout: Layout, number: int) -> Layout:
    """Remove a sealed segment."""
    segments = {
        one.id: one._replace(
            parents=tuple(other for other in one.parents if other != number),
            children=tuple(other for other in one.children if other != number),
        )
        for one in layout.segments.values()
        if one.id != number
    }
    return layout._replace(epoch=layout.epoch + 1, segments=segments)


def times_of_changes(layout: Layout) -> dict[str, int]:
    """Return the times of the last split, merge and rebucket that a layout shows, in milliseconds since 1970.

    A migration counts as a merge, or as a rebucket if the classic topic has no partitions.
    """
    found: dict[str, int] = {}
    for one in layout.segments.values():
        parents = [layout.segments[number] for number in one.parents]
        if parents:
            same = (parents[0].start, parents[0].end) == (one.start, one.end)
            kind = "merge" if len(parents) > 1 else "rebucket" if same else "split"
            found[kind] = max(found.get(kind, 0), one.created_ms)
    return found
