"""Columns whose length nobody knows before: words of ack sets, message ids of ACKs.

Pieces are put in as they are found, in any order of rows, and joined once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pcli.spark.columnar.frame_columns import AckIds, Longs

__all__ = ["GrowingIds", "GrowingWords"]

_COLUMNS = 7
"""Columns of AckIds, but for ``words``."""


class GrowingWords:
    """Words of ack sets."""

    def __init__(self) -> None:
        self._pieces: list[Longs] = []
        self._size = 0

    def put(self, words: Longs) -> int:
        """Append words; where they begin."""
        start = self._size
        self._pieces.append(words)
        self._size += len(words)
        return start

    def put_list(self, words: Sequence[int]) -> tuple[int, int]:
        """The same for one ack set, given as signed numbers: where it begins and ends; -1 and -1 of an empty one."""
        if not words:
            return -1, -1
        start = self.put(np.array(words, np.int64))
        return start, start + len(words)

    def joined(self) -> Longs:
        """All of them."""
        return np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.int64)


class GrowingIds:
    """Rows of AckIds."""

    def __init__(self) -> None:
        self.words = GrowingWords()
        self._pieces: list[Sequence[Longs]] = []

    def put(self, columns: Sequence[Longs]) -> None:
        """Append ids: the columns of AckIds but for ``words``. Those of one frame come in their order."""
        self._pieces.append(columns)

    def put_lists(self, row: int, ids: list[tuple[int, int, int, int, int, int]]) -> None:
        """The same for the ids of one frame, each with set_start and set_end as its last."""
        if ids:
            columns = list(np.array(ids, np.int64).T)
            self._pieces.append([np.full(len(ids), row, np.int64), *columns])

    def joined(self) -> AckIds:
        """All of them, in order of the frames."""
        pieces = zip(*self._pieces, strict=True) if self._pieces else [[np.zeros(0, np.int64)]] * _COLUMNS
        columns = [np.concatenate(list(one)) for one in pieces]
        # Short numbers are sorted by their digits, which is faster.
        rows = columns[0]
        order = np.argsort(rows.astype(np.uint16) if len(rows) and rows.max() < 1 << 16 else rows, kind="stable")
        row, ledger, entry, partition, batch, start, end = (column.take(order) for column in columns)
        return AckIds(row, ledger, entry, partition, batch, start, end, self.words.joined())
