"""The owner of an id at a frame: a join by connection and id with the last change at or before the frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.lifecycles.row_operations import dense, joint_key

__all__ = ["Intervals"]

_FULL: Final = 1 << 62
"""Upper limit of keys. Very large ids would leave too few bits for the frame numbers, so ranks replace the ids."""


@dataclass(slots=True)
class Intervals:
    """Values that apply to (stream, id) from a frame number until the next row with the same key.

    Rows are unordered.
    """

    stream: Longs
    id: Longs
    number: Longs
    """The first frame to which the row applies."""

    def find(self, stream: Longs, id: Longs, number: Longs) -> Longs:  # noqa: A002
        """Return the row that applies to each (stream, id) at its frame; -1 if none."""
        known = len(self.stream)
        if not known or not len(stream):
            return np.full(len(stream), -1, np.int64)
        owner = joint_key((np.concatenate([self.stream, stream]), np.concatenate([self.id, id])))
        when = np.concatenate([self.number, number])
        room = int(when.max()) + 2
        if int(owner.max()) >= _FULL // room:
            owner, _ = dense(owner)
        key = owner * room + when + 1
        order = np.argsort(key[:known], kind="stable")
        at = np.searchsorted(key[:known][order], key[known:], side="right") - 1
        found = order[np.maximum(at, 0)]
        good = (at >= 0) & (owner[:known][found] == owner[known:])
        return np.where(good, found, -1)

    def until(self) -> Longs:
        """Return, for each row, the frame number from which the next row with the same key applies."""
        size = len(self.stream)
        found = np.full(size, np.iinfo(np.int64).max, np.int64)
        if size:
            owner = joint_key((self.stream, self.id))
            order = np.lexsort((self.number, owner))
            same = owner[order][1:] == owner[order][:-1]
            found[order[:-1][same]] = self.number[order[1:][same]]
        return found
