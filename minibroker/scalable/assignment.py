"""The assignment of segments to the stream and checkpoint consumers of a subscription.

Rules of this file (measured on 5.0.1)
1. Consumers are in the order of their names, and segments in the order of their ranges.
2. With at most as many consumers as segments, segment i belongs to consumer i modulo the number of consumers.
3. With more stream consumers, a segment is shared by as many consumers as it has entry buckets at most. Each segment
   gets one consumer, then a second one, and so on; consumers beyond the last bucket get nothing. The consumers of a
   segment follow each other in the order of names. Each gets all buckets of the segment, and the owner of the segment
   divides them.
4. A stream consumer reads a segment only after the subscription has acknowledged everything in its sealed ancestors.
   A checkpoint consumer reads all segments at once, and shares none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout, Segment
from pcli.codec.scalable.segment_name import HASHES
from pcli.minibroker.scalable.layout_changes import buckets

Assignment = dict[str, list[tuple[Segment, bool]]]
"""The segments of each consumer by name, and whether the segment is shared."""


def _by_range(segments: Iterable[Segment]) -> list[Segment]:
    return sorted(segments, key=lambda one: (one.start, one.end, one.id))


def readable(layout: Layout, finished: Set[int]) -> list[Segment]:
    """Return the segments that stream consumers read now, by range.

    ``finished`` has the ids of the sealed segments in which the subscription has acknowledged all messages.
    """
    waiting: set[int] = set()
    for one in sorted(layout.segments.values(), key=lambda segment: segment.id):
        if any(parent in waiting or parent not in finished for parent in one.parents if parent in layout.segments):
            waiting.add(one.id)
    return _by_range(one for one in layout.segments.values() if one.id not in finished | waiting)


def assign(segments: Sequence[Segment], names: Iterable[str], *, share: bool) -> Assignment:
    """Return the assignment of segments to consumers. ``share`` permits several consumers of a segment."""
    consumers = sorted(names)
    found: Assignment = {name: [] for name in consumers}
    ordered = _by_range(segments)
    if not share or len(consumers) <= len(ordered):
        for index, one in enumerate(ordered if consumers else ()):
            found[consumers[index % len(consumers)]].append((one, False))
        return found
    counts = _consumers_per_segment([buckets(one) for one in ordered], len(consumers))
    rest = iter(consumers)
    for one, count in zip(ordered, counts, strict=True):
        for name in [next(rest) for _ in range(count)]:
            found[name].append((one, count > 1))
    return found


def _consumers_per_segment(limits: Sequence[int], consumers: int) -> list[int]:
    counts = [0] * len(limits)
    left = min(consumers, sum(limits))
    while left:
        for index, limit in enumerate(limits):
            if left and counts[index] < limit:
                counts[index] += 1
                left -= 1
    return counts


def message_of(layout: Layout, topic: str, segments: Iterable[tuple[Segment, bool]]) -> pb.ScalableConsumerAssignment:
    """Return the message for one consumer of a topic (``topic://…``)."""
    return pb.ScalableConsumerAssignment(
        layout_epoch=layout.epoch,
        segments=[
            pb.ScalableAssignedSegment(
                segment_id=one.id,
                hash_start=one.start,
                hash_end=one.end,
                segment_topic=one.name(topic),
                bucket_ranges=_bucket_ranges(one) if shared else (),
            )
            for one, shared in segments
        ],
    )


def _bucket_ranges(segment: Segment) -> list[pb.IntRange]:
    starts = (0, *segment.bucket_starts)
    ends = (*(start - 1 for start in segment.bucket_starts), HASHES - 1)
    return [pb.IntRange(start=start, end=end) for start, end in zip(starts, ends, strict=True)]
