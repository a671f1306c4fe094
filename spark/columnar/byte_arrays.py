"""Bytes of all rows as an Arrow array, computed from their start and end positions without Python code for each row.

Rules of this file
1. The ranges are not adjacent in the data, so the offsets of a single Arrow array cannot represent them. The array
   therefore also contains the bytes between the ranges, and a `take` copies only every second element.
2. A row with a negative start is null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Bytes, Longs


def binary_array(data: Bytes, starts: Longs, ends: Longs) -> pa.BinaryArray:
    """Return the bytes data[start:end] of every row; null where ``start`` is negative."""
    there = starts >= 0
    some = np.flatnonzero(there)
    if not len(some):
        return pa.nulls(len(starts), pa.binary())
    begin, stop = starts[some], ends[some]
    if (begin[1:] < stop[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, stop, some = begin[order], stop[order], some[order]
        if (begin[1:] < stop[:-1]).any():
            return _one_by_one(data, starts, ends)
    place = np.zeros(len(starts), np.int32)
    place[some] = np.arange(0, 2 * len(some), 2, dtype=np.int32)
    return _between(data, begin, stop).take(pa.array(place, mask=~there)).cast(pa.binary())


def _between(data: Bytes, begin: Longs, stop: Longs) -> pa.BinaryArray | pa.LargeBinaryArray:
    """Return an array with the ranges at even indices and the bytes between them at odd indices.

    The ranges must be in order.
    """
    # If many frames are large, the offsets of a window may exceed 32 bits.
    kind, width = (pa.binary(), np.int32) if len(data) < 1 << 31 else (pa.large_binary(), np.int64)
    offsets = np.zeros(2 * len(begin) + 1, width)
    offsets[0:-1:2] = begin
    offsets[1::2] = stop
    offsets[-1] = stop[-1]
    whole = pa.py_buffer(np.ascontiguousarray(data))
    return pa.Array.from_buffers(kind, 2 * len(begin), [None, pa.py_buffer(offsets), whole])


def _one_by_one(data: Bytes, starts: Longs, ends: Longs) -> pa.BinaryArray:
    """Return the bytes of ranges that may overlap. Ranges overlap if a frame occurs twice."""
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return pa.array([data[start:end].tobytes() if start >= 0 else None for start, end in pairs], pa.binary())
