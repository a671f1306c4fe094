"""What a recording tells beside its frames, as rows of heads.py: connections, notes, and ends.

Rules of this file
1. A note or an end knows how many frames stood before it in the whole recording, and the time of the last of them: an
   observer of a part of the recording says the same of it as one of the whole.
2. A connection is told as it is known at the end of the recording: who its client is, and what it speaks, may be
   learned late.
3. There are few of these: each is a Python object and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pcli.codec.capture.frames import Note, Stream, StreamEnd
from pcli.spark.columnar.observation.frame_header_rows import END, HEADS, NOTE, STREAM

__all__ = ["Aside", "aside_rows", "read_aside", "read_stream", "stream_rows"]


@dataclass(frozen=True, slots=True)
class Aside:
    """A note or an end, and where in the recording it stood."""

    after: int
    """Number of the last frame before it; 0: none."""
    last_ns: int
    """When that frame was captured; 0: there is none."""
    order: int
    """Above that of every earlier one of the recording; at least 1."""
    item: Note | StreamEnd


def aside_rows(asides: Iterable[Aside]) -> pa.RecordBatch:
    """The rows of these; a note on no connection has none."""
    rows = []
    for one in asides:
        stream = one.item.stream
        if stream is not None:
            kind, told = (NOTE, _note(one.item)) if isinstance(one.item, Note) else (END, _end(one.item))
            rows.append(_row(kind, one.after, one.order, stream.number, one.last_ns, told))
    return pa.RecordBatch.from_pylist(rows, HEADS)


def stream_rows(streams: Iterable[Stream]) -> pa.RecordBatch:
    """The rows of connections."""
    return pa.RecordBatch.from_pylist(
        [
            _row(STREAM, -1, 0, one.number, 0, [one.client, one.server, one.kind, one.midstream, one.opening])
            for one in streams
        ],
        HEADS,
    )


def _row(kind: int, place: int, order: int, stream: int, time_ns: int, told: Any) -> dict[str, Any]:
    blank = {"from_client": False, "type": -1, "owner": -1, "sync": 0, "crc": 0, "kept": 0, "size": 0}
    known = {"kind": kind, "place": place, "order": order, "stream": stream, "time_ns": time_ns}
    return {**blank, **known, "data": json.dumps(told).encode()}


def _note(one: Note) -> list[Any]:
    return [one.kind, one.text, one.packet, one.from_client, one.offset, one.length, one.source]


def _end(one: StreamEnd | Note) -> list[Any]:
    assert isinstance(one, StreamEnd)
    return [one.packet, one.time_ns, one.from_client, one.reset, one.refused, one.silent]


def read_stream(number: int, data: bytes) -> Stream:
    """A connection from its row."""
    client, server, kind, midstream, opening = json.loads(data)
    stream = Stream(number, (client[0], client[1]), (server[0], server[1]), midstream=midstream)
    stream.kind, stream.opening = kind, tuple(opening)
    return stream


def read_aside(kind: int, stream: Stream, place: int, time_ns: int, order: int, data: bytes) -> Aside:
    """A note or an end from its row."""
    told = json.loads(data)
    if kind == END:
        return Aside(place, time_ns, order, StreamEnd(stream, *told))
    words, text, packet, from_client, offset, length, source = told
    return Aside(place, time_ns, order, Note(words, text, packet, stream, from_client, offset, length, source))
