"""Statistics by arithmetic. tests/cli/stats/test_stats.py compares those of the commands with truth files."""

import io
import math

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, ReadOptions, StreamEnd, read_capture
from pcli.codec.observe import Observer
from pcli.codec.observe.statistics import Histogram, Latencies, Rates, Topics, Types
from pcli.codec.proto import pb

LOOKUP = pb.CommandLookupTopic(topic="t", request_id=1)


@given(st.lists(st.integers(1, 10**12), min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_percentiles_have_an_error_of_at_most_one_per_cent(values, share):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    assert abs(histogram.percentile(share) - exact) <= 0.01 * exact + 1
    assert histogram.count == len(values)
    assert (histogram.lowest, histogram.highest) == (min(values), max(values))


def test_an_empty_histogram():
    assert Histogram().percentile(0.5) is None


def test_latencies_count_responses_errors_and_unanswered_requests(conversation):
    latencies = Latencies()
    for request in (1, 2, 3):
        latencies.add(conversation.client(pb.CommandLookupTopic(topic="t", request_id=request)))
    answer = pb.CommandLookupTopicResponse(request_id=1, response=pb.CommandLookupTopicResponse.Connect)
    latencies.add(conversation.broker(answer))
    latencies.add(conversation.broker(pb.CommandError(request_id=2, error=pb.ServiceNotReady, message="no")))
    (row,) = latencies.rows(conversation.observer.unanswered())
    assert (row["type"], row["answered"], row["errors"], row["unanswered"]) == ("LOOKUP", 2, 1, 1)
    # Frames are a millisecond apart: the first request waited for three, and so did the second.
    assert (row["min"], row["max"]) == (0.003, 0.003)


def test_rates_put_frames_into_intervals(conversation):
    rates = Rates(0.002)
    facts = [conversation.client(pb.CommandPing()) for _ in range(5)]
    for one in facts:
        rates.add(one)
    rows = rates.rows()
    assert [row["client_frames"] for row in rows] == [2, 2, 1]
    assert [row["from"] for row in rows] == [0.0, 0.002, 0.004]
    assert rows[0]["client_bytes"] == 2 * facts[0].frame.length


def test_types_by_side(conversation):
    types = Types()
    for _ in range(3):
        types.add(conversation.client(LOOKUP))
    types.add(conversation.client(pb.CommandPing()))
    types.add(conversation.broker(pb.CommandPong()))
    assert [(row["from"], row["type"], row["frames"], row["share"]) for row in types.rows()] == [
        ("client", "LOOKUP", 3, 0.75),
        ("client", "PING", 1, 0.25),
        ("broker", "PONG", 1, 1.0),
    ]


def test_topics_agree_with_the_records_of_the_tracker_in_every_capture(corpus):
    """Values of `stats topics` that `stats balances`, `stats consumers` and `diagnose` also show."""
    compared = 0
    for name in corpus.names():
        topics, see = Topics(segments=True), Observer().see
        for event in read_capture([(name, io.BytesIO(corpus.data(name)))], ReadOptions(ends=True)):
            if isinstance(event, CapturedFrame):
                facts = see(event)
                topics.see(facts)
                topics.add(facts)
            elif isinstance(event, StreamEnd):
                topics.tracker.ended(event)
            else:
                topics.tracker.note(event)
        states = topics.tracker.subscriptions.lifecycles.topics
        for row in topics.rows():
            state = states.get(row["topic"])
            if state is None or state.record.system:
                continue
            subscriptions = state.record.subscriptions.values()
            assert row["producers"] == len(state.record.producers), (name, row)
            assert row["consumers"] == sum(len(one.consumers) for one in subscriptions), (name, row)
            assert row["redelivered"] == sum(one.messages.redelivered for one in subscriptions), (name, row)
            compared += 1
    assert compared > 100
