"""Rows and bytes picked out of a window's frames, and keys by which rows find each other. All without a loop over rows.

Rules of this file
1. Keys of several numbers become one by counting the different values of each, so that no width is assumed.
2. Bytes are copied once, from the window into the column that leaves it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.bulk.columns import Bools, Bytes, Frames, Longs, Places
from pcli.codec.bulk.lives.partials import LEDGERS

__all__ = ["dense", "edges", "joint", "ledgers_of", "order_of", "place_of", "ranked", "slices", "table_of", "take"]

_FULL: Final = 1 << 62
_ROOM: Final = 1 << 42
"""Keys below leave room for a million places, see `order_of`."""


def take(frames: Frames, rows: Longs) -> Frames:
    """Some rows; ``acks`` and ``words`` stay those of all."""
    places = frames.places
    part = {one.name: getattr(places, one.name) for one in dataclasses.fields(Places)}
    picked = {name: value[rows] if name not in ("data", "trouble") else value for name, value in part.items()}
    if places.trouble:
        at = {row: index for index, row in enumerate(rows.tolist())}
        picked["trouble"] = {at[row]: value for row, value in places.trouble.items() if row in at}
    values: dict[str, Any] = {}
    for one in dataclasses.fields(Frames):
        value = getattr(frames, one.name)
        values[one.name] = value if one.name in ("acks", "words") else value[rows] if one.name != "places" else None
    values["places"] = Places(**picked)
    return Frames(**values)


def slices(data: Bytes, starts: Longs, ends: Longs) -> pa.Array:
    """data[starts[i]:ends[i]] for each i as bytes; null where the start is below 0."""
    there = starts >= 0
    if not there.any():
        return pa.nulls(len(starts), pa.binary())
    lengths = np.where(there, ends - starts, 0)
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    total = int(offsets[-1])
    index = np.arange(total, dtype=np.int32)
    index += np.repeat((starts - offsets[:-1]).astype(np.int32), lengths)
    mask = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(data[index])]
    return pa.BinaryArray.from_buffers(pa.binary(), len(starts), buffers)


def dense(values: Longs) -> tuple[Longs, int]:
    """Each value as a number from 0 on, in order of the values; and how many different ones there are."""
    if not len(values):
        return values, 0
    # Runs of equal values are the rule: ledgers, streams.
    begins = np.flatnonzero(edges(values))
    found, codes = np.unique(values[begins], return_inverse=True)
    lengths = np.diff(np.append(begins, len(values)))
    return np.repeat(codes.astype(np.int64), lengths), len(found)


def ranked(values: Longs) -> tuple[Longs, Longs]:
    """The different values in their order, and for each value its place among them."""
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values):
        found, place = np.unique(values, return_inverse=True)
        return found, place.astype(np.int64)
    seen = np.zeros(high - low + 1, np.bool_)
    seen[values - low] = True
    return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[values - low]


def joint(columns: Iterable[Longs]) -> Longs:
    """Several columns as one, from 0 on: equal where all are, and in their order."""
    parts = list(columns)
    if not len(parts[0]):
        return parts[0]
    codes = [(one - one.min(), int(one.max()) - int(one.min()) + 1) for one in parts]
    for place in sorted(range(len(parts)), key=lambda at: -codes[at][1]):
        if math.prod(room for _, room in codes) < _ROOM:
            break
        codes[place] = dense(parts[place])
    key: Longs
    key, size = codes[0]
    for code, room in codes[1:]:
        if size * room >= _FULL:
            key, size = dense(key)
        key, size = key * room + code, size * room
    return key


def order_of(key: Longs) -> Longs:
    """Where to find the rows in order of a key (0 or more), equal ones in their own order."""
    bits = max(1, len(key)).bit_length()
    if not len(key) or int(key.max()) >= _FULL >> bits:
        return np.argsort(key, kind="stable")
    # The row stands in the low bits: plain numbers are sorted several times as fast as places.
    packed = (key << bits) | np.arange(len(key), dtype=np.int64)
    packed.sort()
    found: Longs = packed & ((1 << bits) - 1)
    return found


def edges(key: Longs) -> Bools:
    """Where a new group begins, in a sorted key."""
    found = np.ones(len(key), np.bool_)
    np.not_equal(key[1:], key[:-1], out=found[1:])
    return found


def place_of(ledger: Longs, entry: Longs, sequence: Longs) -> Longs:
    """What rows of one message share, spread evenly.

    It is made of its id; where that is 0:0, as of all on non-persistent topics, or there is none, of its sequence id.
    """
    own = (ledger < 0) | ((ledger == 0) & (entry == 0))
    mixed = np.where(own, 0, ledger).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.where(own, sequence, entry).astype(np.uint64)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    return (mixed >> np.uint64(1)).astype(np.int64)


def table_of(schema: pa.Schema, columns: dict[str, Any]) -> pa.Table:
    """A table of arrays; a plain number stands for a column of it, None for one of nulls."""
    size = next(len(one) for one in columns.values() if one is not None and not isinstance(one, int))
    arrays = []
    for field in schema:
        value = columns[field.name]
        if value is None:
            value = pa.nulls(size, field.type)
        elif isinstance(value, int):
            value = np.full(size, value, np.int64)
        arrays.append(value if isinstance(value, pa.Array | pa.ChunkedArray) else pa.array(value, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def ledgers_of(rows: pa.Table, owner: str, number: str, split: int) -> pa.Table:
    """LEDGERS of some rows; ``owner`` and ``number`` name the columns that say who, and in which frame."""
    columns = [rows.column(name).to_numpy() for name in ("stream", owner, "ledger")]
    key = joint(columns)
    if not len(key):
        return LEDGERS.empty_table()
    order = order_of(key)
    begins = np.flatnonzero(edges(key[order]))
    stream, owners, ledger = (one[order][begins] for one in columns)
    first = np.minimum.reduceat(rows.column(number).to_numpy()[order], begins)
    produces = int(owner == "producer_id")
    return table_of(
        LEDGERS,
        {"split": split, "stream": stream, "owner_id": owners, "produces": produces, "ledger": ledger, "number": first},
    )
