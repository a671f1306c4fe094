"""Which consumer reads which segments; the examples are assignments of a real 5.0.1."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.minibroker.scalable.assignment import assign, message_of, readable
from pcli.minibroker.scalable.layout_changes import buckets, initial, merge, rebucket, split


def ids(assignment):
    return {name: [segment.id for segment, _ in found] for name, found in assignment.items()}


@pytest.mark.parametrize(
    ("consumers", "expected"),
    [
        (["s1"], {"s1": [0, 1, 2, 3]}),
        (["s2", "s1"], {"s1": [0, 2], "s2": [1, 3]}),
        (["s1", "s2", "s3"], {"s1": [0, 3], "s2": [1], "s3": [2]}),
        (["s1", "s2", "s3", "s4", "s5"], {"s1": [0], "s2": [1], "s3": [2], "s4": [3], "s5": []}),
    ],
)
def test_four_segments_with_one_bucket(consumers, expected):
    assert ids(assign(initial(4, 4, 0).active, consumers, share=True)) == expected


def test_consumers_share_segments_with_several_buckets():
    layout = initial(4, 4, 0)
    for number in range(4):
        layout = rebucket(layout, number, 2, 1024, 0)
    found = assign(layout.active, ["s1", "s2", "s3", "s4", "s5"], share=True)
    assert ids(found) == {"s1": [4], "s2": [4], "s3": [5], "s4": [6], "s5": [7]}
    message = message_of(layout, "topic://public/default/t", found["s2"])
    assert [(one.start, one.end) for one in message.segments[0].bucket_ranges] == [(0, 32767), (32768, 65535)]
    assert not message_of(layout, "topic://public/default/t", found["s3"]).segments[0].bucket_ranges


def test_checkpoint_consumers_share_nothing():
    assert ids(assign(initial(1, 4, 0).active, ["a", "b"], share=False)) == {"a": [0], "b": []}


def test_children_follow_drained_parents():
    layout = merge(split(initial(2, 4, 0), 0, 0), 2, 3, 1024, 0)  # 0 → 2, 3; 2, 3 → 4; 1 stays
    assert [one.id for one in readable(layout, set())] == [0, 1]
    assert [one.id for one in readable(layout, {0})] == [2, 3, 1]
    assert [one.id for one in readable(layout, {0, 2})] == [3, 1]
    assert [one.id for one in readable(layout, {0, 2, 3})] == [4, 1]


@given(st.integers(1, 6), st.lists(st.integers(1, 5), max_size=4), st.integers(1, 12))
def test_every_segment_has_a_consumer(segments, counts, consumers):
    layout = initial(segments, 4, 0)
    for number, count in zip(range(segments), counts, strict=False):
        if buckets(layout.segments[number]) != count:
            layout = rebucket(layout, number, count, 1024, 0)
    found = assign(layout.active, [f"c{index:02}" for index in range(consumers)], share=True)
    readers = {one.id: [name for name in found if one.id in ids(found)[name]] for one in layout.active}
    for one in layout.active:
        assert 1 <= len(readers[one.id]) <= max(1, buckets(one))
    per_consumer = [len(one) for one in found.values()]
    assert max(per_consumer) <= 1 if consumers > segments else max(per_consumer) - min(per_consumer) <= 1
