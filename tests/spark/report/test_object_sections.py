"""Sections of topics, subscriptions, consumers, producers and connections."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pcli.spark.report.incident_rows import Findings, read_findings
from pcli.spark.report.object_sections import object_sections
from pcli.spark.report.page_elements import Section
from pcli.spark.report.report_data import ReportData, open_report_data
from pcli.spark.report.report_objects import KINDS, Objects, facts
from pcli.spark.report.selection import Selection
from pcli.spark.tables.stored_tables import StoredTables


def sections_of(data: ReportData, found: Findings | None = None) -> dict[str, Section]:
    found = found or read_findings(data)
    return {one.anchor: one for one in object_sections(data, found, Objects(data, found))}


def test_each_object_has_a_section_and_a_row(data: ReportData) -> None:
    found = sections_of(data)
    assert list(found) == list(KINDS)
    for name, section in found.items():
        count = len(data.objects(name))
        assert 0 < len(section.parts) == min(count, KINDS[name].most), name
        assert len(section.tables[0].rows) == count
        assert [getattr(row[1], "href", "") for row in section.tables[0].rows[: len(section.parts)]] == [
            f"#{part.anchor}" for part in section.parts
        ]


def test_charts_of_each_kind(data: ReportData) -> None:
    titles = {name: {chart.title for chart in section.parts[0].charts} for name, section in sections_of(data).items()}
    assert titles == {
        "topics": {"Messages", "Publish latency", "Backlog by subscription", "Unacknowledged by subscription"},
        "subscriptions": {"Messages", "Latency of dispatch and acknowledgement", "Backlog", "Unacknowledged"},
        "consumers": {"Messages", "Permits", "Unacknowledged", "Acknowledgement latency"},
        "producers": {"Messages", "Publish latency"},
        "connections": {"Requests", "Response time"},
    }


def test_a_topic_has_its_balance_and_its_slowest_messages(data: ReportData) -> None:
    [part] = sections_of(data)["topics"].parts
    balance, slowest = part.tables
    assert balance.caption.startswith("Message balance")
    assert {str(getattr(row[0], "text", row[0])) for row in balance.rows} == {"topic", "workers"}
    assert slowest.caption == "The 5 messages with the longest durations"


def test_more_objects_than_sections_are_counted(data: ReportData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "consumers", replace(KINDS["consumers"], most=1))
    section = sections_of(data)["consumers"]
    count = len(data.objects("consumers"))
    assert count > len(section.parts) == 1
    assert section.texts[0].startswith(f"1 of {count} consumers have a section")
    assert "--topic NAME" in section.texts[0]
    assert "--serve" in section.texts[0]


def test_objects_with_errors_come_first_and_show_their_findings(data: ReportData) -> None:
    """The last consumer has an error."""
    found = read_findings(data)
    plain = sections_of(data, found)["consumers"]
    last = Objects(data, found).of(KINDS["consumers"])[-1][0]
    [one, *_] = found.all
    error = replace(one, finding=replace(one.finding, severity="error"))
    found.of["consumers", last] = [error, error]
    section = sections_of(data, found)["consumers"]
    assert section.parts[0].title == f"{plain.parts[-1].title}: error"
    assert [(group.count, group.severity) for group in section.parts[0].groups] == [(2, "error")]


def test_a_consumer_without_a_name_has_the_key_of_the_findings(
    data: ReportData, stored: StoredTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = StoredTables.read

    def read(self: StoredTables, name: str, *rest: Any, **more: Any) -> pa.Table:
        table = original(self, name, *rest, **more)
        if name != "consumers" or "consumer" not in table.schema.names:
            return table
        at = table.schema.get_field_index("consumer")
        return table.set_column(at, "consumer", pa.nulls(len(table), pa.string()))

    monkeypatch.setattr(StoredTables, "read", read)
    with open_report_data(stored) as unnamed:
        [(key, row), *_] = Objects(unnamed, Findings()).of(KINDS["consumers"])
        assert key[3] == f"consumer #{row['consumer_id']} of stream {row['connection']}"


def test_figures_are_those_that_are_known_and_not_zero() -> None:
    row = {
        "topic": "t", "sessions": 2, "flows": 0, "queue": None, "attached": True, "exhausted_ns": 1_500_000,
        "began_ns": 1_795_000_000_000_000_000, "doubts": ["gap", "start"], "type": "Shared",
        "ends": [{"name": "closed", "count": 3}], "unknown": [{"figure": "queue", "reason": "no FLOW"}],
    }  # fmt: skip
    assert facts(row) == [
        ("sessions", "2"), ("attached", "yes"), ("exhausted_ns", "1.5 ms"), ("began_ns", "2026-11-18 11:06:40.000 UTC"),
        ("doubts", "gap, start"), ("type", "Shared"), ("ends", "closed ×3"), ("unknown", "queue (no FLOW)"),
    ]  # fmt: skip


def test_a_topic_selects_its_objects(data: ReportData, stored: StoredTables) -> None:
    topic = data.objects("topics")[0]["topic"]
    with open_report_data(stored, Selection(topics=(topic,))) as part:
        for name in KINDS:
            rows = [row for row in data.objects(name) if row.get("topic", topic) == topic]
            assert 0 < len(part.objects(name)) <= len(rows)
