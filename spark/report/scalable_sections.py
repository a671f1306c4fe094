"""The section on scalable topics: the graph of segments over time, rates of segments, assignments, changes.

Rules of this file
1. A segment is drawn from its creation to its seal, and then as sealed until it is pruned. Segments are in the order of
   their numbers, which is the order of their creation; a row names the segments from which its segment was made.
2. Times are those of the capture. Only the beginning of the segments in the first layout is the broker's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pcli.spark.report import message_series as series_of
from pcli.spark.report.message_series import TOPIC
from pcli.spark.report.number_format import duration, name_text, named, number
from pcli.spark.report.page_elements import Cell, Chart, Section, TableText, count_cell
from pcli.spark.report.report_data import Key, ReportData
from pcli.spark.report.vega_charts import COLORS, Bar, Series, bar_chart, time_chart

MOST_TOPICS: Final = 10
"""Maximum number of scalable topics with a section."""

MOST_ROWS: Final = 40
"""Maximum number of rows of a chart or of a table of a topic; the last rows are shown."""

_LONGEST: Final = 24
"""Maximum number of characters of a name in the axis of a chart."""

_SEGMENT_KINDS: Final = {"active": COLORS[0], "sealed": COLORS[7], "layout unknown": COLORS[6]}
_ASSIGNMENT_KINDS: Final = {"whole segment": COLORS[2], "shared by entry buckets": COLORS[3], "hand-over": COLORS[1]}

_Row = dict[str, Any]


def scalable_topics(data: ReportData) -> Section | None:
    """Return the section on scalable topics; None if the run contains none."""
    segments = _by_topic(data.objects("segments"))
    if not segments:
        return None
    messages: dict[Key, int] = {}
    for row in data.objects("topics", ("cluster", "topic", "scalable_topic", "messages_in", "system")):
        key = row["cluster"], row["scalable_topic"]
        messages[key] = messages.get(key, 0) + (row["messages_in"] or 0)
    keys = sorted(segments, key=lambda key: (-messages.get(key, 0), key))
    layouts, assignments = (_by_topic(_rows(data, name)) for name in ("layouts", "assignments"))
    section = Section("Scalable topics", "scalable-topics")
    head = ("scalable topic", "messages", "active", "sealed", "pruned", "changes", "stream and checkpoint consumers")
    rows: list[Sequence[Cell | str]] = [
        (
            named(*key), count_cell(messages.get(key, 0)),
            *(count_cell(sum(row["state"] == one for row in segments[key])) for one in ("active", "sealed", "pruned")),
            count_cell(len(layouts.get(key, ()))),
            count_cell(len({(row["subscription"], row["consumer"]) for row in assignments.get(key, ())})),
        )
        for key in keys[: MOST_ROWS]
    ]  # fmt: skip
    more = f"The first {MOST_ROWS} of {number(len(keys))}." if len(keys) > MOST_ROWS else ""
    section.tables.append(TableText("Scalable topics", head, rows, frozenset(range(1, len(head))), more))
    for place, key in enumerate(keys[:MOST_TOPICS], 1):
        lists = segments[key], layouts.get(key, []), assignments.get(key, [])
        section.parts.append(_part(data, key, f"scalable-{place}", *lists))
    if len(keys) > MOST_TOPICS:
        section.texts.append(f"{MOST_TOPICS} of {number(len(keys))} scalable topics have a section.")
    return section


def _part(
    data: ReportData, key: Key, anchor: str, segments: list[_Row], layouts: list[_Row], assignments: list[_Row]
) -> Section:
    part = Section(named(*key), anchor)
    segments = sorted(segments, key=lambda row: -1 if row["segment"] is None else row["segment"])
    names = {(row["cluster"], row["topic"]): row["segment"] for row in segments}
    rates = series_of.rates(data, "published", TOPIC, list(names))
    lines = [Series(f"segment {number}", rates[topic]) for topic, number in names.items() if any(rates[topic])]
    lines.sort(key=lambda line: -sum(value or 0 for value in line.values))
    charts = (
        _graph(data, anchor, segments),
        time_chart(f"{anchor}-rates", "Messages by segment", "messages / s", lines, data.clock, wide=True),
        _periods(data, anchor, assignments),
    )
    part.charts = [one for one in charts if one is not None]
    if layouts:
        part.tables.append(_changes(data, layouts))
    if assignments:
        part.tables.append(_assignment_table(data, assignments))
    return part


def _graph(data: ReportData, anchor: str, segments: Sequence[_Row]) -> Chart:
    first = min((row["first_ns"] for row in segments if row["first_ns"] is not None), default=0)
    shown = [row for row in segments if row["pruned_ns"] is None or row["pruned_ns"] >= data.clock.first_ns]
    bars = [bar for row in shown[-MOST_ROWS:] for bar in _bars(data, row, first)]
    caption = "An arrow names the segments from which a segment was made by a split, a merge or a rebucket."
    caption = f"{caption} {_of_many(MOST_ROWS, len(shown), 'segments')}".rstrip()
    alt = f"Bars over time for {len(shown)} segments; the table of changes contains the splits and merges."
    return bar_chart(
        f"{anchor}-segments", "Segments", bars, _SEGMENT_KINDS, data.clock, "", caption=caption, alt=alt
    )  # fmt: skip


def _bars(data: ReportData, row: _Row, first_ns: int) -> Iterator[Bar]:
    """Yield the bars of a segment; ``first_ns`` is the time of the first layout of its topic."""
    parents = f" ← {_ids(row['parents'])}" if row["parents"] else ""
    title = f"{row['segment']}  {_hash(row['first_hash'])}-{_hash(row['last_hash'])}{parents}"
    children = f", then {_ids(row['children'])}" if row["children"] else ""
    broker = f", broker {name_text(row['broker'])}" if row["broker"] else ""
    text, clock = f"segment {row['segment']}{parents}{children}{broker}", data.clock
    if row["first_ns"] is None:
        yield Bar(title, 0, clock.seconds, "layout unknown", text)
        return
    begin = (row["created_at_ns"] or row["first_ns"]) if row["first_ns"] == first_ns else row["first_ns"]
    end = row["pruned_ns"] or clock.last_ns
    if row["sealed_ns"] is None or row["sealed_ns"] > row["first_ns"]:
        yield Bar(title, clock.place(begin), clock.place(row["sealed_ns"] or end), "active", text)
    if row["sealed_ns"] is not None and row["sealed_ns"] <= clock.last_ns:
        yield Bar(title, clock.place(row["sealed_ns"]), clock.place(end), "sealed", text)


def _periods(data: ReportData, anchor: str, assignments: Sequence[_Row]) -> Chart | None:
    """Return the chart with the segments of each consumer; None if no consumer has received a segment."""
    clock = data.clock
    shown = [
        row for row in assignments
        if row["segment"] is not None and (row["until_ns"] is None or row["until_ns"] >= clock.first_ns)
        and row["since_ns"] <= clock.last_ns
    ]  # fmt: skip
    if not shown:
        return None
    bars = []
    for row in sorted(shown[-MOST_ROWS:], key=lambda row: (row["subscription"], row["segment"], row["since_ns"])):
        words = (_short(row["subscription"]), str(row["segment"]), _short(row["consumer"]))
        title = " · ".join(words)
        kind = "shared by entry buckets" if row["entry_buckets"] else "whole segment"
        text = f"segment {row['segment']} of {words[0]}: {words[2]}"
        begin, end = clock.place(row["since_ns"]), clock.place(row["until_ns"] or clock.last_ns)
        if row["taken_from"] is not None:
            ready = clock.place(row["ready_ns"] or row["withdrawn_ns"] or row["until_ns"] or clock.last_ns)
            refused = f", {row['refused']} SUBSCRIBEs refused" if row["refused"] else ""
            bars.append(Bar(title, begin, ready, "hand-over", f"{text}, from {_short(row['taken_from'])}{refused}"))
            begin = ready
        if begin < end or row["taken_from"] is None:
            bars.append(Bar(title, begin, end, kind, text))
    caption = "Each row is a subscription, a segment and a consumer: stream and checkpoint consumers."
    caption = f"{caption} {_of_many(MOST_ROWS, len(shown), 'assignments')}".rstrip()
    alt = f"Bars over time for {len(shown)} assignments; the table below contains the same assignments."
    return bar_chart(
        f"{anchor}-assignments", "Assignments", bars, _ASSIGNMENT_KINDS, clock, "", caption=caption, alt=alt
    )  # fmt: skip


def _changes(data: ReportData, layouts: Sequence[_Row]) -> TableText:
    rows = [
        (
            _time(data, row["time_ns"]), f"{row['kind']}{' (before the capture)' * row['initial']}",
            _ids(row["before"]), _ids(row["after"]), count_cell(row["epoch"]), count_cell(row["frame"]),
        )
        for row in layouts[-MOST_ROWS:]
    ]  # fmt: skip
    head = ("time", "change", "before", "after", "epoch", "frame")
    more = _of_many(MOST_ROWS, len(layouts), "changes")
    return TableText("Changes of the layout", head, rows, frozenset({0, 4, 5}), more)


def _assignment_table(data: ReportData, assignments: Sequence[_Row]) -> TableText:
    rows = [
        (
            name_text(row["subscription"]), count_cell(row["segment"]), name_text(row["consumer"]), row["type"] or "–",
            _time(data, row["since_ns"]), _time(data, row["until_ns"]), row["end"] or "–",
            name_text(row["taken_from"]), _duration(row["hand_over_ns"]), count_cell(row["refused"]),
        )
        for row in assignments[-MOST_ROWS:]
    ]  # fmt: skip
    head = (
        "subscription", "segment", "consumer", "type", "since", "until", "end", "taken from", "hand-over", "refused",
    )  # fmt: skip
    more = _of_many(MOST_ROWS, len(assignments), "assignments")
    return TableText("Assignments of segments to consumers", head, rows, frozenset({1, 4, 5, 8, 9}), more)


def _rows(data: ReportData, name: str) -> list[_Row]:
    found: list[_Row] = data.tables.read(name).to_pylist() if name in data.tables.names else []
    return found


def _by_topic(rows: Sequence[_Row]) -> dict[Key, list[_Row]]:
    found: dict[Key, list[_Row]] = {}
    for row in rows:
        found.setdefault((row["cluster"], row["scalable_topic"]), []).append(row)
    return found


def _ids(values: Sequence[int | None] | None) -> str:
    return ", ".join("?" if one is None else str(one) for one in values or ()) or "–"


def _hash(value: int | None) -> str:
    return "?" if value is None else f"{value:04x}"


def _short(name: str | None) -> str:
    """Return a name that fits in the axis of a chart."""
    text = name_text(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _duration(value: int | None) -> Cell:
    return Cell("–", -1) if value is None else Cell(duration(value), value)


def _time(data: ReportData, value: int | None) -> Cell:
    return Cell("–", -1) if value is None else Cell(data.clock.text(value), value)


def _of_many(most: int, count: int, noun: str) -> str:
    return f"The last {most} of {number(count)} {noun}." if count > most else ""
