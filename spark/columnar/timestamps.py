"""Conversion of milliseconds in the wire format to nanoseconds in the tables.

Rules of this file
1. A time whose nanoseconds do not fit in 64 bits (after the year 2262) is null. Some producers send microseconds, or
   Long.MAX for "never".
2. As in all columns, -1 means absent. A uint64 above the maximum of int64 is represented by a negative number.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Longs

__all__ = ["nanoseconds", "nanoseconds_of"]

_NANOS: Final = 1_000_000
_MOST_MS: Final = ((1 << 63) - 1) // _NANOS


def nanoseconds(values: Longs, least: int = 0) -> pa.Array:
    """Convert milliseconds to int64 nanoseconds; null below ``least`` and where 64 bits do not suffice."""
    fits = (values >= least) & (values <= _MOST_MS)
    return pa.array(np.where(fits, values, 0) * _NANOS, mask=~fits)


def nanoseconds_of(value: int, least: int = 0) -> int | None:
    """Convert one number in the same way; return None instead of null."""
    return value * _NANOS if least <= value <= _MOST_MS else None
