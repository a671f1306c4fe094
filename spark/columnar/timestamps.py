"""Milliseconds of the wire as the nanoseconds of our tables.

Rules of this file
1. A field of the wire has 64 bits, and so has a column: what is no time, or does not fit as nanoseconds (from the
   year 2262 on), is null. Producers with clocks in microseconds exist, and Long.MAX as "never", too.
2. -1 is "not there", as in all columns; values of an uint64 above int64 come as their bits, and are below 0 here.
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
    """Milliseconds as int64 nanoseconds; null below ``least`` and where no 64 bits hold them."""
    fits = (values >= least) & (values <= _MOST_MS)
    return pa.array(np.where(fits, values, 0) * _NANOS, mask=~fits)


def nanoseconds_of(value: int, least: int = 0) -> int | None:
    """The same of one number."""
    return value * _NANOS if least <= value <= _MOST_MS else None
