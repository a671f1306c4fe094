"""`pcli stats permits`: table, charts and JSON."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

SHARED = "python/10-shared-redelivery.pcap"


@pytest.fixture
def rows(pcli):
    def ask(capture, *arguments):
        answer = pcli("stats", "permits", "-r", capture, "-T", "json", *arguments)
        assert answer.code == 0, answer.err
        return json.loads(answer.out)

    return ask


def test_a_ledger_adds_up(rows, small_captures):
    found = rows(small_captures / SHARED)
    assert {row["consumer"] for row in found} == {"worker-0", "worker-1", "worker-2"}
    for row in found:
        assert row["queue"] > 0
        assert row["balance"] == row["flowed"] - row["delivered"] == row["points"][-1]["balance"]
        assert row["lowest"] <= min(point["balance"] for point in row["points"])
        assert row["points"][0] | {"frame": 0, "time": ""} == {"time": "", "frame": 0, "balance": row["queue"]}
        assert (row["doubled"], row["corrupt"]) == (0, 0)


def test_a_chart_of_an_application_that_stops_receiving(pcli, captures):
    """The last batches were sent whole: the balance stays below zero (see the truth file)."""
    lines = pcli("stats", "permits", "-r", captures / "java" / "permits.pcap").lines
    (row,) = [line.split() for line in lines if line.startswith("  permits/")]
    balance = row[4]
    assert int(balance) < 0
    chart = lines[lines.index("") + 1 :]
    assert chart[0].endswith(" on permits: permits over time")
    assert max(map(len, chart)) <= 80
    (zero,) = [number for number, line in enumerate(chart) if line.startswith("  0 ┼──")]
    assert chart[1].startswith("100 │")
    assert chart[-2].startswith(f"{balance} │")
    assert chart[-2].endswith(("▀", "█"))
    assert zero < len(chart) - 2
    assert chart[-1].split()[1::2] == ["s", "s", "s"]


def test_one_consumer(rows, pcli, small_captures):
    capture = small_captures / SHARED
    (row,) = rows(capture, "--consumer", "worker-1")
    assert row["consumer"] == "worker-1"
    text = pcli("stats", "permits", "-r", capture, "--consumer", "worker-1").out
    assert "worker-1" in text
    assert "worker-0" not in text
    answer = pcli("stats", "permits", "-r", capture, "--consumer", "nobody")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("pcli: --consumer nobody: no consumer with this name in ")


def test_a_consumer_without_a_flow_has_a_row_and_no_chart(pcli, small_captures):
    lines = pcli("stats", "permits", "-r", small_captures / "python/25-no-flow.pcapng").lines
    assert any(line.split()[:4] == ["never/never-asks", "0", "0", "0"] for line in lines)
    assert not any(line.startswith("never/never-asks on") for line in lines)


def test_the_packet_of_the_lowest_balance(rows, pcli, captures):
    capture = captures / "java" / "permits.pcap"
    (row,) = rows(capture, "--packet-numbers")
    arguments = ("-Y", f"pulsar.number == {row['lowest_frame']}", "-T", "ndjson")
    (frame,) = map(json.loads, pcli("dissect", "-r", capture, *arguments).lines)
    assert row["lowest_packet"] == frame["frame.number"]
    header, _, line, *_ = pcli("stats", "permits", "-r", capture, "--packet-numbers").lines
    assert dict(zip(["consumer", *header.split()], line.split()))["packet"] == str(row["lowest_packet"])


def test_without_a_subscribe_the_balance_is_not_known(pcli, small_captures):
    out = pcli("stats", "permits", "-r", small_captures / "java/late-capture.pcap").out
    assert "(unknown topic)\n  consumer #0 of stream 0 " in out
    assert "? queue, balance, parked, lowest, " in out
    assert "consumer #0 of stream 0 on (unknown topic): changes of permits in the capture" in out


def test_system_shows_consumers_of_the_broker(rows, small_captures):
    capture = small_captures / "java/txn-commit.pcap"
    assert len(rows(capture, "--system")) > len(rows(capture)) > 0


def test_a_chart_is_as_wide_as_its_terminal(small_captures):
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-m", "pcli.cli", "stats", "permits", "-r", str(small_captures / SHARED)]
    environment = os.environ | {"COLUMNS": "120"}
    with subprocess.Popen([*arguments, "--consumer", "worker-0"], stdout=theirs, env=environment) as process:
        os.close(theirs)
        result = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            result += part
        assert process.wait() == 0
    os.close(ours)
    (zero,) = [line for line in result.decode().splitlines() if "┼" in line]
    assert len(zero) == 120


def test_more_consumers_than_anybody_looks_at(pcli, small_captures, monkeypatch):
    monkeypatch.setattr("pcli.cli.stats.permits._MOST_DRAWN", 2)
    answer = pcli("stats", "permits", "-r", small_captures / SHARED)
    assert answer.out.count(": permits over time\n") == 2
    assert "pcli: charts of 2 of 3 consumers are shown; select one with --consumer\n" in answer.err


def test_the_state_at_a_moment(rows, pcli, small_captures):
    capture = small_captures / SHARED
    (whole,) = rows(capture, "--consumer", "worker-1")
    at = whole["points"][len(whole["points"]) // 2]["time"]
    (half,) = rows(capture, "--consumer", "worker-1", "--at", at)
    assert half["attached"]
    assert half["delivered"] < whole["delivered"]
    assert [point["time"] <= at for point in half["points"]] == [True] * len(half["points"])
    answer = pcli("stats", "permits", "-r", capture, "--at", at)
    assert answer.err.startswith(f"pcli: state at {at} (")


def test_the_time_before_the_first_flow_is_not_exhausted(rows, small_captures):
    for row in rows(small_captures / "python/25-no-flow.pcapng"):
        if not row["flows"]:
            assert (row["exhausted"], row["exhausted_seconds"]) == (0, 0)
    for row in rows(small_captures / SHARED):
        if row["lowest"] > 0 or row["balance"] == row["flowed"]:
            assert (row["exhausted"], row["exhausted_seconds"]) == (0, 0)
