"""Rows that look alike, read together: first by size, then shape by shape.

Rules of this file
1. Traffic repeats itself: of the messages of one type and size nearly all have one of very few shapes. A row that is
   left gives a shape, all that have it are read with it, and so on.
2. What has no shape, and what is left after MOST shapes, after one that few rows have, or when few rows are left, goes
   another way.
3. Shapes are kept from window to window, a bounded number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pcli.spark.columnar.fields.byte_matrix import Matrix, gather
from pcli.spark.columnar.fields.message_layouts import Shape, UnsupportedLayoutError
from pcli.spark.columnar.frame_columns import Bytes, Longs

__all__ = ["Book", "by_key", "read_alike"]

MOST: Final = 8
"""Shapes that are tried for one size, and that are kept for one size and beginning."""
KEPT: Final = 2048
"""Sizes and beginnings of messages of which shapes are kept, MOST of each."""


class Shaped(Protocol):
    """What has a shape."""

    @property
    def shape(self) -> Shape:
        """The shape."""


T = TypeVar("T", bound=Shaped)


class Book(Generic[T]):
    """The shapes seen so far."""

    def __init__(self, shape_of: Callable[[bytes], T], *, few: int, share: int) -> None:
        """``shape_of`` makes a shape of a message, or raises UnsupportedLayoutError.

        ``few``: fewer rows are faster read another way; ``share``: a shape that fewer than one in so many rows have is
        a sign that there are too many shapes.
        """
        self.few = few
        self.share = share
        self._shape_of = shape_of
        self._known: dict[tuple[int, bytes], list[T]] = {}

    def find(self, data: bytes) -> T:
        """The shape of a message; raises UnsupportedLayoutError when it has none."""
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
    """Each key with its rows, in their order. Keys of 16 bits are sorted by counting, 6 ns a row."""
    if not len(rows):
        return
    order = np.argsort(keys, kind="stable")
    ordered = keys.take(order)
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for group, first in zip(np.split(rows.take(order), edges), [0, *edges.tolist()], strict=True):
        yield int(ordered[first]), group


def read_alike(
    data: Bytes,
    rows: Longs,
    starts: Longs,
    size: int,
    book: Book[T],
    put: Callable[[T, Longs, Matrix], None],
) -> Longs:
    """Read messages of one size at ``starts``: ``put`` is given a shape, the rows that have it, their bytes.

    The rows that are left: all of them when they are few.
    """
    if len(rows) < book.few:
        return rows
    matrix = gather(data, starts, size)
    odd: list[int] = []
    for _ in range(MOST):
        # Numbers grow: the first rows are often the last of their shape.
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
    """Some rows; whole rows are moved faster than bytes."""
    width = matrix.shape[1]
    whole: npt.NDArray[Any] = matrix.view(f"V{width}").ravel()
    taken: Matrix = whole.take(which).view(np.uint8).reshape(-1, width)
    return taken
