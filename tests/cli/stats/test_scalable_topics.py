"""`pcli stats topics`, `latency`, `consumers` and `balances`: scalable topics and, with --segments, their segments."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def stats(pcli, captures_5):
    def run(name, *arguments):
        return json.loads(pcli("stats", name, "-r", captures_5 / "healthy.pcap", "-T", "json", *arguments).out)

    return run


def test_topics(stats):
    [total] = stats("topics")
    assert total["topic"] == "topic://public/default/bas2"
    segments = [one for one in stats("topics", "--segments") if one["topic"].startswith("segment://")]
    assert len(segments) == 2
    for count in ("published", "delivered", "acks", "permits"):
        assert total[count] == sum(one[count] for one in segments) > 0
    # consumers s1 and q1 each have two segments
    assert (total["subscriptions"], total["consumers"]) == (2, 2)
    assert [one["consumers"] for one in segments] == [2, 2]


def test_latencies(stats):
    totals, segments = (
        {(one["type"], one["topic"]): one for one in stats("latency", *more)} for more in ((), ("--segments",))
    )
    topic = "topic://public/default/bas2"
    for request in ("SEND", "SUBSCRIBE", "PRODUCER"):
        parts = [one for (name, segment), one in segments.items() if name == request]
        assert len(parts) == 2
        assert all(one["topic"].startswith("segment://public/default/bas2/") for one in parts)
        assert totals[request, topic]["answered"] == sum(one["answered"] for one in parts)
        assert totals[request, topic]["max"] == max(one["max"] for one in parts)
    assert totals["CONNECT", None] == segments["CONNECT", None]


def test_latencies_without_scalable_topics_have_no_column_of_topics(pcli, captures):
    assert pcli("stats", "latency", "-r", captures / "go/nack.pcap").lines[0].split()[:2] == ["request", "answered"]


@pytest.mark.parametrize("name", ["consumers", "balances"])
def test_states(stats, name):
    assert list(stats(name)) == ["topic://public/default/bas2"]
    assert all(one.startswith("segment://public/default/bas2/") for one in stats(name, "--segments"))


def test_consumers_on_several_segments(pcli, captures_5):
    capture = captures_5 / "consumers-join-leave-crash.pcap"
    [topic] = json.loads(pcli("stats", "consumers", "-r", capture, "--at", "1795877890", "-T", "json").out).values()
    assert [one["consumerName"] for one in topic["subscriptions"]["st"]["consumers"]] == ["s1", "s2", "s3"]


@pytest.mark.parametrize("name", ["conv", "segments", "permits"])
def test_other_subcommands_have_no_segments_option(pcli, captures_5, name):
    answer = pcli("stats", name, "-r", captures_5 / "healthy.pcap", "--segments")
    assert answer.code == 2
