"""Rows with the same layout, decoded together: rows are grouped by size, and each group is decoded layout by layout.

Rules of this file
1. Nearly all messages of one type and size share very few layouts. In each round, one of the remaining rows determines
   a layout, and all rows with that layout are decoded.
2. The loop stops after MOST layouts, after a layout that few rows have, or when few rows remain. Other decoders process
   the remaining rows and the rows without a layout.
3. A bounded number of layouts is kept from window to window.
4. A spot describes a varint by its first byte and its size. The size is 0 if the value is -1 in all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pcli.spark.columnar.fields.byte_matrix import Matrix, gather, pull_varint
from pcli.spark.columnar.fields.column_buffers import GrowingWords
from pcli.spark.columnar.fields.message_layouts import Layout, UnsupportedLayoutError
from pcli.spark.columnar.frame_columns import Bytes, Longs

MOST: Final = 8
"""Maximum number of layouts that are tried for one size, and that are kept for one pair of size and first two bytes."""
KEPT: Final = 2048
"""Number of pairs of size and first two bytes for which layouts are kept, at most MOST for each pair."""


class HasLayout(Protocol):
    """An object with a layout."""

    @property
    def shape(self) -> Layout:
        """The layout."""


T = TypeVar("T", bound=HasLayout)


class LayoutCache(Generic[T]):
    """The known layouts."""

    def __init__(self, shape_of: Callable[[bytes], T], *, few: int, share: int) -> None:
        """``shape_of`` returns the layout of a message or raises UnsupportedLayoutError.

        Fewer than ``few`` rows are decoded faster in other ways. If less than 1/``share`` of the rows have a layout,
        there are too many layouts.
        """
        self.few = few
        self.share = share
        self._shape_of = shape_of
        self._known: dict[tuple[int, bytes], list[T]] = {}

    def find(self, data: bytes) -> T:
        """Return the layout of a message; raise UnsupportedLayoutError if it has none."""
        known = self._known.setdefault((len(data), data[:2]), [])
        for one in known:
            if one.shape.has(data):
                return one
        found = self._shape_of(data)
        if len(known) >= MOST:
            del known[0]
        known.append(found)
        if len(self._known) > KEPT:
            self._known.clear()
        return found


def by_key(rows: Longs, keys: npt.NDArray[np.uint16]) -> Iterator[tuple[int, Longs]]:
    """Yield each key and its rows, in order. 16-bit keys are sorted with radix sort, in 6 ns per row."""
    if not len(rows):
        return
    order = np.argsort(keys, kind="stable")
    ordered = keys.take(order)
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for group, first in zip(np.split(rows.take(order), edges), [0, *edges.tolist()], strict=True):
        yield int(ordered[first]), group


def read_alike(
    data: Bytes, rows: Longs, starts: Longs, size: int, book: LayoutCache[T], put: Callable[[T, Longs, Matrix], None]
) -> Longs:
    """Decode messages of one size at ``starts``; call ``put`` with each layout, its rows and their bytes.

    Return the rows that were not decoded. If there are only a few rows, none is decoded.
    """
    if len(rows) < book.few:
        return rows
    matrix = gather(data, starts, size)
    odd: list[int] = []
    for _ in range(MOST):
        # Ids increase, so the first row often has a layout for shorter ids, which few other rows have. The middle row
        # is more typical.
        middle = len(rows) >> 1
        try:
            found = book.find(matrix[middle, :size].tobytes())
        except UnsupportedLayoutError:
            odd.append(int(rows[middle]))
            others = np.delete(np.arange(len(rows)), middle)
            rows, matrix = rows[others], _some(matrix, others)
            if len(rows) < book.few:
                break
            continue
        fits = found.shape.fits(matrix)
        count = int(np.count_nonzero(fits))
        if count == len(rows):
            put(found, rows, matrix)
            rows = rows[:0]
            break
        some, others = np.flatnonzero(fits), np.flatnonzero(~fits)
        put(found, rows.take(some), _some(matrix, some))
        rows, matrix = rows.take(others), _some(matrix, others)
        if len(rows) < book.few or count * book.share < len(rows):
            break
    return np.concatenate((np.array(odd, np.int64), rows)) if odd else rows


def _some(matrix: Matrix, which: Longs) -> Matrix:
    """Return some rows. Copying whole rows is faster than copying single bytes."""
    width = matrix.shape[1]
    whole: npt.NDArray[Any] = matrix.view(f"V{width}").ravel()
    taken: Matrix = whole.take(which).view(np.uint8).reshape(-1, width)
    return taken


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
