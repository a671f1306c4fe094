"""Facts about a whole recording. With these facts, a part is observed as if the other parts were present.

Rules of this file
1. All facts come from notes, connections and the numbers of their frames; no frame is read.
2. The other fields of a CaptureRecord (connections that began before the capture, have only one direction, or use other
   protocols; incomplete frames; dropped records) are counted per group and summed (`whole`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Note, Stream
from pcli.codec.observe.diagnosis import RuleChoice
from pcli.codec.observe.tracking.connections.capture_notes import apply_note
from pcli.codec.observe.tracking.connections.non_pulsar_streams import NonPulsarStreams
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent
from pcli.spark.columnar.table_schema import LONG, TEXT, column, many

_COUNTS: Final = (column("name", TEXT, "name of the counted item"), column("count", LONG, "number of occurrences"))

CAPTURE_PARTS: Final = pa.schema(
    [
        column(
            "midstream",
            LONG,
            "connections that began before the capture and carry messages of unnamed peers",
        ),
        column("one_way", LONG, "connections whose other direction is missing"),
        column("unfinished", LONG, "frames whose end is missing"),
        column("evicted", many(_COUNTS), "records that were dropped to limit memory use, by kind"),
        column("other_streams", many(_COUNTS), "connections that are not Pulsar, by kind"),
    ]
)
"""The counts that one group adds to the record of the capture."""

_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Recording:
    """The facts that all groups share. They are small and can be pickled."""

    capture: CaptureRecord
    """Times, frames, gaps and damage of the recording."""
    servers: frozenset[tuple[str, int]]
    """Addresses that serve Pulsar."""
    cut_after: int
    """Number of the last frame before the first note about truncated packets."""
    rules: RuleChoice | None = None
    """The rules of a diagnosis; None if tables are made, with all rules."""


def recording_of(
    recording_events: Iterable[RecordingEvent],
    streams: Mapping[int, Stream],
    frames: Mapping[int, int],
    first_ns: int,
    last_ns: int,
) -> Recording:
    """Return the facts of a recording.

    ``recording_events`` contains all notes in order, possibly with ends. ``streams`` contains the connections in their
    final state, and ``frames`` the number of frames of each connection. ``first_ns`` and ``last_ns`` are the times of
    the first and last frame.
    """
    capture, first_bytes, cut_after = CaptureRecord(), NonPulsarStreams(), _NEVER
    for one in recording_events:
        if isinstance(one.item, Note):
            capture.frames, capture.last_ns = one.after, one.last_ns
            apply_note(capture, first_bytes, None, one.item)
            if capture.cut:
                cut_after = min(cut_after, one.after)
        else:
            capture.packets = max(capture.packets, one.item.packet)
    capture.first_ns, capture.last_ns, capture.frames = first_ns, last_ns, sum(frames.values())
    servers = frozenset(streams[number].server for number, count in frames.items() if count)
    return Recording(capture, servers, cut_after)


def capture_part(capture: CaptureRecord) -> pa.RecordBatch:
    """Return the counts of a group's CaptureRecord."""
    row: dict[str, Any] = {name: getattr(capture, name) for name in ("midstream", "one_way", "unfinished")}
    for name in ("evicted", "other_streams"):
        row[name] = [{"name": kind, "count": count} for kind, count in getattr(capture, name).items()]
    return pa.RecordBatch.from_pylist([row], CAPTURE_PARTS)


def whole(recording: Recording, parts: Iterable[pa.RecordBatch]) -> CaptureRecord:
    """Return the CaptureRecord of the recording, computed from the counts of all groups."""
    capture = replace(recording.capture, evicted={}, other_streams={})
    for row in (row for batch in parts for row in batch.to_pylist()):
        for name in ("midstream", "one_way", "unfinished"):
            setattr(capture, name, getattr(capture, name) + row[name])
        for name in ("evicted", "other_streams"):
            counts = getattr(capture, name)
            for one in row[name]:
                counts[one["name"]] = counts.get(one["name"], 0) + one["count"]
    return capture
