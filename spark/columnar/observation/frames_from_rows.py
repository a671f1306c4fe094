"""Rows of frame_header_rows.HEADS as frames, notes and ends.

Rules of this file
1. A HeadFrame is a CapturedFrame whose ``data`` ends before its payload. Its length, missing bytes, parts and checksum
   result are equal to those of the captured frame; the payload is absent.
2. Fields that no observer reads are not restored: ``packet``, ``packets``.
3. The row of a connection precedes all other rows about it.
4. A type that does not fit the column is read from the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from pcli.codec.capture.frames import CapturedFrame, Stream
from pcli.codec.observe.observer_state import Facts, open_frame
from pcli.codec.payload.batch import MAX_BATCH
from pcli.codec.payload.entry import Entry, open_entry
from pcli.codec.proto import pb
from pcli.codec.wire.frame import Parts, pull_type, split
from pcli.codec.wire.problems import Problem
from pcli.spark.columnar.fields.from_captured_frames import SYNC
from pcli.spark.columnar.frame_columns import CRC_GOOD
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent, read_event, read_stream
from pcli.spark.columnar.observation.frame_header_rows import BROKER_FRAME, FRAME, STREAM
from pcli.spark.columnar.observation.partial_trackers import BrokerFrameTime

HEAD_COLUMNS: Final = ("place", "time_ns", "from_client", "type", "sync", "crc", "kept", "size", "data", "trouble")
"""The columns of HEADS from which a frame is made."""

_SYNC: Final = {number: word for word, number in SYNC.items()}


class HeadFrame(CapturedFrame):
    """A frame without its payload."""

    __slots__ = ("digests", "kept", "keys", "size", "verdict")

    def __init__(
        self,
        row: tuple[Any, ...],
        stream: Stream,
        offset: int = 0,
        keys: bytes | None = None,
        digests: bytes | None = None,
    ) -> None:
        """Create a frame.

        ``row`` contains HEAD_COLUMNS; ``keys`` and ``digests`` are the columns of that name.
        """
        number, time_ns, from_client, type_, sync, crc, kept, size, data, trouble = row
        problems = () if trouble is None else tuple(Problem(*one) for one in json.loads(trouble))
        if type_ < 0:
            type_ = pull_type(data, 8, min(len(data), 8 + int.from_bytes(data[4:8], "big")))
        super().__init__(data, type_, number, 0, time_ns, stream, from_client, offset, _SYNC[sync], problems)
        self.kept = kept
        """Number of captured bytes of the frame."""
        self.size = size
        """Number of bytes of the frame according to its length prefix."""
        self.verdict = crc
        """CRC_NONE, CRC_GOOD or CRC_BAD."""
        self.keys = keys
        """Keys of the batch, as in HEADS."""
        self.digests = digests
        """Digests of the messages, as in HEADS."""

    @property
    def length(self) -> int:
        """Size of the whole frame, including its length prefix, according to that prefix."""
        return int(self.size)

    @property
    def missing(self) -> int:
        """Number of bytes of the frame that the capture lacks."""
        return max(0, int(self.size - self.kept))

    @property
    def parts(self) -> Parts:
        """Positions of the parts in the whole frame. The payload has only a position, because its bytes are absent."""
        parts = self._parts
        if parts is None:
            parts = self._parts = split(self.data, self.type, self.kept)
            if parts.payload_start >= 0:
                # Bytes that were made from columns (resent_messages) have a different length prefix.
                parts.payload_end = min(self.kept, self.size)
            if self.verdict == CRC_GOOD:
                parts.computed = parts.checksum
        return parts

    @property
    def payload(self) -> bytes | None:
        """The payload if the row contains it, otherwise None."""
        parts = self.parts
        if parts.payload_start < 0 or parts.payload_end > len(self.data):
            return None
        return self.data[parts.payload_start : parts.payload_end]

    @property
    def checksum(self) -> str | None:
        """The checksum result of the whole frame."""
        parts = self._parts or self.parts
        if parts.payload_start < 0 or (parts.problems and self.missing):
            return None
        if parts.checksum is None:
            return "none"
        return "good" if self.verdict == CRC_GOOD else "bad"


_PLACE: Final = ("kind", "stream", "order", "offset", "keys", "digests")


def open_kept(facts: Facts) -> Entry | None:
    """Decode the payload that the row contains: that of a dead letter, or the keys of a batch."""
    frame = facts.frame
    keys = frame.keys if isinstance(frame, HeadFrame) else None
    if keys is None:
        return open_frame(facts)
    return open_entry(pb.MessageMetadata(num_messages_in_batch=MAX_BATCH), keys)


def from_heads(batches: Iterable[pa.RecordBatch]) -> Iterator[HeadFrame | BrokerFrameTime | RecordingEvent]:
    """Yield the frames, notes and ends in batches of HEADS, in order.

    Raise KeyError if the row of a connection is missing.
    """
    streams: dict[int, Stream] = {}
    for batch in batches:
        places = zip(*(batch.column(name).to_pylist() for name in _PLACE), strict=True)
        rows = zip(*(batch.column(name).to_pylist() for name in HEAD_COLUMNS), strict=True)
        for (kind, number, order, *rest), row in zip(places, rows, strict=True):
            if kind == FRAME:
                yield HeadFrame(row, streams[number], *rest)
            elif kind == STREAM:
                streams[number] = read_stream(number, row[8])
            elif kind == BROKER_FRAME:
                yield BrokerFrameTime(number, row[0], row[1])
            else:
                yield read_event(kind, streams[number], row[0], row[1], order, row[8])
