"""The columns of the table `findings`, and the merge of the findings of all groups.

Rules of this file
1. If several findings have the same identity, only the finding whose connection has the latest last frame is kept. A
   finding about a library's version, for example, is reported once for all connections of a host.
2. Rows are sorted by severity, certainty and start; then by rule, subject and variant.
3. The packets of the evidence are added last, because a frame may belong to a split of another group.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa

from pcli.codec.observe.diagnosis import by_weight
from pcli.codec.observe.rules import Cause, Finding
from pcli.spark.columnar.observation.record_columns import Cell, cell, known, rows_of
from pcli.spark.columnar.table_schema import LONG, TEXT, column, many

_SUBJECT: Final = many((column("name", TEXT, "topic, consumer, stream, …"), column("value", TEXT, "its value")))


_EVIDENCE: Final = many(
    (
        column("frame", LONG, "pulsar.number"),
        column("capture", TEXT, "the file with the packet in which the frame ends"),
        column("packet", LONG, "number of that packet in the file; null if the run was limited to a time range"),
        column("time_ns", LONG, "time of that packet"),
    )
)


class FramePlace(NamedTuple):
    """The position of a frame in the captures."""

    capture: str
    packet: int
    """Number of the packet in the file, from 1; 0 if unknown."""
    time_ns: int


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding, the last frame of its connection, and the positions of its frames."""

    finding: Finding
    last_frame: int
    """Number of the connection's last frame; 0 if the finding does not concern one connection."""
    places: Mapping[int, FramePlace] = field(default_factory=dict)
    """The known positions of frames, by number."""


def _evidence(one: FindingRow) -> list[dict[str, Any]]:
    found = ((frame, one.places[frame]) for frame in one.finding.frames if frame in one.places)
    return [
        {"frame": frame, "capture": at.capture, "packet": known(at.packet), "time_ns": at.time_ns}
        for frame, at in found
    ]


def _show(one: FindingRow) -> str | None:
    """Return the command that shows the evidence in the file with the first frame."""
    places = [one.places[frame] for frame in one.finding.frames if frame in one.places]
    packets = sorted({at.packet for at in places if at.capture == places[0].capture and at.packet})
    if not packets:
        return None
    shown = ", ".join(map(str, packets))
    return f"pcli dissect -r {shlex.quote(places[0].capture)} -Y 'frame.number in {{{shown}}}'"


def _subject(one: FindingRow) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in one.finding.subject.items()]


def _in(name: str) -> Any:
    """Return a function that reads a field of the subject."""
    return lambda one: known(one.finding.subject.get(name))


FINDING_CELLS: Final[tuple[Cell, ...]] = (
    cell("rule", TEXT, "name of the rule (see docs/findings/NAME.md)", lambda one: one.finding.rule),
    cell("severity", TEXT, "error, warning, note", lambda one: one.finding.severity),
    cell("certainty", TEXT, "of the fact: certain, likely, possible", lambda one: one.finding.certainty),
    cell("culprit", TEXT, "application, client, broker, network, capture", lambda one: one.finding.culprit),
    cell("cause_certainty", TEXT, "certain, likely, possible", lambda one: one.finding.cause_certainty),
    cell(
        "alternatives", many(TEXT), "other causes that the capture allows", lambda one: one.finding.cause.alternatives
    ),
    cell("decide", TEXT, "what decides between the causes", lambda one: known(one.finding.cause.decide)),
    cell("what", TEXT, "the problem with its figures", lambda one: one.finding.what),
    cell("count", LONG, "number of affected messages, requests, …, as in what", lambda one: known(one.finding.count)),
    cell("since_ns", LONG, "time at which the problem began", lambda one: known(one.finding.since_ns)),
    cell(
        "until_ns",
        LONG,
        "time at which the problem ended; null if it continues or the end is unknown",
        lambda one: known(one.finding.until_ns),
    ),
    cell("topic", TEXT, "value from the subject", _in("topic")),
    cell("subscription", TEXT, "value from the subject", _in("subscription")),
    cell("consumer", TEXT, "value from the subject", _in("consumer")),
    cell("producer", TEXT, "value from the subject", _in("producer")),
    cell("connection", LONG, "tcp.stream from the subject", lambda one: one.finding.subject.get("stream")),
    cell("client", TEXT, "address from the subject; with a port if the finding concerns one connection", _in("client")),
    cell("server", TEXT, "address and port from the subject", _in("server")),
    cell("subject", _SUBJECT, "the affected object as names and values", _subject),
    cell("frames", many(LONG), "frames of the evidence, the most important first", lambda one: one.finding.frames),
    cell("evidence", _EVIDENCE, "the positions of those frames in the captures", _evidence),
    cell("show", TEXT, "command that shows the evidence; if it is in several files, that in the first one", _show),
    cell("opposite", TEXT, "what would disprove the finding", lambda one: known(one.finding.opposite)),
    cell("advice", TEXT, "what to do", lambda one: known(one.finding.advice)),
    cell(
        "variant",
        TEXT,
        "text that distinguishes findings of one rule about one subject",
        lambda one: known(one.finding.variant),
    ),
    cell("last_frame", LONG, "last frame of the connection concerned", lambda one: known(one.last_frame)),
)
"""All columns except the cluster."""


def findings_of(table: pa.RecordBatch | pa.Table) -> list[FindingRow]:
    """Yield the findings in rows. Values of subjects are strings in the rows, except the stream, which is a number."""
    return [_found(row) for row in table.to_pylist()]


def _found(row: dict[str, Any]) -> FindingRow:
    subject: dict[str, Any] = {one["name"]: one["value"] for one in row["subject"]}
    if row["connection"] is not None:
        subject["stream"] = row["connection"]
    cause = Cause(row["culprit"], row["cause_certainty"], tuple(row["alternatives"]), row["decide"] or "")
    finding = Finding(
        row["severity"], row["certainty"], cause, subject, row["what"], row["since_ns"] or 0,
        row["frames"], row["opposite"] or "", row["advice"] or "", row["variant"] or "", row["count"] or 0,
        row["until_ns"] or 0, row["rule"],
    )  # fmt: skip
    return FindingRow(finding, row["last_frame"] or 0)


def merge_findings(batches: Iterable[pa.RecordBatch], cluster: str) -> pa.RecordBatch:
    """Return one table with the findings of all groups of a recording."""
    kept: dict[tuple[Any, ...], FindingRow] = {}
    for one in (one for batch in batches for one in findings_of(batch)):
        older = kept.get(one.finding.identity)
        if older is None or older.last_frame <= one.last_frame:
            kept[one.finding.identity] = one
    ordered = sorted(kept.values(), key=lambda one: (*by_weight(one.finding), one.finding.identity))
    return rows_of(FINDING_CELLS, ordered, cluster)


def with_places(table: pa.Table, places: Mapping[int, FramePlace], cluster: str) -> pa.RecordBatch:
    """Return the findings with the positions of their frames."""
    return rows_of(FINDING_CELLS, [replace(one, places=places) for one in findings_of(table)], cluster)
