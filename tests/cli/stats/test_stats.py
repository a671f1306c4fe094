"""`pcli stats`: figures that agree with the truth files."""

import json
from collections import Counter

import pytest

SHARED = "python/10-shared-redelivery.pcap"


def rows(pcli, capture, what, *arguments):
    result = pcli("stats", what, "-r", capture, "-T", "json", *arguments)
    assert result.code == 0, result.err
    return json.loads(result.out)


def truth(capture):
    return json.loads((capture.parent / f"{capture.name.split('.pcap')[0]}.truth.json").read_text())


@pytest.mark.parametrize(
    "name", [SHARED, "java/txn-commit.pcap", "flex/01-produce-consume.pcap", "rust/batching.pcapng"]
)
def test_types(pcli, small_captures, name):
    capture = small_captures / name
    counted = {"client": {}, "broker": {}}
    for row in rows(pcli, capture, "types", "--system"):
        counted[row["from"]][row["type"]] = row["frames"]
    assert counted == truth(capture)["frames_by_type"]


def test_topics(pcli, small_captures):
    capture = small_captures / SHARED
    events = Counter(event["type"] for event in truth(capture)["events"])
    (row,) = rows(pcli, capture, "topics")
    assert row["published"] == events["produced"]
    assert row["delivered"] >= events["received"]
    assert (row["producers"], row["subscriptions"], row["consumers"]) == (1, 1, 3)


def test_chunks_are_one_message(pcli, small_captures):
    capture = small_captures / "go/chunks.pcap"
    events = Counter(event["type"] for event in truth(capture)["events"])
    (row,) = rows(pcli, capture, "topics")
    assert row["published"] == events["produced"]


def test_connections(pcli, small_captures):
    capture = small_captures / SHARED
    connections = rows(pcli, capture, "conv", "--system")
    counts = truth(capture)["frames_by_type"]
    assert sum(row["client_frames"] for row in connections) == sum(counts["client"].values())
    assert sum(row["broker_frames"] for row in connections) == sum(counts["broker"].values())
    assert {row["version"] for row in connections} >= {"Pulsar-CPP-v4.2.0"}


def test_rates_add_up(pcli, small_captures):
    capture = small_captures / SHARED
    counts = truth(capture)["frames_by_type"]
    for interval in ("0.5", "10"):
        found = rows(pcli, capture, "io", "-I", interval, "--system")
        assert sum(row["client_frames"] for row in found) == sum(counts["client"].values())
        assert sum(row["published"] for row in found if row["published"]) >= 60


def test_latency_counts_every_answered_request(pcli, small_captures):
    capture = small_captures / SHARED
    counts = truth(capture)["frames_by_type"]["client"]
    found = {row["type"]: row for row in rows(pcli, capture, "latency", "--system")}
    for name in ("SEND", "SUBSCRIBE", "PRODUCER", "LOOKUP"):
        assert found[name]["answered"] + found[name]["unanswered"] == counts[name]
    send = found["SEND"]
    assert 0 < send["min"] <= send["p50"] <= send["p90"] <= send["p99"] <= send["max"]


def test_latency_counts_errors(pcli, small_captures):
    found = {row["type"]: row for row in rows(pcli, small_captures / "java/refusals.pcap", "latency")}
    errors = truth(small_captures / "java/refusals.pcap")["frames_by_type"]["broker"]["ERROR"]
    assert sum(row["errors"] for row in found.values()) >= errors


def test_text_is_an_aligned_table(pcli, small_captures):
    result = pcli("stats", "types", "-r", small_captures / SHARED)
    assert result.lines[0].split() == ["from", "type", "frames", "of", "its", "side", "bytes"]
    assert "\x1b" not in result.out


def test_a_filter_restricts_the_counted_frames(pcli, small_captures):
    found = rows(pcli, small_captures / SHARED, "types", "-Y", "pulsar.from == client")
    assert {row["from"] for row in found} == {"client"}


def test_a_filter_narrows_the_unanswered_too(pcli, small_captures):
    capture = small_captures / "python/37-packets-lost.pcap"
    everything = rows(pcli, capture, "latency")
    assert any(row["unanswered"] for row in everything)
    assert rows(pcli, capture, "latency", "-Y", "pulsar.type == CONNECTED or pulsar.type == CONNECT") == [
        row for row in everything if row["type"] == "CONNECT"
    ]


@pytest.mark.parametrize("what", ["conv", "types", "latency", "topics"])
def test_the_interval_is_an_option_of_io_only(pcli, small_captures, what):
    assert "--interval" not in pcli("stats", what, "--help").out
    assert "--interval" in pcli("stats", "io", "--help").out
    assert pcli("stats", what, "-r", str(small_captures / SHARED), "-I", "5").code == 2
