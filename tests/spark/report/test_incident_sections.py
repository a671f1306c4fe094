"""Incidents and findings: one line for each rule, behind it one for each subject."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pcli.spark.input.read_plan import CLUSTER
from pcli.spark.report.incident_rows import read_findings
from pcli.spark.report.incident_sections import MAX_FINDINGS, MAX_SUBJECTS, incidents, unhealthy
from pcli.spark.report.page_elements import Section
from pcli.spark.report.report_data import ReportData, open_report_data
from pcli.spark.report.selection import Selection
from pcli.spark.tables.catalog import TABLES
from pcli.spark.tables.stored_tables import StoredTables

TOPIC = "persistent://public/default/orders"


def finding(rule: str = "never-acked", severity: str = "warning", topic: str = TOPIC, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(TABLES["findings"].schema.names)
    subject = {"topic": topic, "subscription": "work"} | more.pop("subject", {})
    row |= {
        "cluster": CLUSTER, "rule": rule, "severity": severity, "certainty": "certain", "culprit": "broker",
        "cause_certainty": "likely", "alternatives": ["another"], "what": f"{rule} on {topic}.", "frames": [1],
        "evidence": [], "subject": [{"name": name, "value": value} for name, value in subject.items()],
    }  # fmt: skip
    return row | more


@pytest.fixture
def with_findings(stored: StoredTables, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return data whose findings are the given rows."""
    original = StoredTables.read

    def prepare(*rows: dict[str, Any]) -> None:
        table = pa.Table.from_pylist(list(rows), TABLES["findings"].schema)

        def read(self: StoredTables, name: str, *rest: Any, **more: Any) -> pa.Table:
            return table if name == "findings" else original(self, name, *rest, **more)

        monkeypatch.setattr(StoredTables, "read", read)

    return prepare


def section_of(data: ReportData) -> Section:
    return incidents(read_findings(data), data.clock)


def test_a_hundred_equal_findings_are_one_line(data: ReportData, with_findings: Any) -> None:
    with_findings(*(finding(variant=str(number), connection=number) for number in range(100)))
    [group] = section_of(data).groups
    assert (group.count, group.severity, group.groups) == (100, "warning", [])
    assert len(group.findings) == MAX_FINDINGS
    assert group.more == f"The first {MAX_FINDINGS} of 100 findings."


def test_findings_about_connections_of_one_client_are_one_line(data: ReportData, with_findings: Any) -> None:
    ports = (40_000, 40_001)
    with_findings(
        *(finding("slow-answers", connection=port, subject={"client": f"[::1]:{port}"}, topic="") for port in ports)
    )
    [group] = section_of(data).groups
    assert (group.count, group.groups, len(group.findings)) == (2, [], 2)


def test_findings_of_one_rule_about_many_topics_are_one_line_with_a_line_for_each(
    data: ReportData, with_findings: Any
) -> None:
    with_findings(*(finding(topic=f"{TOPIC}-{number}") for number in range(100)))
    [group] = section_of(data).groups
    assert (group.count, len(group.groups)) == (100, MAX_SUBJECTS)
    assert group.more == f"The first {MAX_SUBJECTS} of 100 subjects."
    assert group.groups[0].head.startswith("topic orders-0, subscription work")


def test_findings_with_a_reason_are_one_incident(data: ReportData, with_findings: Any) -> None:
    with_findings(finding("stuck-unacked-limit", "error", count=1), finding("never-acked", what="Nothing was acked."))
    [group] = section_of(data).groups
    assert (group.head, group.severity) == ("never-acked", "error")
    assert group.what.startswith("Nothing was acked. As a result, ")
    assert [one.head.partition(" ")[0] for one in group.groups] == ["never-acked", "stuck-unacked-limit"]


def test_incidents_do_not_mix_clusters(data: ReportData, with_findings: Any) -> None:
    with_findings(finding("stuck-unacked-limit", "error", cluster="a"), finding("never-acked", cluster="b"))
    assert [group.head for group in section_of(data).groups] == ["stuck-unacked-limit", "never-acked"]


def test_the_timeline_has_a_row_for_each_rule(data: ReportData, with_findings: Any) -> None:
    begin = data.clock.first_ns + 1_000_000_000
    with_findings(
        finding("stuck-no-permits", "error", since_ns=begin),
        finding(since_ns=begin, until_ns=begin + 500_000_000, topic=f"{TOPIC}-1"),
        finding(since_ns=begin, until_ns=begin + 500_000_000, topic=f"{TOPIC}-2"),
    )
    [chart] = section_of(data).charts
    rows = [(bar["row"], bar["s"], bar["e"]) for bar in chart.spec["data"]["values"]]
    assert rows == [
        ("stuck-no-permits", 1, pytest.approx(data.clock.seconds)),
        ("never-acked (2)", 1, 1.5),
        ("never-acked (2)", 1, 1.5),
    ]


def test_times_are_in_utc_and_in_seconds_since_the_start(data: ReportData, with_findings: Any) -> None:
    with_findings(finding(since_ns=data.clock.first_ns + 2_500_000_000))
    [group] = section_of(data).groups
    assert group.head.endswith(" UTC (2.500 s)")


def test_unhealthy_objects_have_errors_or_warnings(data: ReportData, with_findings: Any) -> None:
    with_findings(finding("stuck-no-permits", "error"), finding(), finding("rewound", "note", topic=f"{TOPIC}-well"))
    [table] = unhealthy(read_findings(data), data, lambda kind, key: f"#{kind}").tables
    assert [[str(getattr(cell, "text", cell)) for cell in row[:3]] for row in table.rows] == [
        ["error", "orders / work", "stuck-no-permits, never-acked"],
    ]


def test_no_findings_and_no_table_of_findings_are_different(data: ReportData, with_findings: Any) -> None:
    with_findings()
    assert section_of(data).texts == ["No problems were found."]
    found = read_findings(data)
    found.known = False
    assert "no table of findings" in incidents(found, data.clock).texts[0]


def test_findings_of_other_topics_and_times_are_left_out(
    stored: StoredTables, data: ReportData, with_findings: Any
) -> None:
    [topic, *_] = [row["topic"] for row in data.objects("topics")]
    end = data.clock.first_ns + 1
    with_findings(finding(topic=topic), finding(), finding("rewound", topic=topic, since_ns=1, until_ns=end))
    with open_report_data(stored, Selection(end + 1, None, (topic,))) as part:
        assert [one.finding.rule for one in read_findings(part).all] == ["never-acked"]
