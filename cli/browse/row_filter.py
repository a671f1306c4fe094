"""The frames of an index that match a display filter or contain a text.

Rules of this file
1. Terms that the columns of the index decide are evaluated on columns. Only the remaining candidates are decoded, so a
   filter for one connection or for a rare command reads few frames.
2. Results are yielded in blocks in the order of the frames, so that the caller can show them and stop at any time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pcli.cli.browse.frame_index import SYSTEM, FrameIndex
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.codec.observe import Facts, Filter
from pcli.codec.observe.filters.syntax_tree import And, Compare, FieldName, Literal, Node

Rows = npt.NDArray[np.uint32]
"""Numbers of frames, in ascending order."""

_BLOCK: Final = 1 << 15
_STEP: Final = 256
"""Frames that are decoded between two looks at the caller's wish to stop."""

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS: Final = {"frame.number": "packet", "tcp.stream": "stream"}


def visible_rows(index: FrameIndex, start: int, stop: int, *, system: bool) -> Rows:
    """Return the numbers of the frames start + 1 to stop, without the broker's own traffic unless it is included."""
    if system:
        return np.arange(start + 1, stop + 1, dtype=np.uint32)
    shown = index.columns["flags"][start:stop] & SYSTEM == 0
    return (np.flatnonzero(shown) + (start + 1)).astype(np.uint32)


def matching_rows(
    frames: StoredFrames, wanted: Filter | Callable[[Facts], bool], rows: Rows
) -> Iterator[tuple[int, Rows]]:
    """Yield how many of the rows were examined, and those of them that match, in ascending order."""
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        if not isinstance(wanted, Filter):
            yield from _decoded(frames, wanted, block, start)
            continue
        candidates, certain = _candidates(frames.index, wanted, block)
        if not candidates.any():
            yield start + len(block), block[certain]
        elif not certain.any():
            yield from _decoded(frames, wanted.match, block[candidates], start)
            yield start + len(block), block[:0]
        else:
            found = [part for _, part in _decoded(frames, wanted.match, block[candidates], start)]
            merged = np.sort(np.concatenate([block[certain], *found]))
            yield start + len(block), merged


def _candidates(index: FrameIndex, wanted: Filter, block: Rows) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which rows must be decoded, and which rows match for certain."""
    places = block.astype(np.int64) - 1
    types = index.columns["type"][places]
    present = np.unique(types).tolist()
    results = {number: wanted.constant(number) for number in present}
    certain = np.isin(types, [number for number, result in results.items() if result is True])
    candidates = np.isin(types, [number for number, result in results.items() if result is None])
    for column, test, value in _number_terms(wanted.tree):
        values = places + 1 if column == "number" else index.columns[column][places]
        candidates &= test(values, value)
    return candidates, certain


def _number_terms(tree: Node) -> Iterator[tuple[str, Callable[[Any, Any], Any], int]]:
    """Yield the terms about numbers of frames, packets and connections that all matching rows satisfy."""
    if isinstance(tree, And):
        for part in tree.of:
            yield from _number_terms(part)
    elif isinstance(tree, Compare) and isinstance(tree.left, FieldName) and isinstance(tree.right, Literal):
        column = "number" if tree.left.name == "pulsar.number" else _NUMBERS.get(tree.left.name)
        test, text = _OPERATORS.get(tree.operator), tree.right.text
        if column is not None and test is not None and text.isascii() and text.isdecimal() and len(text) < 19:
            yield column, test, int(text)


def _decoded(
    frames: StoredFrames, matches: Callable[[Facts], bool], rows: Rows, base: int
) -> Iterator[tuple[int, Rows]]:
    """Decode rows and yield those that match."""
    index = frames.index
    for start in range(0, len(rows), _STEP):
        part = rows[start : start + _STEP]
        found = [number for number in part.tolist() if matches(frames.rebuilt(number, index.row(number)))]
        yield base + start + len(part), np.array(found, np.uint32)
