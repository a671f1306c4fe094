"""Numbers and ack sets from a matrix of messages with the same layout.

A spot describes a varint by its first byte and its size. The size is 0 if the value is -1 in all rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.spark.columnar.fields.byte_matrix import Matrix, pull_varint
from pcli.spark.columnar.fields.growable_columns import GrowingWords
from pcli.spark.columnar.frame_columns import Longs

__all__ = ["ID_COLUMNS", "Spot", "pull_id", "pull_words"]

Spot = tuple[int, int]

ID_COLUMNS: Final = ("ledger", "entry", "partition", "batch_index", "set_start", "set_end")
"""Columns of AckIds without the first and last."""


def pull_id(matrix: Matrix, numbers: dict[str, Spot], words: list[Spot], target: GrowingWords) -> list[Longs]:
    """Return ID_COLUMNS of a message id in every row; the words of its ack sets are appended to ``target``."""
    found = [_pull(matrix, numbers.get(name)) for name in ID_COLUMNS[:4]]
    return [*found, *pull_words(matrix, words, target)]


def pull_words(matrix: Matrix, spots: list[Spot], target: GrowingWords) -> tuple[Longs, Longs]:
    """Append the ack set of every row to ``target``; return where each ack set begins and ends."""
    if not spots:
        none = np.full(len(matrix), -1, np.int64)
        return none, none
    words = np.stack([pull_varint(matrix, *spot) for spot in spots], axis=1)
    starts = target.put(words.ravel()) + np.arange(len(matrix), dtype=np.int64) * len(spots)
    return starts, starts + len(spots)


def _pull(matrix: Matrix, spot: Spot | None) -> Longs:
    return pull_varint(matrix, *spot) if spot and spot[1] else np.full(len(matrix), -1, np.int64)
