"""Frames as small rows for a shuffle. Each row contains the bytes of a frame up to its payload.

Rules of this file
1. A row contains everything that pcli.codec.observe reads from a frame (frames_from_rows.py restores the frame).
   Payloads are omitted; the row contains the result of the checksum instead.
2. The row of a dead letter includes the payload, because the batch in it contains the origin of each message
   (`tracking/subscriptions/dead_letters.py`).
3. The row of a MESSAGE with a batch and a key includes the keys in the batch (`tracking/subscriptions/key_order.py`).
4. The row of a SEND of a V5 client includes digests of its messages (`tracking/producers/segment_resends.py`).
5. Rows of notes, ends and connections (capture_event_rows.py) have the same schema, so that the rows of a group of
   connections are one sequence, sorted by place and order.
6. ``place`` and ``stream`` are plain columns, so that a later stage can replace them with the recording's numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.observe.tracking.entry_metadata import ENTRY_HASH, HASHES_SIZE
from pcli.codec.observe.tracking.producers.segment_resends import digests_of
from pcli.codec.observe.tracking.subscriptions.dead_letters import MARK
from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.entry import Message, open_entry
from pcli.codec.proto import pb
from pcli.codec.wire.frame import MESSAGE, SEND, Frame
from pcli.spark.columnar.byte_arrays import binary_array
from pcli.spark.columnar.frame_columns import Frames, Longs
from pcli.spark.columnar.table_schema import BOOL, BYTES, INT, LONG, column

STREAM: Final = 0
FRAME: Final = 1
NOTE: Final = 2
END: Final = 3
BROKER_FRAME: Final = 4
"""The kinds of rows."""

HEADS: Final = pa.schema(
    [
        column("kind", pa.int8(), "0: connection, 1: frame, 2: note, 3: end of a connection, 4: frame without data"),
        column(
            "place", LONG, "number of the frame; for notes and ends, of the last frame before them, 0 if none; else -1"
        ),
        column("order", LONG, "0 for a frame; for notes and ends their order, from 1"),
        column("stream", LONG, "tcp.stream"),
        column("time_ns", LONG, "time of the frame; for notes and ends, of the last frame before them, 0 if none"),
        column("from_client", BOOL, "true if the client sent the frame"),
        column("type", INT, "number of the command type; -1 if none or above 31 bits"),
        column("owner", LONG, "producer_id or consumer_id of the command; -1 if none"),
        column("sync", pa.int8(), "certainty of the frame boundary: START, ANCHORED or RESYNC of frame_columns"),
        column("crc", pa.int8(), "CRC_NONE, CRC_GOOD or CRC_BAD of frame_columns"),
        column("offset", LONG, "start of the frame in its direction of the stream; for other rows 0"),
        column("kept", INT, "bytes of the frame in the capture"),
        column("size", LONG, "bytes of the frame according to its length prefix"),
        column("data", BYTES, "the frame up to its payload; for other rows, JSON"),
        column("trouble", BYTES, "problems of the capture in the frame, as JSON; usually null"),
        column("keys", BYTES, "an uncompressed batch of empty messages, one for each key in the batch; usually null"),
        column("digests", BYTES, "digests of the messages in a SEND of a V5 client; otherwise null"),
    ]
)
"""One row for each frame, note, end of a connection, or connection."""

_HIGHEST: Final = 0x7FFFFFFF
"""The highest type number that fits the column ``type``. Higher numbers are read from the bytes."""

_SCANNED: Final = 10
"""Number of bytes after the command that are compared in all rows at once (wire.frame)."""


def to_heads(frames: Frames, numbers: Longs) -> pa.RecordBatch:
    """Return the rows of a window's frames; ``numbers`` are the numbers of the frames."""
    places, size = frames.places, len(frames)
    data = binary_array(places.data, places.start, _ends(frames))
    columns: dict[str, Any] = {
        "kind": np.full(size, FRAME, np.int8),
        "place": numbers,
        "order": np.zeros(size, np.int64),
        "stream": places.stream,
        "time_ns": places.time_ns,
        "from_client": pa.array(places.from_client),
        "type": np.where(frames.type == frames.type & _HIGHEST, frames.type, -1).astype(np.int32),
        "owner": frames.owner,
        "sync": places.sync.astype(np.int8),
        "crc": frames.crc.astype(np.int8),
        "offset": places.offset,
        "kept": places.kept.astype(np.int32),
        "size": frames.size,
        "data": data,
        "trouble": _troubles(frames),
        "keys": _keys(frames),
        "digests": _digests(frames),
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[name]) for name in HEADS.names], schema=HEADS)


def dead_letters(frames: Frames) -> Longs:
    """Return the indices of SENDs that can contain dead letters (`dead_letters.is_marked`)."""
    odd = np.flatnonzero((frames.type == SEND) & ~frames.metadata_complete & (frames.metadata_end >= 0))
    ends = frames.metadata_end.copy()
    of_v5 = _sends_of_v5_clients(frames)
    ends[of_v5] = frames.places.start[of_v5] + frames.places.kept[of_v5]
    data, starts = frames.places.data, frames.metadata_start
    rows = np.union1d(odd, of_v5).tolist()
    return np.array([row for row in rows if MARK in data[starts[row] : ends[row]].tobytes()], np.int64)


def _ends(frames: Frames) -> Longs:
    """Return the end of the bytes before the payload of each frame, as an index into the data."""
    whole = frames.places.start + frames.places.kept
    heads = np.minimum(np.maximum(frames.metadata_end, frames.command_end + _SCANNED), whole)
    ends: Longs = np.where(frames.metadata_end >= 0, heads, whole)
    letters = dead_letters(frames)
    ends[letters] = whole[letters]
    return ends


def _keys(frames: Frames) -> pa.Array:
    rows = np.flatnonzero((frames.type == MESSAGE) & (frames.batch >= 0) & (frames.key_kind > 0)).tolist()
    if not rows:
        return pa.nulls(len(frames), BYTES)
    places, found = frames.places, {}
    for row in rows:
        start = int(places.start[row])
        frame = Frame(places.data[start : start + int(places.kept[row])].tobytes(), MESSAGE)
        if frame.metadata is not None and frame.payload is not None:
            messages = open_entry(frame.metadata, frame.payload, missing=frame.missing).messages
            found[row] = join_batch((single, b"") for single in _distinct_keys(messages))
    return pa.array([found.get(row) for row in range(len(frames))], BYTES)


def _digests(frames: Frames) -> pa.Array:
    data, found = frames.places.data, {}
    for row in _sends_of_v5_clients(frames).tolist():
        start = int(frames.places.start[row])
        frame = Frame(data[start : start + int(frames.places.kept[row])].tobytes(), SEND)
        if frame.metadata is not None and frame.metadata.HasField("entry_hash_min") and frame.payload is not None:
            found[row] = b"".join(digests_of(open_entry(frame.metadata, frame.payload, missing=frame.missing)))
    return pa.array([found.get(row) for row in range(len(frames))], BYTES) if found else pa.nulls(len(frames), BYTES)


def _sends_of_v5_clients(frames: Frames) -> Longs:
    """Return the indices of SENDs whose metadata end with entry_hash_min and entry_hash_max."""
    sends = np.flatnonzero((frames.type == SEND) & (frames.metadata_end - frames.metadata_start > HASHES_SIZE))
    places = frames.metadata_end[sends, np.newaxis] - np.arange(HASHES_SIZE, 0, -1)
    last = frames.places.data[places]
    found: Longs = sends[((last[:, :-1] == ENTRY_HASH[0]) & (last[:, 1:] == ENTRY_HASH[1])).any(axis=1)]
    return found


def _distinct_keys(messages: Iterable[Message]) -> Iterable[pb.SingleMessageMetadata]:
    found = {}
    for one in messages:
        single = one.single
        if single is not None and not single.compacted_out:
            kept = pb.SingleMessageMetadata(
                partition_key=single.partition_key,
                partition_key_b64_encoded=single.partition_key_b64_encoded,
                ordering_key=single.ordering_key,
            )
            found[kept.SerializePartialToString()] = kept
    return found.values()


def _troubles(frames: Frames) -> pa.Array:
    trouble = frames.places.trouble
    if not trouble:
        return pa.nulls(len(frames), BYTES)
    texts = {row: json.dumps([[one.kind, one.detail] for one in found]).encode() for row, found in trouble.items()}
    return pa.array([texts.get(row) for row in range(len(frames))], BYTES)
