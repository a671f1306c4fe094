"""Layouts: drawn histories of splits, merges, rebuckets and prunes, and graphs that contradict themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.scalable.layout import Change, Layout, changes, contradictions
from pcli.codec.scalable.segment_name import HASHES


class Topic:
    """A scalable topic as a broker changes it, with one operation per epoch."""

    def __init__(self, segments: int) -> None:
        self.dag = pb.ScalableTopicDAG(epoch=0)
        self.next_id = 0
        width = HASHES // segments
        for index in range(segments):
            self.add(index * width, HASHES - 1 if index == segments - 1 else (index + 1) * width - 1, ())

    def add(self, start: int, end: int, parents: tuple[int, ...]) -> int:
        new = self.dag.segments.add(
            segment_id=self.next_id, hash_start=start, hash_end=end, state=pb.ACTIVE, parent_ids=parents,
            created_at_epoch=self.dag.epoch, created_at_ms=1_000,
        )  # fmt: skip
        self.next_id += 1
        return new.segment_id

    def active(self) -> list[pb.SegmentInfoProto]:
        return sorted((one for one in self.dag.segments if one.state == pb.ACTIVE), key=lambda one: one.hash_start)

    def replace(self, kind: str, parents: list[pb.SegmentInfoProto], ranges: list[tuple[int, int]]) -> Change:
        self.dag.epoch += 1
        ids = tuple(one.segment_id for one in parents)
        children = tuple(self.add(start, end, ids) for start, end in ranges)
        for one in self.dag.segments:
            if one.segment_id in ids:
                one.state, one.sealed_at_epoch = pb.SEALED, self.dag.epoch
                one.child_ids.extend(children)
        return Change(kind, ids, children, self.dag.epoch)

    def change(self, draw) -> Change | None:
        """Apply a drawn operation; None if no segment allows it."""
        kind = draw(st.sampled_from(("split", "merge", "rebucket", "prune")))
        active = self.active()
        at = draw(st.integers(0, len(active) - 1))
        one = active[at]
        if kind == "split" and one.hash_start < one.hash_end:
            middle = (one.hash_start + one.hash_end) // 2
            return self.replace(kind, [one], [(one.hash_start, middle), (middle + 1, one.hash_end)])
        if kind == "merge" and at + 1 < len(active):
            return self.replace(kind, active[at : at + 2], [(one.hash_start, active[at + 1].hash_end)])
        if kind == "rebucket":
            return self.replace(kind, [one], [(one.hash_start, one.hash_end)])
        sealed = [one.segment_id for one in self.dag.segments if one.state == pb.SEALED]
        return self.prune(sealed[0]) if kind == "prune" and sealed else None

    def prune(self, number: int) -> Change:
        self.dag.epoch += 1
        left = [one for one in self.dag.segments if one.segment_id != number]
        del self.dag.segments[:]
        for one in left:
            for ids in (one.parent_ids, one.child_ids):
                ids[:] = [other for other in ids if other != number]
            self.dag.segments.append(one)
        return Change("prune", (number,), (), self.dag.epoch)

    def layout(self) -> Layout:
        return Layout.of(self.dag)


@given(st.data(), st.integers(1, 4))
def test_each_operation_is_the_change_between_two_layouts(data, segments):
    topic = Topic(segments)
    for _ in range(8):
        before = topic.layout()
        change = topic.change(data.draw)
        after = topic.layout()
        assert changes(before, after) == ([] if change is None else [change])
        assert list(contradictions(after)) == []
        assert changes(after, topic.layout()) == []


@given(st.data())
def test_several_changes_between_two_layouts_are_in_the_order_of_epochs(data):
    topic = Topic(2)
    before = topic.layout()
    left, right = topic.active()
    first = topic.replace("split", [left], [(0, 99), (100, left.hash_end)])
    second = topic.replace("rebucket", [right], [(right.hash_start, right.hash_end)])
    assert changes(before, topic.layout()) == [first, second]
    # a capture that starts now: the graph still contains both
    assert changes(None, topic.layout()) == [Change("create", (), (0, 1), 0), first, second]


def test_partitions_of_a_classic_topic_become_parents():
    dag = pb.ScalableTopicDAG(epoch=0)
    for number in range(2):
        dag.segments.add(
            segment_id=number, hash_start=number * 32768, hash_end=number * 32768 + 32767, state=pb.ACTIVE,
            created_at_epoch=0, created_at_ms=1, legacy_topic_name=f"persistent://public/default/old-partition-{number}",
        )  # fmt: skip
    before = Layout.of(dag)
    for one in dag.segments:
        one.state, one.hash_start, one.hash_end = pb.SEALED, 0, 65535
        one.child_ids.extend([2, 3])
    for number in (2, 3):
        dag.segments.add(
            segment_id=number, hash_start=(number - 2) * 32768, hash_end=(number - 2) * 32768 + 32767,
            state=pb.ACTIVE, created_at_epoch=0, created_at_ms=1, parent_ids=[0, 1],
        )  # fmt: skip
    after = Layout.of(dag)
    assert [str(one) for one in changes(before, after)] == ["migrate 0, 1 → 2, 3"]
    assert list(contradictions(after)) == []
    assert after.segments[0].name("topic://public/default/old") == "persistent://public/default/old-partition-0"
    assert after.segments[2].name("topic://public/default/old") == "segment://public/default/old/0000-7fff-2"


def shorten(segments):
    segments[0].hash_end -= 1


def lengthen(segments):
    segments[0].hash_end += 1


def name_an_unknown_parent(segments):
    segments[1].parent_ids.append(77)


def be_the_parent_of_a_parent(segments):
    segments[0].parent_ids.append(1)
    segments[1].parent_ids.append(0)


def be_active_with_children(segments):
    segments[0].child_ids.append(1)


def turn_the_range(segments):
    segments[0].hash_start, segments[0].hash_end = 5, 4


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (shorten, "no active segment has the hashes 32767 to 32767"),
        (lengthen, "segment 1 overlaps another active segment at hash 32768"),
        (name_an_unknown_parent, "segment 1 names segments that are not in the layout: 77"),
        (be_the_parent_of_a_parent, "segments 0, 1 are their own ancestors"),
        (be_active_with_children, "segment 0 is active and has children"),
        (turn_the_range, "segment 0 has the invalid range 5 to 4"),
    ],
)
def test_a_graph_that_contradicts_itself(damage, text):
    topic = Topic(2)
    damage(topic.dag.segments)
    assert text in list(contradictions(topic.layout()))


def test_a_graph_with_a_long_history():
    dag = pb.ScalableTopicDAG(epoch=50_000)
    for number in range(50_000):
        dag.segments.add(
            segment_id=number, hash_start=0, hash_end=HASHES - 1, state=pb.ACTIVE if number == 49_999 else pb.SEALED,
            parent_ids=[number - 1] if number else [], child_ids=[number + 1] if number < 49_999 else [],
            created_at_epoch=number, created_at_ms=1,
        )  # fmt: skip
    layout = Layout.of(dag)
    assert list(contradictions(layout)) == []
    assert len(changes(None, layout)) == 50_000
