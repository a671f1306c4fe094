"""Frame header rows as the pieces of an exchange."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.engine import Block

__all__ = ["blocks"]

_PIECE: Final = 1 << 16
"""Maximum number of rows in a piece."""


def blocks(rows: pa.Table, buckets: Longs, rank: int, kind: str = "heads") -> Iterator[Block]:
    """Yield rows in pieces. The rows are sorted by bucket. ``buckets`` contains the bucket of each row."""
    edges = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(buckets)]
    for start, end in pairwise(edges):
        for batch in rows.slice(start, end - start).combine_chunks().to_batches(_PIECE):
            yield Block(int(buckets[start]), rank, kind, batch)
