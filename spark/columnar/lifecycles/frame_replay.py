"""The forwarded frames, notes and ends of connections as objects, in their original order; and frames as FORWARDED.

Rules of this file
1. Frames are in order of their numbers. A note or an end of a connection follows the frame with its number; if several
   notes or ends have the same number, their order does not change.
2. Marks that `SplitAggregator` added for frames (last, weak, frame:…) are not notes and are skipped.
3. `frame_row` makes rows of FORWARDED for frames that were columns, so that the Observer and Tracker of pcli.codec can
   process them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import Message

from pcli.codec.capture.frames import Note, Stream, StreamEnd
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.spark.columnar.frame_columns import CRC_NONE, START
from pcli.spark.columnar.lifecycles.partial_tables import ROLES
from pcli.spark.columnar.observation.frame_header_rows import FRAME
from pcli.spark.columnar.observation.frames_from_rows import HEAD_COLUMNS, HeadFrame

ReplayedItem = tuple[int, int, HeadFrame | Note | StreamEnd]
"""Bits of ROLES (0 if the item is not a frame), the number of the frame or of the last frame before the item, and the
frame, note or end."""

_EVENT_FIELDS: Final = (
    "number", "kind", "text", "packet", "stream", "from_client", "offset", "length", "time_ns", "flags",
)  # fmt: skip


def with_role(forwarded: pa.Table, *names: str) -> pa.Table:
    """Return the rows that have any of these roles."""
    bits = sum(1 << ROLES[name] for name in names)
    return forwarded.filter(pc.not_equal(pc.bit_wise_and(forwarded.column("role"), bits), 0))


def replay(forwarded: pa.Table, events: pa.Table, streams: Mapping[int, Stream]) -> Iterator[ReplayedItem]:
    """Yield the frames of FORWARDED and the notes and ends of EVENTS in order."""
    forwarded = forwarded.sort_by("place")
    row_events = list(_notes_and_ends(events, streams))
    at = 0
    for role, stream, row in _rows(forwarded):
        while at < len(row_events) and row_events[at][0] < row[0]:
            yield 0, *row_events[at]
            at += 1
        yield role, row[0], HeadFrame(row, streams[stream])
    for number, item in row_events[at:]:
        yield 0, number, item


def _rows(forwarded: pa.Table) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    for batch in forwarded.to_batches(max_chunksize=8192):
        roles, streams = batch.column("role").to_pylist(), batch.column("stream").to_pylist()
        yield from zip(roles, streams, zip(*(batch.column(name).to_pylist() for name in HEAD_COLUMNS)), strict=True)


def _notes_and_ends(events: pa.Table, streams: Mapping[int, Stream]) -> Iterator[tuple[int, Note | StreamEnd]]:
    marks = pc.or_(
        pc.is_in(events.column("kind"), pa.array(["last", "weak"])), pc.starts_with(events.column("kind"), "frame:")
    )
    reported = events.filter(pc.invert(marks))
    reported = reported.take(pa.array(np.argsort(reported.column("number").to_numpy(), kind="stable")))
    for values in zip(*(reported.column(name).to_pylist() for name in _EVENT_FIELDS), strict=True):
        number, kind, text, packet, at, side, offset, length, time_ns, flags = values
        stream = streams.get(at)
        from_client = None if side < 0 else bool(side)
        if kind == "end":
            if stream is not None:
                end = StreamEnd(stream, packet, time_ns, bool(side), bool(flags & 1), bool(flags & 2), bool(flags & 4))
                yield number, end
        else:
            yield number, Note(kind, text, packet, stream, from_client, None if offset < 0 else offset, length)


def frame_row(
    role: str, row: dict[str, Any], what: str, frame: Message | bytes, *, payload: int = 0, from_client: bool
) -> dict[str, Any]:
    """Return a row of FORWARDED with the role ``role``.

    ``what`` is the start of the names of the columns with the frame's number and time, and ``payload`` is the size of
    the payload, which is not in ``frame``.
    """
    data = frame if isinstance(frame, bytes) else push_frame(frame)
    size = len(data) + payload
    return {
        "role": 1 << ROLES[role], "kind": FRAME, "place": row[f"{what}_number"], "order": 0,
        "stream": row["stream"], "time_ns": row[f"{what}_ns"], "from_client": from_client, "type": Frame.of(data).type,
        "sync": START, "crc": CRC_NONE, "kept": size, "size": size, "data": data, "trouble": None,
    }  # fmt: skip
