"""A section for each topic, subscription, consumer, producer and connection: charts, figures, findings, tables.

Rules of this file
1. The series of all objects of a kind that a page shows are read with one query for each series.
2. A chart shows the findings of its object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from pcli.spark.report import message_series as series_of
from pcli.spark.report.incident_rows import Findings
from pcli.spark.report.incident_sections import finding_groups, marks_of
from pcli.spark.report.message_series import CONSUMER, PRODUCER, SUBSCRIPTION, TOPIC, Values
from pcli.spark.report.number_format import name_text, number
from pcli.spark.report.overview_sections import MOST_ROWS, consumer_key, slowest_table, subscription_key
from pcli.spark.report.page_elements import Section
from pcli.spark.report.report_data import Key, ReportData
from pcli.spark.report.report_objects import KINDS, PLACE, Kind, Objects, balance_table, facts, title
from pcli.spark.report.vega_charts import MAX_SERIES, Series, time_chart

Row = tuple[Key, dict[str, Any]]


class _Lines(NamedTuple):
    """The contents of a chart."""

    title: str
    unit: str
    """``ms`` for durations."""
    series: list[Series]


_SLOWEST: Final = 5


def object_sections(data: ReportData, found: Findings, objects: Objects) -> Iterator[Section]:
    """Yield a section for each kind of object: a table of all, and the sections of the first ones."""
    for kind in KINDS.values():
        rows = objects.of(kind)
        if not rows:
            continue
        section = Section(kind.title, kind.name)
        more = f"The first {MOST_ROWS} of {number(len(rows))}." if len(rows) > MOST_ROWS else ""
        section.tables.append(objects.table(kind, objects.anchor, rows[:MOST_ROWS], more))
        section.parts = parts_of(data, found, objects, kind, rows[: kind.most])
        if len(rows) > kind.most:
            limit = "" if kind.name == "connections" else "`pcli report OUT --topic NAME` and "
            section.texts.append(
                f"{kind.most} of {number(len(rows))} {kind.name} have a section: those with errors, with warnings, and "
                f"with most traffic. {limit}`pcli report OUT --serve` show the others."
            )
        yield section


def parts_of(data: ReportData, found: Findings, objects: Objects, kind: Kind, rows: Sequence[Row]) -> list[Section]:
    """Return the sections of these objects."""
    whole = data.whole_rows(kind.name, [row[PLACE] for _, row in rows])
    rows = [(key, row) for (key, _), row in zip(rows, whole)]
    charts = _CHARTS[kind.name](data, rows)
    return [_part(data, objects, kind, row, f"{kind.name}-{at + 1}", charts[at]) for at, row in enumerate(rows)]


def _part(data: ReportData, objects: Objects, kind: Kind, row: Row, anchor: str, curves: Sequence[_Lines]) -> Section:
    key, values = row
    found = objects.findings(kind, key)
    state = objects.state(kind, key)
    part = Section(title(kind, values) + (f": {state}" if state != "–" else ""), anchor, figures=facts(values))
    marks = marks_of(found)
    for at, (name, unit, series) in enumerate(curves):
        chart = time_chart(f"{anchor}-{at + 1}", name, unit, series, data.clock, marks)
        part.charts += [chart] if chart is not None else []
    part.groups, more = finding_groups(found, data.clock)
    part.texts = [more] if more else []
    if kind.name in ("topics", "subscriptions"):
        balance = balance_table(data, key)
        slow = slowest_table(data, key, _SLOWEST) if data.has_messages else None
        part.tables = [one for one in (balance, slow) if one is not None]
    return part


def _of_topics(data: ReportData, rows: Sequence[Row]) -> list[list[_Lines]]:
    keys = [key for key, _ in rows]
    kinds = ("published", "delivered", "acknowledged")
    rates = {kind: series_of.rates(data, kind, TOPIC, keys) for kind in kinds}
    publish = series_of.latencies(data, "publish", TOPIC, keys)
    columns = ("cluster", "topic", "subscription", "msg_backlog")
    groups = [row for row in data.objects("subscriptions", columns) if (row["cluster"], row["topic"]) in set(keys)]
    chosen = [subscription_key(row) for row in groups]
    held = series_of.held(data, SUBSCRIPTION, chosen)
    backlogs = series_of.backlogs(data, _ends(groups))
    return [
        [
            _Lines("Messages", "messages / s", [Series(kind, rates[kind][key]) for kind in kinds]),
            _Lines("Publish latency", "ms", _percentiles(publish[key], "")),
            _Lines("Backlog by subscription", "entries", _by_subscription(backlogs, key)),
            _Lines("Unacknowledged by subscription", "messages", _by_subscription(held, key)),
        ]
        for key in keys
    ]


def _of_subscriptions(data: ReportData, rows: Sequence[Row]) -> list[list[_Lines]]:
    keys = [subscription_key(row) for _, row in rows]
    kinds = ("delivered", "acknowledged", "redelivered")
    rates = {kind: series_of.rates(data, kind, SUBSCRIPTION, keys) for kind in kinds}
    dispatch, ack = (series_of.latencies(data, kind, SUBSCRIPTION, keys) for kind in ("dispatch", "ack"))
    held = series_of.held(data, SUBSCRIPTION, keys)
    backlogs = series_of.backlogs(data, _ends([row for _, row in rows]))
    return [
        [
            _Lines("Messages", "messages / s", [Series(kind, rates[kind][key]) for kind in kinds]),
            _Lines(
                "Latency of dispatch and acknowledgement", "ms",
                [*_percentiles(dispatch[key], "dispatch, "), *_percentiles(ack[key], "ack, ")]
            ),
            _Lines("Backlog", "entries", [Series("backlog", backlogs[key])] if key in backlogs else []),
            _Lines("Unacknowledged", "messages", [Series("delivered and not acknowledged", held[key])]),
        ]
        for key in keys
    ]  # fmt: skip


def _of_consumers(data: ReportData, rows: Sequence[Row]) -> list[list[_Lines]]:
    keys = [consumer_key(row) for _, row in rows]
    kinds = ("delivered", "acknowledged")
    rates = {kind: series_of.rates(data, kind, CONSUMER, keys) for kind in kinds}
    ack = series_of.latencies(data, "ack", CONSUMER, keys)
    held = series_of.held(data, CONSUMER, keys)
    permits = series_of.permits(data, keys)
    return [
        [
            _Lines("Messages", "messages / s", [Series(kind, rates[kind][key]) for kind in kinds]),
            _Lines(
                "Permits", "permits",
                [Series(name, values) for name, values in zip(("at the end of the interval", "lowest"), permits[key])],
            ),
            _Lines("Unacknowledged", "messages", [Series("delivered and not acknowledged", held[key])]),
            _Lines("Acknowledgement latency", "ms", _percentiles(ack[key], "")),
        ]
        for key in keys
    ]  # fmt: skip


def _of_producers(data: ReportData, rows: Sequence[Row]) -> list[list[_Lines]]:
    keys = [(row["cluster"], row["topic"] or "", row["producer"] or "") for _, row in rows]
    published = series_of.rates(data, "published", PRODUCER, keys)
    publish = series_of.latencies(data, "publish", PRODUCER, keys)
    return [
        [
            _Lines("Messages", "messages / s", [Series("published", published[key])]),
            _Lines("Publish latency", "ms", _percentiles(publish[key], "")),
        ]
        for key in keys
    ]


def _of_connections(data: ReportData, rows: Sequence[Row]) -> list[list[_Lines]]:
    found = series_of.requests(data, [key for key, _ in rows])
    return [
        [
            _Lines("Requests", "requests / s", [Series("requests", found[key]["requests"])]),
            _Lines("Response time", "ms", [Series(name, found[key][name]) for name in ("median", "longest")]),
        ]
        for key, _ in rows
    ]


_CHARTS: Final[dict[str, Callable[[ReportData, Sequence[Row]], list[list[_Lines]]]]] = {
    "topics": _of_topics,
    "subscriptions": _of_subscriptions,
    "consumers": _of_consumers,
    "producers": _of_producers,
    "connections": _of_connections,
}


def _percentiles(curves: dict[str, Any], lead: str) -> list[Series]:
    return [Series(f"{lead}{name}", values) for name, values in curves.items()]


def _by_subscription(curves: dict[Key, Values], topic: Key) -> list[Series]:
    """Return the series of the subscriptions of a topic, those with the highest values."""
    mine = [(key, values) for key, values in curves.items() if key[:2] == topic and any(values)]
    mine.sort(key=lambda one: -max(value or 0 for value in one[1]))
    return [Series(name_text(key[2]), values) for key, values in mine[:MAX_SERIES]]


def _ends(rows: Sequence[dict[str, Any]]) -> dict[Key, int]:
    return {subscription_key(row): row["msg_backlog"] for row in rows if row["msg_backlog"] is not None}
