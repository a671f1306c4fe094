"""Flat messages with many layouts: in each round all rows advance by one field, which need not be the same field.

Rules of this file
1. For a valid protobuf message, `row_decoder.pull_places` returns the same result: a repeated field has its last value.
2. A row is rejected, and decoded row by row, if a field has a fixed size, a tag has more than two bytes, a number has
   more than eight bytes, or a field with a column has an unexpected wire type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pcli.spark.columnar.fields.byte_matrix import Matrix, gather, pull_column, squeeze
from pcli.spark.columnar.frame_columns import Bools, Bytes, Longs

_FIELDS: Final = 1 << 11
"""Number of field numbers whose tags have at most two bytes."""
_FEW: Final = 8
_STOPS: Final = np.int64(-0x7F7F7F7F7F7F7F80)
"""The continuation bits of eight bytes."""
_SPAN: Final = 12
"""Size of the longest tag and number."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The fields to read."""

    numbers: tuple[int, ...]
    texts: tuple[int, ...]


def scan(data: Bytes, starts: Longs, ends: Longs, plan: Plan) -> tuple[Longs, Bools]:
    """Return one row for each number field and two rows, start and end in ``data``, for each string field.

    A value is -1 if the field is absent. The fields are in the order of the plan, all numbers first. Also return which
    messages were read to their end.
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
    """Return, for each field number, the row of its value (-1 if not in the plan) and whether the value is a string."""
    slots = np.full(_FIELDS, -1, np.int64)
    texts = np.zeros(_FIELDS, np.bool_)
    slots[list(plan.numbers)] = np.arange(len(plan.numbers))
    slots[list(plan.texts)] = len(plan.numbers) + 2 * np.arange(len(plan.texts))
    texts[list(plan.texts)] = True
    return slots, texts


def _field(matrix: Matrix, at: Longs) -> tuple[Longs, Longs, Longs, Longs]:
    """Return the number, wire type, value and end of the first field of each row; the end is 0 if a field is too long.

    The value of a string field is its size, and its end is the position at which its bytes begin.
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
