"""The metadata of a window's SENDs and MESSAGEs, decoded by common layouts, then field by field, then row by row."""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.codec.observe.tracking.entry_metadata import FIELD
from pcli.codec.observe.tracking.subscriptions.dead_letters import MARK
from pcli.spark.columnar.byte_arrays import binary_array
from pcli.spark.columnar.fields.byte_matrix import Matrix, pull_varint
from pcli.spark.columnar.fields.column_buffers import FrameBuilder
from pcli.spark.columnar.fields.column_coverage import OF_METADATA
from pcli.spark.columnar.fields.layout_groups import LayoutCache, by_key, read_alike
from pcli.spark.columnar.fields.metadata_layouts import MetadataLayout, metadata_layout
from pcli.spark.columnar.fields.protobuf_scan import Plan, scan
from pcli.spark.columnar.fields.row_decoder import RowReader
from pcli.spark.columnar.frame_columns import Bools, Longs

WIDEST: Final = 512
"""Maximum size of metadata that is decoded by its layout."""

_BASE64: Final = FIELD["partition_key_b64_encoded"]
_KEYS: Final = (FIELD["partition_key"], FIELD["ordering_key"])
_PLAN: Final = Plan(
    (*(field for field, where in OF_METADATA.items() if not where.text), _BASE64),
    (*(field for field, where in OF_METADATA.items() if where.text), *_KEYS),
)
_LAYOUTS: Final = LayoutCache(metadata_layout, few=64, share=16)


class Metadata:
    """A decoder of metadata that fills the columns of ``frames``."""

    def __init__(self, frames: FrameBuilder, rows: RowReader) -> None:
        self._frames = frames
        self._rows = rows

    def read(self) -> None:
        """Read all rows; the positions of their metadata and payload must be filled already."""
        frames = self._frames
        size = frames.metadata_end - frames.metadata_start
        whole = frames.payload_size >= 0
        alike = np.flatnonzero(whole & (size <= WIDEST))
        left = [np.flatnonzero(whole & (size > WIDEST))]
        for key, rows in by_key(alike, size.astype(np.uint16).take(alike)):
            starts = frames.metadata_start.take(rows)
            left.append(read_alike(frames.places.data, rows, starts, key, _LAYOUTS, self._put))
        rest = self._scan(np.sort(np.concatenate(left)))
        cut = np.flatnonzero(~whole & (frames.metadata_start >= 0))
        for row in np.concatenate((rest, cut)).tolist():
            self._rows.metadata(row)

    def _put(self, found: MetadataLayout, rows: Longs, matrix: Matrix) -> None:
        frames = self._frames
        for name, spot in found.numbers.items():
            frames.column(name)[rows] = pull_varint(matrix, *spot)
        base = frames.metadata_start.take(rows)
        for name, (start, end) in found.texts.items():
            frames.column(f"{name}_start")[rows] = base + start
            frames.column(f"{name}_end")[rows] = base + end
        if found.key_kind:
            frames.column("key_kind")[rows] = found.key_kind
        frames.metadata_complete[rows] = True
        if found.roomy:
            frames.metadata_complete[rows[_marked_rows(matrix, found.size)]] = False

    def _scan(self, rows: Longs) -> Longs:
        """Read rows of any layout; return the remaining rows."""
        frames = self._frames
        data, starts, ends = frames.places.data, frames.metadata_start[rows], frames.metadata_end[rows]
        found, good = scan(data, starts, ends, _PLAN)
        done, found = rows[good], found[:, good]
        columns = iter(found)
        flag = np.zeros(len(done), np.int64)
        for field in _PLAN.numbers:
            if field == _BASE64:
                flag = next(columns)
            else:
                _fill(frames, OF_METADATA[field].column, done, next(columns))
        for field in _PLAN.texts[: -len(_KEYS)]:
            name = OF_METADATA[field].column
            _fill(frames, f"{name}_start", done, next(columns))
            _fill(frames, f"{name}_end", done, next(columns))
        self._put_keys(done, flag, *columns)
        frames.metadata_complete[done] = ~_marked(frames, done)
        return rows[~good]

    def _put_keys(self, rows: Longs, flag: Longs, start: Longs, end: Longs, first: Longs, last: Longs) -> None:
        """Choose the key as tracking.metadata.key_of does: partition key at ``start``, ordering key at ``first``."""
        frames = self._frames
        ordered = last > first
        _fill(frames, "key_start", rows, np.where(ordered, first, start))
        _fill(frames, "key_end", rows, np.where(ordered, last, end))
        frames.column("key_kind")[rows] = np.where(ordered, 2, np.where(start < 0, 0, np.where(flag > 0, 3, 1)))


def _fill(frames: FrameBuilder, name: str, rows: Longs, values: Longs) -> None:
    """Write the values, unless there are none."""
    if (values != -1).any():
        frames.column(name)[rows] = values


def _marked_rows(matrix: Matrix, size: int) -> Longs:
    """Return which rows have the dead letter mark in their first ``size`` bytes."""
    width = matrix.shape[1]
    places = _hits(matrix.tobytes())
    rows: Longs = places[places % width + len(MARK) <= size] // width
    return rows


def _marked(frames: FrameBuilder, rows: Longs) -> Bools:
    """Return which rows have the dead letter mark, for metadata of any size."""
    pieces = binary_array(frames.places.data, frames.metadata_start[rows], frames.metadata_end[rows])
    _, offsets, whole = pieces.buffers()
    edges = np.frombuffer(offsets, np.int32)[: len(rows) + 1] if offsets is not None else np.zeros(1, np.int32)
    places = _hits(whole.to_pybytes() if whole is not None else b"")
    row = np.searchsorted(edges, places, "right") - 1
    found = np.zeros(len(rows), np.bool_)
    inside = row < len(rows)
    row, places = row[inside], places[inside]
    found[row[places + len(MARK) <= edges[row + 1]]] = True
    return found


def _hits(data: bytes) -> Longs:
    hits, at = [], data.find(MARK)
    while at >= 0:
        hits.append(at)
        at = data.find(MARK, at + 1)
    return np.array(hits, np.int64)
