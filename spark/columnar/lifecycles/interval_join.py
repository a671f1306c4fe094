"""Which of several owners an id had at a frame: a join by connection, id and the last change up to the frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.lifecycles.row_operations import dense, joint_key

__all__ = ["Intervals"]

_FULL: Final = 1 << 62
"""Keys stay below: of hostile ids there is room for fewer frames, so they are counted."""


@dataclass(slots=True)
class Intervals:
    """What holds for (stream, id) from a frame number on until the next row of the same; no order is needed."""

    stream: Longs
    id: Longs
    number: Longs
    """The frame from which on, itself included."""

    def find(self, stream: Longs, id: Longs, number: Longs) -> Longs:  # noqa: A002
        """The row that holds for each of these; -1: none."""
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
        """For each row the number from which on another row of the same holds."""
        size = len(self.stream)
        found = np.full(size, np.iinfo(np.int64).max, np.int64)
        if size:
            owner = joint_key((self.stream, self.id))
            order = np.lexsort((self.number, owner))
            same = owner[order][1:] == owner[order][:-1]
            found[order[:-1][same]] = self.number[order[1:][same]]
        return found
