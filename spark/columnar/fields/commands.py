"""The commands of a window, decoded layout by layout if columns can represent them, and otherwise row by row.

Rules of this file
1. A command that is incomplete or larger than WIDEST is decoded row by row. ACKs with many ids are decoded by
   multi_id_acks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.fields.byte_matrix import Matrix, pull_varint
from pcli.spark.columnar.fields.column_buffers import FrameBuilder, GrowingIds, GrowingWords
from pcli.spark.columnar.fields.column_coverage import COVERED_TYPES
from pcli.spark.columnar.fields.command_layouts import CommandLayout, command_layout
from pcli.spark.columnar.fields.layout_groups import ID_COLUMNS, LayoutCache, by_key, pull_id, pull_words, read_alike
from pcli.spark.columnar.fields.multi_id_acks import read_many_acks
from pcli.spark.columnar.fields.row_decoder import RowReader
from pcli.spark.columnar.frame_columns import Bools, Longs

WIDEST: Final = 255
"""Maximum size of a command that is decoded by its layout."""

MANY: Final = 32
"""An ACK of at least this size contains several ids or large numbers."""

_ACK: Final = BY_NAME["ACK"].number
_LAYOUTS: Final = LayoutCache(command_layout, few=8, share=1 << 30)
_COVERED_TYPES: Final = np.isin(np.arange(128), list(COVERED_TYPES))
"""Whether columns can represent a command, by its one-byte type."""


class Commands:
    """A decoder of commands that fills the columns of ``frames``."""

    def __init__(self, frames: FrameBuilder, rows: RowReader, words: GrowingWords, ids: GrowingIds) -> None:
        self._frames = frames
        self._rows = rows
        self._words = words
        self._ids = ids

    def read(self, plain: Bools) -> None:
        """Read all rows. ``plain`` is a mask of the commands that are complete and begin with a one-byte type."""
        frames = self._frames
        starts = frames.places.start + 8
        size = frames.command_end - starts
        alike = plain & (size <= WIDEST) & _COVERED_TYPES.take(frames.type, mode="clip")
        some = np.flatnonzero(alike)
        keys = (frames.type << 8 | size).astype(np.uint16).take(some)
        left = [np.flatnonzero(~alike)]
        for key, rows in by_key(some, keys):
            left.append(read_alike(frames.places.data, rows, starts.take(rows), key & 255, _LAYOUTS, self._put))
        rest = np.concatenate(left)
        many = plain[rest] & (frames.type[rest] == _ACK) & (size[rest] >= MANY)
        rest = np.concatenate((rest[~many], read_many_acks(frames, rest[many], self._ids)))
        for row in rest.tolist():
            self._rows.command(row)

    def _put(self, found: CommandLayout, rows: Longs, matrix: Matrix) -> None:
        frames = self._frames
        for name, spot in found.numbers.items():
            if spot[1]:
                frames.column(name)[rows] = pull_varint(matrix, *spot)
        if found.words:
            sets = pull_words(matrix, found.words, self._words)
            frames.column("set_start")[rows], frames.column("set_end")[rows] = sets
        for place, (numbers, words) in enumerate(found.ids):
            columns = pull_id(matrix, numbers, words, self._ids.words)
            for name, values in zip(ID_COLUMNS[: 0 if place else 3], columns, strict=False):
                frames.column(name)[rows] = values
            self._ids.put([rows, *columns])
        frames.complete[rows] = True
