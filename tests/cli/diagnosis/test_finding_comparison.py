"""`pcli diagnose --compare`: the findings of two captures."""

import json

import pytest

from pcli.cli.diagnosis.finding_comparison import compare
from pcli.codec.observe.rules import Cause, Finding


def finding(rule="never-acked", variant="", count=1, **subject):
    return Finding("warning", "certain", Cause("broker"), subject, "Text.", 0, variant=variant, count=count, rule=rule)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"stream": 3, "client": "10.0.0.1:4000", "server": "10.0.0.2:6650"},
         {"stream": 5, "client": "10.0.0.1:4711", "server": "10.0.0.2:6650"}),
        ({"topic": "t", "consumer": "consumer #1 of stream 3"}, {"topic": "t", "consumer": "consumer #2 of stream 9"}),
    ],
)  # fmt: skip
def test_numbers_of_a_capture_do_not_count(before, after):
    old, new = finding(**before), finding(**after)
    assert compare([old], [new]) == ([], [], [(old, new)])


@pytest.mark.parametrize("other", [
    {"rule": "ack-lost", "topic": "t"}, {"variant": "left", "topic": "t"}, {"topic": "u"}, {"server": "h:6651"},
])  # fmt: skip
def test_other_findings_are_new_and_missing(other):
    old, new = finding(topic="t", server="h:6650"), finding(**{"topic": "t", "server": "h:6650", **other})
    assert compare([old], [new]) == ([new], [old], [])


def test_each_finding_is_paired_once():
    old, first, second = finding(stream=1), finding(stream=1), finding(stream=2)
    assert compare([old], [first, second]) == ([second], [], [(old, first)])


@pytest.fixture
def captures(small_captures):
    return small_captures / "python/25-no-flow.pcapng", small_captures / "flex/01-produce-consume.pcap"


def test_before_and_after(pcli, captures):
    bad, good = captures
    done = pcli("diagnose", "-r", bad, "--compare", good, "--fail-on", "error")
    assert done.code == 0
    assert any(line.startswith("missing:  ERROR  stuck-no-permits: Consumer never-asks") for line in done.lines)
    assert done.lines[-1].startswith("0 new, ")
    assert done.lines[-1].endswith(f" missing, 0 remaining: {bad} compared with {good}")
    done = pcli("diagnose", "-r", good, "--compare", bad, "--fail-on", "error", "--only", "stuck-no-permits")
    assert done.code == 1
    assert done.lines[0].startswith("new:  ERROR  stuck-no-permits")
    done = pcli("diagnose", "-r", bad, "--compare", bad, "-T", "json")
    found = json.loads(done.out)
    assert (found["version"], found["new"], found["missing"]) == (2, [], [])
    assert all(one["before"] == one["after"] for one in found["remaining"])
    rows = [json.loads(line) for line in pcli("diagnose", "-r", bad, "--compare", good, "-T", "ndjson").lines]
    assert {row["change"] for row in rows} == {"missing"}


@pytest.mark.parametrize("option", [["-T", "html"], ["--admin", "http://localhost:1"]])
def test_options_that_exclude_each_other(pcli, captures, option):
    done = pcli("diagnose", "-r", captures[0], "--compare", captures[1], *option)
    assert (done.code, done.out) == (2, "")
    assert "--compare" in done.err
