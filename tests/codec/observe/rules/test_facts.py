"""The declared facts of a rule are existing fields, and the rule reads no others."""

from __future__ import annotations

import io
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.rules import RULES, Moment
from pcli.codec.observe.rules.finding import GROUPS
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, PermitLedger, ProducerRecord, Session
from pcli.codec.observe.tracking.records.connection_records import (
    CaptureRecord,
    ConnectionRecord,
    ExchangeRecord,
    HostRecord,
    TransactionRecord,
)
from pcli.codec.observe.tracking.records.counters import Occurrences, StateDuration
from pcli.codec.observe.tracking.records.scalable_records import ScalableTopicRecord
from pcli.codec.observe.tracking.records.topic_records import KeyRecord, SubscriptionRecord, TopicRecord
from pcli.codec.observe.tracking.tracker import Tracker, process_events

RECORDS = {
    "consumer": ConsumerRecord, "subscription": SubscriptionRecord, "key": KeyRecord, "producer": ProducerRecord,
    "topic": TopicRecord, "connection": ConnectionRecord, "host": HostRecord, "exchange": ExchangeRecord,
    "transaction": TransactionRecord, "scalable_topic": ScalableTopicRecord, "capture": CaptureRecord,
}  # fmt: skip
PARTS = {one.__name__: one for one in (*RECORDS.values(), Session, PermitLedger)}

UNSAID = {"doubts", "name", "topic", "subscription_name", "key", "id", "stream", "type", "client", "server", "session"}
"""Fields that identify a record or describe how completely it was captured."""

CAPTURES = [
    "flex/04-reconnect", "go/transaction", "java/access-modes", "java/auth-token", "java/dead-letter", "java/dedup",
    "java/key-shared-out-of-order", "java/key-shared-sticky", "java/killed-consumer", "java/old-client-2.4.2",
    "java/paused-consumer", "java/schemas", "java/zero-queue", "python/11-failover", "python/22-batch-index-acks",
    "python/24b-stuck-alone", "python/25-no-flow", "python/26a-broker-restart", "python/30-snaplen-96",
]  # fmt: skip


def record_of(owner: type, name: str) -> type | None:
    """Return the record that a field contains, directly or in a dict; None for plain values."""
    [found] = [one for one in fields(owner) if one.name == name]
    return next((PARTS[word] for word in re.findall(r"\w+", str(found.type)) if word in PARTS), None)


def test_every_group_has_a_record():
    assert set(RECORDS) == set(GROUPS)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_facts_are_fields(rule):
    for fact in rule.facts:
        owner: type | None = RECORDS[rule.group]
        for name in fact.split("."):
            assert owner is not None, f"{fact}: what is before {name} is no record"
            owner = record_of(owner, name)


class FieldReadRecorder:
    """A proxy of a record that stores which of its fields are read. Nested records are proxied but not stored."""

    def __init__(self, record: Any, read: set[str] | None, known: dict[int, FieldReadRecorder]) -> None:
        self._record, self._read, self._known = record, read, known
        known[id(record)] = self

    def __getattr__(self, name: str) -> Any:
        if self._read is not None:
            self._read.add(name)
        return self._shown(getattr(self._record, name))

    def _shown(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._shown(one) for key, one in value.items()}
        if not is_dataclass(value) or isinstance(value, (Occurrences, StateDuration)):
            return value
        return self._known.get(id(value)) or FieldReadRecorder(value, None, self._known)


@pytest.fixture(scope="module")
def recordings(corpus: Any, captures_5: Path) -> list[tuple[Moment, list[tuple[str, Any]]]]:
    """Return the records of some captures, and of all captures of V5 clients."""
    data = {name: corpus.data(name) for name in CAPTURES} | {
        path.name: path.read_bytes() for path in sorted(captures_5.glob("*.pcap"))
    }
    kept = []
    for name, content in data.items():
        records: list[tuple[str, Any]] = []
        tracker = Tracker(on_done=lambda *row, to=records: to.append(row))
        process_events(read_capture([(name, io.BytesIO(content))], ReadOptions(ends=True)), tracker)
        records += tracker.records()
        kept.append((Moment(tracker.capture.last_ns, over=True, capture=tracker.capture), records))
    return kept


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_a_rule_reads_only_its_facts(rule, recordings):
    read: set[str] = set()
    for moment, records in recordings:
        for group, record in records:
            if group == rule.group:
                list(rule.evaluate(FieldReadRecorder(record, read, {}), moment))
    frames = {name for name in read if name.endswith("_frame") or name in ("first_ns", "client_version")}
    assert read - UNSAID - frames <= {fact.partition(".")[0] for fact in rule.facts}


def test_the_proxied_records_give_findings(recordings):
    """The previous test is effective: rules yield findings for these records through the proxy."""
    found = {
        one.rule
        for moment, records in recordings
        for group, record in records
        for rule in RULES.values()
        if rule.group == group
        for one in rule.evaluate(FieldReadRecorder(record, set(), {}), moment)
    }
    assert len(found) > len(RULES) // 3
