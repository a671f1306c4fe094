"""Columns under construction, and how they are written.

Rules of this file
1. In most windows most columns are empty, because there are no chunks, transactions or epochs. An empty column is one
   number in memory, repeated by a stride of 0 and read-only. Its full memory is assigned when the column is first
   written, so every write must use `Blank.column`.
2. This memory is one block, which is allocated in one call and touched only where it is used. This lets the system use
   large pages and avoids most page faults, the largest cost of this package.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from pcli.spark.columnar.fields.growable_columns import GrowingIds
from pcli.spark.columnar.frame_columns import Frames, Longs, Places

__all__ = ["FrameBuilder"]

_FLAGS: Final = ("complete", "metadata_complete")
_OTHERS: Final = ("places", "acks", "words")
_NUMBERS: Final = [one.name for one in dataclasses.fields(Frames) if one.name not in _FLAGS + _OTHERS]
_ZERO: Final = frozenset({"crc", "key_kind"})
"""Columns in which 0 means no value. In all other columns, -1 means no value."""


class FrameBuilder(Frames):
    """Frames under construction."""

    __slots__ = ("_room",)

    def __init__(self, places: Places) -> None:
        """Create empty columns."""
        size = len(places)
        columns: dict[str, Any] = {name: np.broadcast_to(np.int64(_absent_value(name)), size) for name in _NUMBERS}
        columns |= {name: np.zeros(size, np.bool_) for name in _FLAGS}
        super().__init__(places=places, acks=GrowingIds().joined(), words=np.zeros(0, np.int64), **columns)
        self._room = iter(np.empty((len(_NUMBERS), size), np.int64))

    def column(self, name: str) -> Longs:
        """Return a writable column of numbers."""
        found: Longs = getattr(self, name)
        if not found.flags.writeable:
            found = next(self._room)
            found.fill(_absent_value(name))
            setattr(self, name, found)
        return found

    def read(self) -> Frames:
        """Return the finished frames."""
        return Frames(**{one.name: getattr(self, one.name) for one in dataclasses.fields(Frames)})


def _absent_value(name: str) -> int:
    return 0 if name in _ZERO else -1
