"""`pcli stats segments`: scalable topics in captures of V5 clients."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def result(pcli, captures_5):
    return lambda name, *arguments: pcli("stats", "segments", "-r", captures_5 / f"{name}.pcap", *arguments)


def test_the_graph_of_a_topic_with_a_split_and_a_merge(result):
    lines = result("split-merge-under-load").lines
    assert lines[0] == "topic://public/default/sp2  epoch 2, controller pulsar://127.0.0.1:6650, 14 layouts"
    states = [line.split()[:2] for line in lines if "active" in line or "sealed" in line]
    assert states == [["0", "sealed"], ["1", "sealed"], ["3", "+"], ["2", "sealed"]]
    assert lines[-3:] == [
        "0.898 s  create 0  (epoch 0, frame 84)",
        "2.469 s  split 0 → 1, 2  (epoch 1, frame 1356)",
        "5.551 s  merge 1, 2 → 3  (epoch 2, frame 4801)",
    ]


def test_segments_of_a_lost_consumer(result):
    lines = result("consumers-join-leave-crash").lines
    assert "segment 5 had no consumer of st from 10.228 s until the end, because s3 was lost" in lines
    assert any(
        line.startswith("9 hand-overs of segments; the slowest took 0.203 s: segment 2, s3 → s1") for line in lines
    )


def test_figures_of_segments_are_those_of_the_applications(result, captures_5):
    truth = json.loads((captures_5 / "healthy.json").read_text())
    (topic,) = json.loads(result("healthy", "-T", "json").out)
    segments = {one["name"]: one for one in topic["segments"]}
    for producer in truth["producers"]:
        assert segments[producer["topic"]]["messages_in"] == producer["sent_messages"]
    for consumer in truth["consumers"]:
        subscription = segments[consumer["topic"]]["subscriptions"][consumer["subscription"]]
        assert subscription["msgOutCounter"] == consumer["delivered_messages"]
        assert subscription["msgBacklog"] == 0


def test_the_state_before_a_split(result):
    (topic,) = json.loads(result("split-merge-under-load", "--at", "1795878618.9", "-T", "json").out)
    assert [(one["segment"], one["state"]) for one in topic["segments"]] == [(0, "active")]
    assert [one["segments"] for one in topic["consumers"]] == [[0]]


@pytest.mark.parametrize("name", ["old1", "topic://public/default/old1", "old1/0000-ffff-1", "public/default/old1"])
def test_a_topic_is_selected_by_its_name_or_a_segment(result, name):
    (topic,) = json.loads(result("migrate", "--topic", name, "-T", "json").out)
    assert topic["topic"] == "topic://public/default/old1"


def test_a_capture_without_scalable_topics(pcli, captures):
    answer = pcli("stats", "segments", "-r", captures / "java/batching.pcap")
    assert answer.code == 0
    assert "no scalable topic in" in answer.err


def test_the_segments_of_a_consumer_without_an_assignment_are_unknown(result):
    before = ("--at", "1795878706.44")
    [topic] = json.loads(result("healthy", "-T", "json", *before).out)
    assert [one["segments"] for one in topic["consumers"]] == [None]
    assert "STREAM st (s1): segments unknown, no assignment in the capture" in result("healthy", *before).lines
