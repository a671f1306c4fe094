"""Layouts that are changed at random stay valid: active segments cover every hash exactly once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.scalable import changes, contradictions
from pcli.minibroker.scalable.layout_changes import (
    LayoutError,
    buckets,
    initial,
    merge,
    migrated,
    of_classic_topic,
    prune,
    rebucket,
    split,
)

MOST = 1024


@pytest.mark.parametrize(
    ("segments", "ranges", "splits"),
    [
        (1, [(0, 65535)], (16384, 32768, 49152)),
        (2, [(0, 32767), (32768, 65535)], (32768,)),
        (3, [(0, 21844), (21845, 43689), (43690, 65535)], ()),
    ],
)
def test_the_initial_segments_of_a_real_broker(segments, ranges, splits):
    layout = initial(segments, 4, 7)
    assert [(one.start, one.end) for one in layout.active] == ranges
    assert {(one.bucket_starts, one.created_ms) for one in layout.active} == {(splits, 7)}


def test_the_entry_buckets_of_a_real_broker():
    """A rebucket to seven, the halves of a split, and the sum of a merge."""
    layout = rebucket(initial(1, 4, 0), 0, 7, MOST, 1)
    assert layout.segments[1].bucket_starts == (9362, 18724, 28086, 37449, 46811, 56173)
    layout = split(layout, 1, 2)
    assert [buckets(layout.segments[number]) for number in (2, 3)] == [3, 3]
    layout = merge(layout, 3, 2, MOST, 3)
    assert buckets(layout.segments[4]) == 6
    assert layout.segments[4].parents == (3, 2)


def test_a_migration_seals_the_partitions():
    names = [f"persistent://public/default/old-partition-{index}" for index in range(2)]
    assert [one.legacy_topic for one in of_classic_topic(names, 0).active] == names
    layout = migrated(names, 4, 5)
    assert layout.epoch == 0
    assert [(one.start, one.end, one.children, one.legacy_topic) for one in layout.sealed] == [
        (0, 65535, (2, 3), name) for name in names
    ]
    assert [(one.id, one.parents) for one in layout.active] == [(2, (0, 1)), (3, (0, 1))]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda layout: split(layout, 0, 0), "Cannot split non-active segment: 0"),
        (lambda layout: split(layout, 9, 0), "Segment not found: 9"),
        (lambda layout: merge(layout, 1, 9, MOST, 0), "Segment not found"),
        (lambda layout: merge(layout, 0, 1, MOST, 0), "Both segments must be active"),
        (lambda layout: merge(layout, 1, 1, MOST, 0), "Segments are not adjacent: [0000, 7fff] and [0000, 7fff]"),
        (lambda layout: rebucket(layout, 0, 2, MOST, 0), "Cannot rebucket non-active segment: 0"),
        (lambda layout: rebucket(layout, 9, 2, MOST, 0), "Segment not found: 9"),
        (lambda layout: rebucket(layout, 1, 0, MOST, 0), "bucketCount must be in [1, 1024]: 0"),
        (lambda layout: rebucket(layout, 1, 2, MOST, 0), "Segment 1 already has the requested entry-bucket splits"),
    ],
)
def test_impossible_changes(change, text):
    layout = split(initial(1, 4, 0), 0, 0)
    with pytest.raises(LayoutError) as error:
        change(layout)
    assert str(error.value) == text


@given(st.data(), st.integers(1, 9))
def test_drawn_changes_keep_a_layout_valid(data, count):
    layout = initial(count, 4, 0)
    for now in range(1, data.draw(st.integers(1, 12))):
        before, active, old = layout, layout.active, [one.id for one in layout.sealed if not one.parents]
        kinds = ["split", "rebucket"] + ["merge"] * (len(active) > 1) + ["prune"] * bool(old)
        kind = data.draw(st.sampled_from(kinds))
        place = data.draw(st.integers(0, len(active) - 1 - (kind == "merge")))
        try:
            if kind == "split":
                layout = split(layout, active[place].id, now)
            elif kind == "merge":
                layout = merge(layout, active[place].id, active[place + 1].id, MOST, now)
            elif kind == "rebucket":
                layout = rebucket(layout, active[place].id, data.draw(st.integers(1, 9)), MOST, now)
            else:
                layout = prune(layout, data.draw(st.sampled_from(old)))
        except LayoutError:
            continue
        assert list(contradictions(layout)) == []
        assert layout.epoch == before.epoch + 1
        assert [one.kind for one in changes(before, layout)] == [kind]
