"""The sections that are not about messages: findings, permits, figures of consumers, gaps and captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.observe.rules.finding import CERTAINTIES, SEVERITIES
from pcli.codec.observe.rules.finding_text import cause_text
from pcli.spark.input.read_plan import CLUSTER
from pcli.spark.report.charts import LETTERS, Series, lines
from pcli.spark.report.message_figures import Span
from pcli.spark.report.number_format import duration, moment, name_text, named, number, short_topic, size
from pcli.spark.report.page_elements import Chart, FindingText, Section, TableText
from pcli.spark.summary import troubles_of

__all__ = ["captures", "findings", "gaps", "permits"]

MOST_FINDINGS: Final = 100
"""Number of findings that are shown in full."""

MOST_GAPS: Final = 50

_SUBJECT: Final = ("cluster", "topic", "subscription", "consumer", "producer")


def findings(table: pa.Table) -> Section:
    """Return the section on findings, the most severe first."""
    section = Section("Findings", "findings")
    rows = sorted(
        table.to_pylist(),
        key=lambda row: (SEVERITIES.index(row["severity"]), CERTAINTIES.index(row["certainty"]), row["since_ns"] or 0),
    )
    if not rows:
        section.texts.append("No problems were found.")
    else:
        counts = Counter(row["severity"] for row in rows)
        reported = (
            f"{number(counts[word])} {word}{'s' if counts[word] > 1 else ''}" for word in SEVERITIES if counts[word]
        )
        section.texts.append(f"{', '.join(reported)}.")
    section.findings = [_finding(row) for row in rows[:MOST_FINDINGS]]
    if len(rows) > MOST_FINDINGS:
        section.texts.append(
            f"The {MOST_FINDINGS} most severe of {number(len(rows))} findings; the table `findings` contains all of "
            "them."
        )
    return section


def _finding(row: dict[str, Any]) -> FindingText:
    since = f", since {moment(row['since_ns'])}" if row["since_ns"] else ""
    about = [
        f"{name} {short_topic(row[name]) if name == 'topic' else name_text(row[name])}"
        for name in _SUBJECT
        if row[name] and (name, row[name]) != ("cluster", CLUSTER)
    ]
    if row["connection"] is not None:
        about.append(f"connection {row['connection']}")
    frames = f"frames {', '.join(map(str, row['frames']))}" if row["frames"] else ""
    head = f"{row['severity']}: {row['rule']}, {row['certainty']}{since}"
    whose = f"cause: {cause_text(row['culprit'], row['cause_certainty'], row['alternatives'])}"
    more = f"more: `pcli diagnose --explain {row['rule']}`"
    where = "; ".join(filter(None, [whose, ", ".join(about), frames, more]))
    return FindingText(row["severity"], head, row["what"], row["advice"] or "", row["opposite"] or "", where)


def permits(read: Callable[[pc.Expression], pa.Table], consumers: pa.Table, span: Span) -> Section:
    """Return the section on permits over time, for the consumers that had no permits for the longest time.

    ``read`` returns only the rows of the table permits that match an expression, because the whole table may be too
    large.
    """
    section = Section("Permits over time", "permits")
    rows = [row for row in consumers.to_pylist() if row["flows"] and not row["system"]]
    rows.sort(key=lambda row: (-(row["exhausted_ns"] or 0), row["available_permits"] or 0))
    worst = rows[: len(LETTERS)]
    if not worst:
        section.texts.append("The capture contains no FLOW.")
        return section
    series = [Series(letter, *_curve(read, row, span)) for letter, row in zip(LETTERS, worst)]
    lowest = min((min(one.y) for one in series if one.y), default=0)
    alt = f"Lines over time of the permits of {len(series)} consumers; the lowest balance is {lowest:,.0f}."
    svg = lines(series, "seconds", "permits", title="Permits", alt=alt, steps=True)
    section.charts.append(
        Chart(
            svg,
            "The lowest balance in each second. If the balance is 0 or below, the broker sends nothing. "
            "The letters refer to the table.",
        )
    )
    cells = [
        (
            letter, named(row["cluster"], row["topic"], row["subscription"], row["consumer"]),
            duration(row["exhausted_ns"] or 0), _figure(row["lowest"]), _figure(row["available_permits"]),
            _figure(row["unacked_messages"]), _figure(row["msg_out_counter"]),
        )
        for letter, row in zip(LETTERS, worst)
    ]  # fmt: skip
    head = ("", "consumer", "without permits", "lowest below 0", "availablePermits", "unackedMessages", "msgOutCounter")
    caption = "The consumers that were without permits for the longest time; a dash marks an unknown value"
    more = f"The first {len(worst)} of {len(rows):,} consumers." if len(rows) > len(worst) else ""
    section.tables.append(TableText(caption, head, cells, frozenset(range(2, 7)), more))
    return section


def _curve(
    read: Callable[[pc.Expression], pa.Table], consumer: dict[str, Any], span: Span
) -> tuple[list[float], list[float]]:
    """Return the seconds of a consumer's current session and the lowest balance in each second."""
    same = pc.field("cluster") == consumer["cluster"]
    for name in ("connection", "consumer_id", "session"):
        same &= pc.field(name) == consumer[name]
    mine = read(same).sort_by("bucket_ns")
    times = [(time_ns - span.first_ns) / 1e9 for time_ns in mine["bucket_ns"].to_pylist()]
    return [max(0.0, time) for time in times], mine["lowest"].to_pylist()


def gaps(table: pa.Table, captures: pa.Table) -> Section:
    """Return the section on gaps in the captures, which make findings uncertain."""
    section = Section("Gaps and certainty", "gaps")
    unread = len(troubles_of(captures))
    if unread:
        files = "1 file" if unread == 1 else f"{number(unread)} files"
        section.texts.append(f"{files} could not be read to the end: see the section Captures.")
    if not table.num_rows and not unread:
        section.texts.append(
            "The captures contain every byte of each connection, starting with the first captured packet."
        )
    if not table.num_rows:
        return section
    lost = pc.sum(table.filter(pc.equal(table["kind"], "gap"))["bytes"]).as_py() or 0
    holes = table["kind"].to_pylist().count("gap")
    reported = [f"{number(holes)} gap{'s' if holes != 1 else ''} with {size(lost)} of missing data"] if holes else []
    others = table.num_rows - holes
    reported += [f"{number(others)} other note{'s' if others != 1 else ''}"][:others]
    section.texts.append(f"{' and '.join(reported)}. Findings that a gap could explain are less certain.")
    worst = table.sort_by([("bytes", "descending")]).slice(0, MOST_GAPS).to_pylist()
    rows = [
        (
            row["kind"],
            name_text(row["capture"]),
            _figure(row["connection"]),
            name_text(row["direction"]),
            _figure(row["bytes"]),
            _figure(row["packet"]),
            name_text(row["text"]),
        )
        for row in worst
    ]
    head = ("kind", "file", "connection", "sent by", "bytes", "packet", "description")
    more = f"The {MOST_GAPS} largest of {table.num_rows:,} gaps and notes." if table.num_rows > MOST_GAPS else ""
    section.tables.append(TableText("The largest gaps", head, rows, frozenset({2, 4, 5}), more))
    return section


def captures(table: pa.Table) -> Section:
    """Return the section on the files and the extent to which each was read."""
    section = Section("Captures", "captures")
    rows = [
        (
            name_text(row["path"]),
            row["status"] if not row["error"] else f"{row['status']}: {name_text(row['error'])}",
            name_text(row["cluster"]),
            size(row["file_bytes"] or 0), _figure(row["packets"]), _figure(row["frames"]),
        )
        for row in sorted(table.to_pylist(), key=_place)
    ]  # fmt: skip
    head = ("file", "status", "cluster", "size", "packets", "frames")
    more = f"The first 200 of {len(rows):,} files." if len(rows) > 200 else ""
    section.tables.append(TableText("All files", head, rows[:200], frozenset({3, 4, 5}), more))
    return section


def _place(row: dict[str, Any]) -> tuple[bool, bool, str, int]:
    """Return the sort key of a file: files not read to their end first, files that are not captures last."""
    return (row["status"] == "not a capture", row["status"] == "read", row["cluster"], row["part"] or 0)


def _figure(value: int | None) -> str:
    return "–" if value is None else number(value)
