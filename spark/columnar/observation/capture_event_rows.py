"""Connections, notes and ends of connections as rows of frame_header_rows.HEADS.

Rules of this file
1. The row of a note or an end contains the number of frames before it in the whole recording, and the time of the last
   of these frames. The observer of a part therefore reports the same results as an observer of the whole recording.
2. The row of a connection contains its state at the end of the recording, because its client and protocol may be
   identified late.
3. There are only a few of these rows, so each is built as a Python object and stored as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import Note, Stream, StreamEnd
from pcli.spark.columnar.observation.frame_header_rows import END, HEADS, NOTE, STREAM

_STREAM: Final = ("client", "server", "kind", "midstream", "opening", "bases")
"""The attributes of a connection in its row."""


@dataclass(frozen=True, slots=True)
class RecordingEvent:
    """A note or an end of a connection, with its position in the recording."""

    after: int
    """Number of the last frame before the event; 0 if none."""
    last_ns: int
    """Time of that frame; 0 if none."""
    order: int
    """Sort key of at least 1 that increases across the notes and ends of the recording."""
    item: Note | StreamEnd


def note_and_end_rows(recording_events: Iterable[RecordingEvent]) -> pa.RecordBatch:
    """Return the rows of notes and ends. Notes that concern no connection are omitted."""
    rows = []
    for one in recording_events:
        stream = one.item.stream
        if stream is not None:
            kind, fields = (NOTE, _note(one.item)) if isinstance(one.item, Note) else (END, _end(one.item))
            rows.append(_row(kind, one.after, one.order, stream.number, one.last_ns, fields))
    return pa.RecordBatch.from_pylist(rows, HEADS)


def stream_rows(streams: Iterable[Stream]) -> pa.RecordBatch:
    """Return the rows of connections."""
    return pa.RecordBatch.from_pylist(
        [
            _row(
                STREAM, -1, 0, one.number, 0, [one.client, one.server, one.kind, one.midstream, one.opening, one.bases]
            )
            for one in streams
        ],
        HEADS,
    )


def _row(kind: int, place: int, order: int, stream: int, time_ns: int, fields: Any) -> dict[str, Any]:
    blank = {"from_client": False, "type": -1, "owner": -1, "sync": 0, "crc": 0, "offset": 0, "kept": 0, "size": 0}
    known = {"kind": kind, "place": place, "order": order, "stream": stream, "time_ns": time_ns}
    return {**blank, **known, "data": json.dumps(fields).encode()}


def _note(one: Note) -> list[Any]:
    return [one.kind, one.text, one.packet, one.from_client, one.offset, one.length, one.source]


def _end(one: StreamEnd | Note) -> list[Any]:
    assert isinstance(one, StreamEnd)
    return [one.packet, one.time_ns, one.from_client, one.reset, one.refused, one.silent]


def read_stream(number: int, data: bytes) -> Stream:
    """Return the connection that a row describes."""
    client, server, kind, midstream, opening, bases = json.loads(data)
    stream = Stream(number, (client[0], client[1]), (server[0], server[1]), midstream=midstream)
    stream.kind, stream.opening, stream.bases = kind, tuple(opening), bases
    return stream


def read_event(kind: int, stream: Stream, place: int, time_ns: int, order: int, data: bytes) -> RecordingEvent:
    """Return the note or end that a row describes."""
    fields = json.loads(data)
    if kind == END:
        return RecordingEvent(place, time_ns, order, StreamEnd(stream, *fields))
    words, text, packet, from_client, offset, length, source = fields
    return RecordingEvent(place, time_ns, order, Note(words, text, packet, stream, from_client, offset, length, source))
