"""The section on scalable topics: bars of segments and assignments, and tables, from the tables of a run."""

from __future__ import annotations

import json

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.report.report_data import open_report_data
from pcli.spark.report.scalable_sections import scalable_topics
from pcli.spark.report.selection import Selection
from pcli.spark.report.vega_charts import static_svg
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables

EVIL = '</script><img src=x onerror=alert(1)>"\\" + x' * 9


@pytest.fixture(scope="module")
def tables_of(tmp_path_factory, captures_5):
    def tables(name):
        out = str(tmp_path_factory.mktemp("scalable") / "out")
        analyze(Request((str(captures_5 / f"{name}.pcap"),), out), InProcess())
        return StoredTables(out)

    return tables


@pytest.fixture(scope="module")
def crash(tables_of):
    return tables_of("consumers-join-leave-crash")


@pytest.fixture(scope="module")
def migrated(tables_of):
    return tables_of("migrate")


def bars(chart):
    return [(row[0], row[1]) for row in chart.table.rows]


def part_of(tables, **selection):
    with open_report_data(tables, Selection(**selection)) as data:
        section = scalable_topics(data)
    [part] = section.parts
    return part


def test_segments_and_hand_overs(crash):
    part = part_of(crash)
    assert part.title == "topic://public/default/reb"
    graph, rates, assignments = part.charts
    assert bars(graph) == [
        ("0  0000-3fff", "active"),
        ("0  0000-3fff", "sealed"),
        ("1  4000-7fff", "active"),
        ("2  8000-bfff", "active"),
        ("3  c000-ffff", "active"),
        ("4  0000-1fff ← 0", "active"),
        ("5  2000-3fff ← 0", "active"),
    ]
    assert sorted(rates.names) == [f"segment {number}" for number in range(6)]
    assert bars(assignments)[:4] == [
        ("st · 0 · s1", "whole segment"),
        ("st · 1 · s1", "whole segment"),
        ("st · 1 · s2", "hand-over"),
        ("st · 1 · s2", "whole segment"),
    ]
    changes, table = part.tables
    assert [row[1] for row in changes.rows] == ["create (before the capture)", "split"]
    assert len(table.rows) == crash.read("assignments").num_rows


def test_consumers_that_share_a_segment(tables_of):
    kinds = {kind for _, kind in bars(part_of(tables_of("consumers-share-segment")).charts[2])}
    assert "shared by entry buckets" in kinds


def test_a_part_of_the_recording(crash):
    first = crash.read("captures")["first_ns"][0].as_py()
    part = part_of(crash, until_ns=first + 1_500_000_000)
    assert [kind for _, kind in bars(part.charts[0])] == ["active"] * 4
    assert not any("hand-over" in kind for _, kind in bars(part.charts[2]))


@pytest.mark.parametrize("name", ["old", "topic://public/default/old", "public/default/old"])
def test_a_topic_is_selected_with_its_segments(migrated, name):
    with open_report_data(migrated, Selection(topics=(name,))) as data:
        section = scalable_topics(data)
        assert {row["scalable_topic"] for row in data.objects("topics")} <= {"topic://public/default/old", None}
    assert [part.title for part in section.parts] == ["topic://public/default/old"]


def test_classic_topics_have_no_section(data):
    assert scalable_topics(data) is None


class Changed:
    """The data of a report with other rows of a table."""

    def __init__(self, data, name, change):
        self._data, self._name, self._change = data, name, change
        self.tables = self

    def __getattr__(self, name):
        return getattr(self._data, name)

    @property
    def names(self):
        return self._data.tables.names

    def objects(self, name, columns=()):
        rows = self._data.objects(name, columns)
        return [row | self._change for row in rows] if name == self._name else rows

    def read(self, name):
        rows = self._data.tables.read(name)
        changed = [row | self._change for row in rows.to_pylist()] if name == self._name else rows.to_pylist()
        return type("Table", (), {"to_pylist": lambda self: changed})()


def charts_of(tables, name, **change):
    with open_report_data(tables) as data:
        return scalable_topics(Changed(data, name, change)).parts[0].charts


def test_names_from_the_wire_are_short_and_only_data(crash):
    chart = charts_of(crash, "assignments", consumer=EVIL, subscription=EVIL)[-1]
    spec = json.dumps({name: value for name, value in chart.spec.items() if name != "data"})
    assert "img" not in spec
    assert "<img" not in static_svg(chart)
    assert max(len(row) for row, _ in bars(chart)) < 60


def test_unknown_values(crash):
    chart = charts_of(crash, "segments", first_hash=None, first_ns=None, parents=None, children=None)[0]
    assert bars(chart)[0] == ("0  ?-3fff", "layout unknown")
