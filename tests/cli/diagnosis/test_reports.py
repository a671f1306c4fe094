"""Captures of real reports and of programs with default settings: `../shared/third-look`."""

from __future__ import annotations

import json

import pytest

EXPECTED = {
    "stuck-no-message": {("dispatcher-silent", "broker", "possible")},
    "mute-broker": {("broker-unavailable", "broker", "likely")},
    "whole-batches": {("redelivered-after-nack", "application", "likely")},
    "ack-timeout-in-queue": {
        ("ack-timeout-too-short", "application", "likely"), ("redelivered-after-ack-timeout", "application", "likely"),
    },
    "nack-after-60s": {
        ("redelivered-after-nack", "application", "likely"), ("never-acked", "application", "likely"),
        ("whole-batches-again", "application", "likely"),
    },
    "open-transaction": {
        ("transaction-open", "application", "likely"), ("stuck-open-transaction", "application", "likely"),
    },
    "batch-acked-by-one-index": {
        ("batch-acked-by-index", "client", "likely"), ("never-acked", "application", "likely"),
        ("old-protocol", "client", "certain"), ("redelivered-after-nack", "application", "likely"),
    },
    "send-lost-by-network": {("producer-stuck", "network", "certain"), ("old-protocol", "client", "certain")},
    "producers-named-by-broker": set(),
    "consumers-of-equal-name": set(),
}  # fmt: skip
"""Rule, culprit and certainty of the cause of all findings."""

REJECTED = {"camel-basic": {"poison-message"}, "py-nack": {"never-acked"}, "java4-nack": {"never-acked"}}
REJECTED |= {"go-nack": {"never-acked"}, "flex-neg": {"batch-acked-by-index"}}
"""Rules above a note on programs that reject messages, or that leave messages unacknowledged for a minute."""

PROGRAMS = [
    "camel-basic", "flex-basic", "flex-neg", "go-basic", "go-nack", "java4-basic", "java4-nack", "java4-x",
    "kafka-basic", "py-basic", "py-many", "py-nack", "py-noclose", "rust-basic", "spring-basic",
]  # fmt: skip


@pytest.fixture
def findings(pcli, reports):
    def of(path):
        result = pcli("diagnose", "-r", reports / path, "-T", "json")
        return json.loads(result.out)["findings"]

    return of


@pytest.mark.parametrize("name", EXPECTED)
def test_the_findings_about_a_report(findings, name):
    found = {
        (one["rule"], one["cause"]["culprit"], one["cause"]["certainty"]) for one in findings(f"captures/{name}.pcap")
    }
    assert found == EXPECTED[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_no_finding_above_a_note(findings, name):
    serious = {one["rule"] for one in findings(f"clients/{name}.pcap") if one["severity"] != "note"}
    assert serious == REJECTED.get(name, set())


@pytest.mark.parametrize(("name", "column", "value"), [
    ("producers-named-by-broker", "producers", 1), ("consumers-of-equal-name", "consumers", 3),
    ("redelivered-on-exclusive", "redelivered", 6),
])  # fmt: skip
def test_statistics_of_topics_are_those_of_the_tracker(pcli, reports, name, column, value):
    [row] = json.loads(pcli("stats", "topics", "-r", reports / f"captures/{name}.pcap", "-T", "json").out)
    assert row[column] == value


def test_consumers_of_equal_name_have_selectors(pcli, reports):
    path = reports / "captures/consumers-of-equal-name.pcap"
    result = pcli("why", "sole-consumer", "-r", path)
    assert "consumer 0#0, consumer 1#0, consumer 2#0; give a name and --kind" in result.err
    assert pcli("why", "1#0", "--kind", "consumer", "-r", path).lines[0].startswith("Consumer sole-consumer")


def test_a_consumer_behind_an_open_transaction(pcli, reports):
    text = pcli("why", "waiter", "-r", reports / "captures/open-transaction.pcap").out
    assert "Waited for the end of transaction 0:3, for 8.2 s" in text
    incidents = json.loads(pcli("diagnose", "-r", reports / "captures/open-transaction.pcap", "-T", "json").out)[
        "incidents"
    ]
    assert len(incidents) == 1


def test_a_silent_dispatcher_leaves_the_backlog_unknown(pcli, reports):
    path = reports / "captures/stuck-no-message.pcap"
    result = pcli("stats", "consumers", "-r", path, "-T", "json")
    [topic] = json.loads(result.out).values()
    assert topic["subscriptions"]["billing"]["msgBacklog"] is None
    assert "the backlog is at least 20" in result.out
    [balance] = json.loads(pcli("stats", "balances", "-r", path, "-T", "json").out).values()
    assert balance["subscriptions"]["billing"]["skipped"] is None
