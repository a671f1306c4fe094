"""Periods of segments with registered consumers, compared with the assignments at each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.observe.tracking.records.scalable_records import (
    Assignment,
    ControlledConsumerRecord,
    HandOver,
    ScalableTopicRecord,
)
from pcli.codec.observe.tracking.statistics.assignment_periods import assignment_periods

WHOLE, SHARED = (), ((0, 100), (101, 65535))
ASSIGNED = st.lists(st.dictionaries(st.integers(0, 3), st.sampled_from([WHOLE, SHARED]), max_size=4), max_size=6)


def registered(assigned, *, end="", until=100):
    topic = ScalableTopicRecord("topic://public/default/t")
    consumer = ControlledConsumerRecord(topic, "s", "c", "STREAM", 1, 2, began_ns=5, frame=1)
    topic.consumers.append(consumer)
    for number, segments in enumerate(assigned, 1):
        consumer.assignments.append(Assignment(number, number * 10, number, segments))
    if end:
        consumer.end, consumer.ended_ns = end, until
    return topic


@given(ASSIGNED, st.sampled_from(["", "closed", "fin_client"]))
def test_periods_are_the_assignments_at_each_time(assigned, end):
    periods = list(assignment_periods(registered(assigned, end=end)))
    for number, segments in enumerate(assigned, 1):
        at = number * 10
        found = [one for one in periods if one.segment is not None and one.since_ns <= at < (one.until_ns % 1000)]
        assert {one.segment: one.buckets for one in found} == segments
        assert len(found) == len(segments)
    assert all(bool(one.end) == (one.until_ns >= 0) for one in periods)
    still = [one for one in periods if not one.end]
    assert not (end and still)
    if end:
        last = assigned[-1] if assigned else {}
        assert {one.segment for one in periods if one.end == end} - {None} == set(last)
    if not any(assigned):
        assert [(one.segment, one.since_ns) for one in periods] == [(None, 5)]


def test_a_hand_over_begins_a_period_of_the_same_consumer():
    topic = registered([{0: WHOLE}, {0: WHOLE}, {0: WHOLE}])
    hand_over = HandOver(0, "s", "other", "c", 20, 2)
    topic.hand_overs += [hand_over, HandOver(0, "another", "other", "c", 30, 3)]
    first, second = assignment_periods(topic)
    assert (first.end, first.until_ns, first.hand_over) == ("changed", 20, None)
    assert (second.end, second.since_ns, second.hand_over) == ("", 20, hand_over)


def test_shared_entry_buckets_begin_a_period():
    first, second = assignment_periods(registered([{0: WHOLE}, {0: SHARED}, {0: SHARED}]))
    assert (first.buckets, first.end, first.until_ns) == (WHOLE, "changed", 20)
    assert (second.buckets, second.end, second.epoch) == (SHARED, "", 2)
