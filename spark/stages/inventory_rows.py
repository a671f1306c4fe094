"""The rows of the tables `captures` and `gaps`, from the plan and from the notes of the reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pcli.codec.capture.frames import Note
from pcli.spark.input.read_plan import Entry, Recording
from pcli.spark.stages.split_tables import ReadCounts, SplitParts
from pcli.spark.tables.catalog import CAPTURES, GAPS


def captures_table(
    entries: Sequence[Entry], counted: Mapping[str, ReadCounts], notes: Mapping[str, Note], positions: Mapping[str, int]
) -> pa.Table:
    """Return a row for each file of the plan.

    The keys of the mappings are `CaptureFile.where`; ``notes`` are the notes about damaged files.
    """
    rows = [
        _capture(entry, counted.get(key), notes.get(key), positions.get(key))
        for entry in entries
        for key in (entry.found.where,)
    ]
    return pa.Table.from_pylist(rows, schema=CAPTURES)


def _capture(entry: Entry, counted: ReadCounts | None, note: Note | None, position: int | None) -> dict[str, Any]:
    found, head = entry.found, entry.head
    read = entry.part >= 0
    row: dict[str, Any] = {
        "cluster": entry.cluster,
        "path": found.path,
        "part": entry.part if read else None,
        "status": head.status,
        "error": head.error or None,
        "format": head.format or None,
        "packing": head.packing or None,
        "file_bytes": None if found.error else found.size,
        "not_read_bytes": None if found.error else 0 if read else found.size,
    }
    if counted is None:
        return row
    row |= {
        "link_types": sorted(counted.links),
        "read_bytes": position,
        "packets": counted.packets,
        "frames": counted.frames,
        "first_ns": counted.first_ns,
        "last_ns": counted.last_ns,
    }
    if note is not None:
        opened = note.offset is not None or counted.packets > 0
        left = None if note.offset is None else max(0, found.size - note.offset)
        row |= {"status": "partly" if opened else "unreadable", "error": note.text, "not_read_bytes": left}
    return row


def gaps_table(recording: Recording, splits: Sequence[SplitParts]) -> pa.Table:
    """Return a row for each note of a recording."""
    return pa.Table.from_pylist(list(_gaps(recording, splits)), schema=GAPS)


def _gaps(recording: Recording, splits: Sequence[SplitParts]) -> Iterator[dict[str, Any]]:
    for split in splits:
        path = recording.parts[split.part].found.path
        for event in split.placed_events:
            note = event.item
            if isinstance(note, Note):
                side = {True: "client", False: "broker", None: None}[note.from_client]
                yield {
                    "cluster": recording.cluster,
                    "capture": note.source or path,
                    "connection": None if note.stream is None else note.stream.number,
                    "direction": side,
                    "kind": note.kind,
                    "offset": note.offset,
                    "bytes": note.length or None,
                    "packet": note.packet,
                    "time_ns": event.packet_ns,
                    "text": note.text,
                }
