"""Columns of unknown length: words of ack sets, and message ids of ACKs.

Arrays are appended when they are decoded, in any order of rows, and concatenated once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pcli.spark.columnar.frame_columns import AckIds, Longs

__all__ = ["GrowingIds", "GrowingWords"]

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
