"""Flat messages of many shapes: all rows advance one field a round, whatever field that is.

Rules of this file
1. What is read is what `rows.pull_places` reads where a message is protobuf to its end: of repeated fields the last.
2. A row is refused, and read the slow way, when a field is of fixed size, a tag has more than two bytes, a number more
   than eight, or a field that has a column stands on another wire type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pcli.spark.columnar.fields.byte_matrix import Matrix, gather, pull_column, squeeze
from pcli.spark.columnar.frame_columns import Bools, Bytes, Longs

__all__ = ["Plan", "scan"]

_FIELDS: Final = 1 << 11
"""Field numbers whose tags have two bytes at most."""
_FEW: Final = 8
_STOPS: Final = np.int64(-0x7F7F7F7F7F7F7F80)
"""The bits that say whether one more byte follows, of eight bytes."""
_SPAN: Final = 12
"""Bytes of the longest tag and number."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which fields are wanted."""

    numbers: tuple[int, ...]
    texts: tuple[int, ...]


def scan(data: Bytes, starts: Longs, ends: Longs, plan: Plan) -> tuple[Longs, Bools]:
    """A row for each wanted field: its number; for each text two, begin and end in ``data``; -1 where it is not there.

    The fields stand in the order of the plan, all numbers first. And which messages were read to their ends.
    """
    slots, texts = _slots(plan)
    found = np.full((len(plan.numbers) + 2 * len(plan.texts) + 1, len(starts)), -1, np.int64)
    good = np.zeros(len(starts), np.bool_)
    good[starts == ends] = True
    which = np.flatnonzero(starts < ends)
    at, end = starts[which], ends[which]
    while len(which) >= _FEW:
        field, wire, value, behind = _field(gather(data, at, _SPAN), at)
        text = wire == 2
        stop = np.where(text, behind + value, behind)
        slot = slots[field]
        wanted = slot >= 0
        ok = (behind > 0) & (stop <= end) & (text | (wire == 0)) & (~wanted | (texts[field] == text))
        put = np.flatnonzero(ok & wanted)
        found[slot[put], which[put]] = np.where(text[put], behind[put], value[put])
        put = put[text[put]]
        found[slot[put] + 1, which[put]] = stop[put]
        good[which[ok & (stop == end)]] = True
        more = ok & (stop < end)
        which, at, end = which[more], stop[more], end[more]
    return found[:-1], good


def _slots(plan: Plan) -> tuple[Longs, Bools]:
    """For each field number: the row of its value, -1: unwanted; and whether it is a text."""
    slots = np.full(_FIELDS, -1, np.int64)
    texts = np.zeros(_FIELDS, np.bool_)
    slots[list(plan.numbers)] = np.arange(len(plan.numbers))
    slots[list(plan.texts)] = len(plan.numbers) + 2 * np.arange(len(plan.texts))
    texts[list(plan.texts)] = True
    return slots, texts


def _field(matrix: Matrix, at: Longs) -> tuple[Longs, Longs, Longs, Longs]:
    """Number, wire type and value of the field at the beginning of each row, and where it ends; 0: it is too long.

    Of a text the value is its size, and the end is where it begins.
    """
    first, second = matrix[:, 0].astype(np.int64), matrix[:, 1].astype(np.int64)
    two = first > 127
    tag = np.where(two, first & 127 | second << 7, first)
    word = np.where(two, pull_column(matrix, 2, "<i8"), pull_column(matrix, 1, "<i8"))
    stops = ~word & _STOPS
    inside = (stops & -stops) - 1
    size = (np.bitwise_count(inside).astype(np.int64) + 1) >> 3
    behind = at + 1 + two + size
    behind[(stops == 0) | (two & (second > 127))] = 0
    field = tag >> 3
    return field & _FIELDS - 1, tag & 7, squeeze(word & inside, 8), behind
