"""What the commands and the metadata of a window's frames say, as columns.

Rules of this file
1. Three ways lead to the same columns: rows of one shape together, metadata of many shapes field by field, single rows
   by the object path's own readers. Which one a row takes is a matter of speed alone; tests hold all against the
   object path.
"""

from __future__ import annotations

from pcli.codec.bulk.columns import Frames, Places
from pcli.codec.bulk.fields.blank import Blank
from pcli.codec.bulk.fields.checksums import read_checksums
from pcli.codec.bulk.fields.commands import Commands
from pcli.codec.bulk.fields.growing import GrowingIds, GrowingWords
from pcli.codec.bulk.fields.heads import read_heads
from pcli.codec.bulk.fields.metadata import Metadata
from pcli.codec.bulk.fields.parts import read_parts
from pcli.codec.bulk.fields.rows import RowReader

__all__ = ["read_fields"]


def read_fields(places: Places, *, checksums: bool = True) -> Frames:
    """Read every frame of ``places``; without ``checksums`` the column crc is CRC_NONE throughout."""
    frames = Blank(places)
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
