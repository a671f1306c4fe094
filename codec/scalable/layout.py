"""The layout of a scalable topic: its graph of segments in an epoch, and what changed between two layouts.

Rules of this file
1. The epoch is 0 at creation. A split, a merge, a rebucket and a prune increase it by one; a migration does not.
2. New segments with the same parents are one change: a split has one parent and several children, a merge has several
   parents and one child, a rebucket has one parent and one child with the same range. A migration has parents that are
   the partitions of a classic topic.
3. A prune removes sealed segments, and also their ids from the parents and children of the others.
4. A broker repeats a layout without a change. A capture can lack layouts between two others, so several changes are
   possible between two layouts.

Source: ScalableTopicDAG in pulsar_api.proto; the order and the contents of updates of a broker 5.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from pcli.codec.proto import pb
from pcli.codec.scalable.segment_name import HASHES, SegmentName
from pcli.codec.wire.texts import as_text


class Segment(NamedTuple):
    """A segment in a layout."""

    id: int
    start: int
    """First hash of the range."""
    end: int
    """Last hash of the range."""
    active: bool
    """Whether the segment accepts messages; otherwise it is sealed."""
    parents: tuple[int, ...] = ()
    children: tuple[int, ...] = ()
    created_epoch: int = 0
    sealed_epoch: int = -1
    """-1 if the segment is not sealed."""
    created_ms: int = 0
    """Milliseconds since 1970."""
    sealed_ms: int = -1
    legacy_topic: str = ""
    """The classic topic or partition that this segment is; empty for a topic of its own."""
    bucket_starts: tuple[int, ...] = ()
    """First hashes of the entry buckets after the first bucket."""

    @classmethod
    def of(cls, message: pb.SegmentInfoProto) -> Segment:
        """Return a segment from its message."""
        return cls(
            message.segment_id,
            message.hash_start,
            message.hash_end,
            message.state == pb.ACTIVE,
            tuple(message.parent_ids),
            tuple(message.child_ids),
            message.created_at_epoch,
            message.sealed_at_epoch if message.HasField("sealed_at_epoch") else -1,
            message.created_at_ms,
            message.sealed_at_ms if message.HasField("sealed_at_ms") else -1,
            as_text(message.legacy_topic_name),
            tuple(message.entry_bucket_splits),
        )

    def name(self, topic: str) -> str:
        """Return the name of the topic that stores the segment."""
        return self.legacy_topic or str(SegmentName(topic, self.start, self.end, self.id))


class Layout(NamedTuple):
    """All segments of a topic in an epoch."""

    epoch: int
    segments: dict[int, Segment]
    """Segments by id, in the order of the message."""
    brokers: dict[int, str]
    """URLs of brokers by segment id."""
    controller: str = ""
    """URL of the controller's broker; empty if none was elected."""

    @classmethod
    def of(cls, dag: pb.ScalableTopicDAG) -> Layout:
        """Return a layout from its message."""
        segments = {one.segment_id: Segment.of(one) for one in dag.segments}
        brokers = {one.segment_id: as_text(one.broker_url) for one in dag.segment_brokers}
        return cls(dag.epoch, segments, brokers, as_text(dag.controller_broker_url))

    @property
    def active(self) -> list[Segment]:
        """The segments that accept messages, by range."""
        return sorted((one for one in self.segments.values() if one.active), key=lambda one: (one.start, one.id))

    @property
    def sealed(self) -> list[Segment]:
        """The other segments, by id."""
        return sorted(one for one in self.segments.values() if not one.active)

    @property
    def order(self) -> tuple[int, int]:
        """The place among the layouts of a topic: a migration adds segments and keeps the epoch."""
        return self.epoch, max(self.segments, default=-1)

    @property
    def classic(self) -> bool:
        """Whether a classic topic was looked up as a scalable topic: its partitions are the active segments."""
        return any(one.active and one.legacy_topic for one in self.segments.values())


class Change(NamedTuple):
    """A change of a layout."""

    kind: str
    """``create``, ``split``, ``merge``, ``rebucket``, ``prune`` or ``migrate``."""
    before: tuple[int, ...]
    """Ids of the segments that were sealed or removed."""
    after: tuple[int, ...]
    """Ids of the new segments."""
    epoch: int
    """Epoch of the change; for a prune, the first layout's epoch in which the segments are absent."""

    def __str__(self) -> str:
        """The change in words: ``split 0 → 1, 2``."""
        parts = [", ".join(map(str, ids)) for ids in (self.before, self.after) if ids]
        return f"{self.kind} {' → '.join(parts)}"


def changes(before: Layout | None, after: Layout) -> list[Change]:
    """Return the changes from a layout to a later layout, by epoch.

    Without an earlier layout, the changes are those that the graph still shows.
    """
    known = before.segments if before is not None else {}
    families: dict[tuple[int, tuple[int, ...]], list[Segment]] = {}
    for one in after.segments.values():
        if one.id not in known and (one.active or one.parents or not one.legacy_topic):
            families.setdefault((one.created_epoch, one.parents), []).append(one)
    found = [_change_of(epoch, parents, new, after) for (epoch, parents), new in families.items()]
    pruned = tuple(sorted(known.keys() - after.segments.keys()))
    if pruned:
        found.append(Change("prune", pruned, (), after.epoch))
    return sorted(found, key=lambda change: change.epoch)


def _change_of(epoch: int, parents: tuple[int, ...], new: list[Segment], layout: Layout) -> Change:
    ids = tuple(one.id for one in new)
    sealed = [layout.segments[one] for one in parents if one in layout.segments]
    if not parents:
        kind = "create"
    elif any(one.legacy_topic for one in sealed):
        kind = "migrate"
    elif len(parents) > 1:
        kind = "merge"
    elif len(new) > 1:
        kind = "split"
    else:
        kind = "rebucket"
    return Change(kind, parents, ids, epoch)


def contradictions(layout: Layout) -> Iterator[str]:
    """Yield what is impossible in a layout: invalid ranges, gaps, overlaps, unknown ids and cycles."""
    yield from _invalid_segments(layout)
    expected = 0
    for one in layout.active:
        if one.start != expected:
            yield (
                f"no active segment has the hashes {expected} to {one.start - 1}"
                if one.start > expected
                else f"segment {one.id} overlaps another active segment at hash {one.start}"
            )
        expected = max(expected, one.end + 1)
    if expected < HASHES:
        yield f"no active segment has the hashes {expected} to {HASHES - 1}"
    cycle = _cycle(layout)
    if cycle:
        yield f"segments {', '.join(map(str, cycle))} are their own ancestors"


def _invalid_segments(layout: Layout) -> Iterator[str]:
    for one in layout.segments.values():
        if not 0 <= one.start <= one.end < HASHES:
            yield f"segment {one.id} has the invalid range {one.start} to {one.end}"
        unknown = [other for other in one.parents + one.children if other not in layout.segments]
        if unknown:
            yield f"segment {one.id} names segments that are not in the layout: {', '.join(map(str, unknown))}"
        if one.active and one.children:
            yield f"segment {one.id} is active and has children"


def _cycle(layout: Layout) -> list[int]:
    """Return segments that are their own ancestors, or an empty list."""
    try:
        TopologicalSorter({one.id: one.parents for one in layout.segments.values()}).prepare()
    except CycleError as found:
        return sorted(set(found.args[1]))
    return []
