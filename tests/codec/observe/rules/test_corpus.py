"""Every finding in every real capture, compared with a table that was checked line by line against the truth files.

PCLI_WRITE=1 rewrites the table. Check the changes before you commit them.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.rules import RULES, Finding
from pcli.codec.observe.tracking.tracker import process_events
from pcli.replay.sources.capture_sources import open_inputs

TABLE = Path(__file__).parent / "corpus.tsv"
TITLES = ["capture", "rule", "variant", "severity", "certainty", "culprit", "cause certainty", "subject", "first frame"]

QUIET = [
    "flex/01-produce-consume", "flex/02-shared-key-shared", "flex/05-cumulative-small-queue", "go/batch-index",
    "go/compressions", "go/nack", "java/ack-receipts", "java/batching", "java/broker-entry-metadata",
    "java/cut-packets", "java/delayed", "java/dispatch-rate", "java/key-based-batcher", "java/late-capture",
    "java/message-shapes", "java/partitions-total-queue", "java/pattern-watcher", "java/permits", "java/reader",
    "java/retry-letter", "java/schemas", "java/table-view", "python/02-batched-keys-properties",
    "python/03-compression-lz4", "python/07-chunked", "python/08-encrypted", "python/10-shared-redelivery",
    "python/12-key-shared", "python/14-delayed", "python/15-dead-letter-retry", "python/16-seek",
    "python/17-reader-table-view", "python/21-tls", "python/27-rate-limited", "python/29-big-batches",
    "rust/cumulative-ack", "rust/dead-letter", "rust/nack", "rust/reader", "rust/seek",
]  # fmt: skip
"""Captures without faults: all messages are acknowledged in the end, rejected or moved ones are redelivered, delayed or
limited ones are late. Responses that a slow machine delayed are still reported."""

ELSEWHERE = {
    "ack-timeout-too-short", "balance-mismatch", "batch-acked-by-index", "consumer-reconnect-loop", "double-subscribe",
    "permits-doubled", "permits-leaked", "permits-wrong-count", "queue-of-one", "redelivered-without-cause",
    "redelivery-storm", "subscription-recreated",
}  # fmt: skip
"""Rules about consumers without a case in any capture; test_conversations.py and their own tests cover them."""


def diagnosed(path: Path) -> list[Finding]:
    diagnosis, inputs = Diagnosis(), open_inputs([str(path)])
    process_events(read_capture(((one.name, one.file) for one in inputs), ReadOptions(ends=True)), diagnosis)
    for one in inputs:
        one.file.close()
    return diagnosis.findings()


def rows(captures: Path) -> Iterator[list[str]]:
    """Return the current table by capture and rule."""
    for truth in sorted(captures.glob("*/*.truth.json")):
        name = truth.name.removesuffix(".truth.json")
        paths = [
            one for one in truth.parent.glob(f"{name}*") if one.name == name or one.name.startswith(f"{name}.pcap")
        ]
        for path in paths:
            found = [
                [
                    f"{truth.parent.name}/{name}", one.rule, one.variant, one.severity,
                    one.certainty, one.culprit, one.cause_certainty,
                    " ".join(f"{key}={value!r}" for key, value in one.subject.items()),
                    str(one.frames[0] if one.frames else 0),
                ]
                for one in diagnosed(path)
            ]  # fmt: skip
            yield from sorted(found)


@pytest.fixture(scope="module")
def table(captures: Path) -> list[list[str]]:
    return list(rows(captures))


def test_findings_equal_the_checked_table(table):
    if os.environ.get("PCLI_WRITE"):
        with TABLE.open("w", newline="") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n").writerows([TITLES, *table])
    with TABLE.open(newline="") as file:
        kept = list(csv.reader(file, delimiter="\t"))
    assert kept[0] == TITLES
    write = f"if the change is correct, run this test with PCLI_WRITE=1, which updates {TABLE.name}"
    assert [row for row in table if row not in kept] == [], f"new findings: {write}"
    assert [row for row in kept[1:] if row not in table] == [], f"missing findings: {write}"


def test_captures_without_faults_have_only_notes(table):
    loud = [row for row in table if row[0] in QUIET and row[3] != "note" and row[1] != "slow-answers"]
    assert loud == []


def test_every_rule_has_a_capture_or_a_conversation(table):
    groups = ("consumer", "subscription", "key")
    checked = {rule.name for rule in RULES.values() if rule.group in groups}
    missing = checked - {row[1] for row in table}
    assert missing - ELSEWHERE == set(), (
        "rules without a finding in any capture: add a case to test_conversations.py, and the name to ELSEWHERE here"
    )
    assert ELSEWHERE - missing == set(), (
        "rules with a finding in a capture, or unknown ones: remove them from ELSEWHERE"
    )
