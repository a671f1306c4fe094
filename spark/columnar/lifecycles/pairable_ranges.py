"""Ranges of ids in which requests and responses of different splits can be pairs.

A split summarizes its requests and responses without a counterpart (UNPAIRED). Outside of the ranges that contain both,
a request has no response in the recording, and no shuffle is needed. In a capture of one direction, there is no range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.interval_join import Intervals
from pcli.spark.columnar.lifecycles.partial_tables import UNPAIRED
from pcli.spark.columnar.lifecycles.row_operations import group_starts, joint_key, order_of, table_of

__all__ = ["BLOCK_IDS", "PairableRanges", "pair_buckets", "pairable_ranges", "unpaired_rows"]

BLOCK_IDS: Final = 1 << 20
"""Number of consecutive ids of a producer or connection that are in the same bucket."""

_FAR: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class PairableRanges:
    """The ids, by connection and producer, from the first to the last that a request and a response may share."""

    owners: Intervals
    least: Longs
    most: Longs

    def contain(self, stream: Longs, owner: Longs, least: Longs, most: Longs) -> Bools:
        """Return which rows, each with a lowest and highest id, are in a range."""
        if not len(self.least):
            return np.zeros(len(stream), np.bool_)
        at = self.owners.find(stream, owner, np.zeros(len(stream), np.int64))
        found: Bools = (at >= 0) & (least <= self.most[at]) & (most >= self.least[at])
        return found


def unpaired_rows(kind: int, stream: Longs, owner: Longs, least: Longs, most: Longs) -> pa.Table:
    """Return UNPAIRED of rows of one kind."""
    key = joint_key((stream, owner))
    if not len(key):
        return UNPAIRED.empty_table()
    order = order_of(key)
    begins = np.flatnonzero(group_starts(key.take(order)))
    columns = {
        "stream": stream[order[begins]],
        "owner_id": owner[order[begins]],
        "kind": kind,
        "least_id": np.minimum.reduceat(least[order], begins),
        "most_id": np.maximum.reduceat(most[order], begins),
    }
    return table_of(UNPAIRED, columns)


def pairable_ranges(unpaired: pa.Table, request: int, response: int) -> PairableRanges:
    """Return the ranges of two kinds of UNPAIRED; ``unpaired`` contains the rows of all splits."""
    names = ("kind", "stream", "owner_id", "least_id", "most_id")
    kind, stream, owner, least, most = (unpaired.column(name).to_numpy() for name in names)
    rows = np.flatnonzero((kind == request) | (kind == response))
    kind, stream, owner, least, most = (one[rows] for one in (kind, stream, owner, least, most))
    key = joint_key((stream, owner))
    if not len(key):
        return PairableRanges(Intervals(key, key, key), key, key)
    order = order_of(key)
    begins = np.flatnonzero(group_starts(key.take(order)))
    lows, highs = [], []
    for mine in (kind[order] == request, kind[order] == response):
        lows.append(np.minimum.reduceat(np.where(mine, least[order], _FAR), begins))
        highs.append(np.maximum.reduceat(np.where(mine, most[order], -_FAR), begins))
    low, high = np.maximum(*lows), np.minimum(*highs)
    kept = np.flatnonzero(low <= high)
    places = order[begins[kept]]
    owners = Intervals(stream[places], owner[places], np.zeros(len(kept), np.int64))
    return PairableRanges(owners, low[kept], high[kept])


def pair_buckets(stream: Longs, owner: Longs, number: Longs, buckets: int) -> Longs:
    """Return the bucket of each id, which is equal for close ids of the same owner."""
    mixed = (stream * 1_000_003 + owner) * 1_000_003 + number // BLOCK_IDS
    found: Longs = (mixed & _FAR) % buckets
    return found
