"""Columns under construction, and how they are written.

Rules of this file
1. In most windows most columns are empty, because there are no chunks, transactions or epochs. An empty column is one
   number in memory, repeated by a stride of 0 and read-only. Its full memory is assigned when the column is first
   written, so every write must use `FrameBuilder.column`.
2. This memory is one block, which is allocated in one call and touched only where it is used. This lets the system use
   large pages and avoids most page faults, the largest cost of this package.
3. The numbers of words of ack sets and of message ids of ACKs are unknown. They are appended when they are decoded, in
   any order of rows, and concatenated once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from pcli.spark.columnar.frame_columns import AckIds, Frames, Longs, Places

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


_COLUMNS = 7
"""Number of columns of AckIds, without ``words``."""


class GrowingWords:
    """Words of ack sets."""

    def __init__(self) -> None:
        self._pieces: list[Longs] = []
        self._size = 0

    def put(self, words: Longs) -> int:
        """Append words and return the index of the first."""
        start = self._size
        self._pieces.append(words)
        self._size += len(words)
        return start

    def put_list(self, words: Sequence[int]) -> tuple[int, int]:
        """Append one ack set of signed numbers; return its start and end, or -1 and -1 if it is empty."""
        if not words:
            return -1, -1
        start = self.put(np.array(words, np.int64))
        return start, start + len(words)

    def joined(self) -> Longs:
        """Return all words."""
        return np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.int64)


class GrowingIds:
    """Rows of AckIds."""

    def __init__(self) -> None:
        self.words = GrowingWords()
        self._pieces: list[Sequence[Longs]] = []

    def put(self, columns: Sequence[Longs]) -> None:
        """Append ids; ``columns`` are the columns of AckIds without ``words``.

        The ids of one frame must be in order.
        """
        self._pieces.append(columns)

    def put_lists(self, row: int, ids: list[tuple[int, int, int, int, int, int]]) -> None:
        """Append the ids of one frame; the last two numbers of each id are set_start and set_end."""
        if ids:
            columns = list(np.array(ids, np.int64).T)
            self._pieces.append([np.full(len(ids), row, np.int64), *columns])

    def joined(self) -> AckIds:
        """Return all ids in the order of the frames."""
        pieces = zip(*self._pieces, strict=True) if self._pieces else [[np.zeros(0, np.int64)]] * _COLUMNS
        columns = [np.concatenate(list(one)) for one in pieces]
        # NumPy sorts 16-bit numbers with radix sort, which is faster than its sort for 64-bit numbers.
        rows = columns[0]
        order = np.argsort(rows.astype(np.uint16) if len(rows) and rows.max() < 1 << 16 else rows, kind="stable")
        row, ledger, entry, partition, batch, start, end = (column.take(order) for column in columns)
        return AckIds(row, ledger, entry, partition, batch, start, end, self.words.joined())
