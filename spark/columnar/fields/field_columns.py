"""The contents of the commands and metadata of a window's frames, as columns.

Rules of this file
1. Three decoders fill the same columns: rows of one layout together, metadata of many layouts field by field, and
   single rows with the readers of the object path. The choice affects only the speed; tests compare all three decoders
   with the object path.
"""

from __future__ import annotations

from pcli.spark.columnar.fields.checksums import read_checksums
from pcli.spark.columnar.fields.column_buffers import FrameBuilder
from pcli.spark.columnar.fields.commands import Commands
from pcli.spark.columnar.fields.frame_headers import read_heads
from pcli.spark.columnar.fields.growable_columns import GrowingIds, GrowingWords
from pcli.spark.columnar.fields.metadata import Metadata
from pcli.spark.columnar.fields.payload_sections import read_parts
from pcli.spark.columnar.fields.row_decoder import RowReader
from pcli.spark.columnar.frame_columns import Frames, Places

__all__ = ["read_fields"]


def read_fields(places: Places, *, checksums: bool = True) -> Frames:
    """Read every frame of ``places``. If ``checksums`` is false, the column crc is CRC_NONE in all rows."""
    frames = FrameBuilder(places)
    words, ids = GrowingWords(), GrowingIds()
    rows = RowReader(frames, words, ids)
    plain = read_heads(frames)
    Commands(frames, rows, words, ids).read(plain)
    checked = read_parts(frames)
    Metadata(frames, rows).read()
    if checksums:
        read_checksums(frames, checked)
    frames.words, frames.acks = words.joined(), ids.joined()
    return frames.read()
