"""Vectorized operations on rows: selection, joint keys, sorting, grouping, owners of ids at frames, Arrow columns.

Rules of this file
1. To combine several columns into one key, the values of each column are ranked, so no column width is assumed.
2. A column with the same value in all rows (see `FrameBuilder`) remains a single number until it becomes a table
   column.
3. `Intervals` is a join by connection and id with the last change at or before a frame.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Bools, Frames, Longs, Places
from pcli.spark.columnar.lifecycles.partial_tables import LEDGERS
from pcli.spark.columnar.table_schema import LONG

ENTRY_BLOCK: int = 1 << 14
"""Number of consecutive entries of a ledger that have the same shuffle key."""

_FULL: Final = 1 << 62
_ROOM: Final = 1 << 42
"""Maximum product of the ranges in a joint key. It leaves enough bits for a million row indices (`order_of`)."""


def picked(column: Any, rows: Longs) -> Any:
    """Return some rows of a column. A constant column (stride 0) remains constant, with the new length."""
    if column.strides == (0,) and len(column):
        return np.broadcast_to(column[0], len(rows))
    return column.take(rows)


def take(frames: Frames, rows: Longs) -> Frames:
    """Return some rows; ``acks`` and ``words`` remain complete."""
    places = frames.places
    part = {one.name: getattr(places, one.name) for one in dataclasses.fields(Places)}
    some = {name: picked(value, rows) if name not in ("data", "trouble") else value for name, value in part.items()}
    if places.trouble:
        at = {row: index for index, row in enumerate(rows.tolist())}
        some["trouble"] = {at[row]: value for row, value in places.trouble.items() if row in at}
    values: dict[str, Any] = {}
    for one in dataclasses.fields(Frames):
        value = getattr(frames, one.name)
        values[one.name] = (
            value if one.name in ("acks", "words") else picked(value, rows) if one.name != "places" else None
        )
    values["places"] = Places(**some)
    return Frames(**values)


def dense(values: Longs) -> tuple[Longs, int]:
    """Return the rank of each value from 0, and the number of distinct values."""
    if not len(values):
        return values, 0
    # Ledgers and streams have long runs of equal values.
    begins = np.flatnonzero(group_starts(values))
    found, codes = np.unique(values[begins], return_inverse=True)
    lengths = np.diff(np.append(begins, len(values)))
    return np.repeat(codes.astype(np.int64), lengths), len(found)


def ranked(values: Longs) -> tuple[Longs, Longs]:
    """Return the distinct values in order, and the rank of each value."""
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values):
        found, place = np.unique(values, return_inverse=True)
        return found, place.astype(np.int64)
    seen = np.zeros(high - low + 1, np.bool_)
    seen[values - low] = True
    return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[values - low]


def joint_key(columns: Iterable[Longs]) -> Longs:
    """Return several columns as one key, starting at 0.

    Two keys are equal if all columns are equal, and keys have the same sort order as the columns.
    """
    parts = list(columns)
    if not len(parts[0]):
        return parts[0]
    lows = [int(one.min()) for one in parts]
    rooms = [int(one.max()) - low + 1 for one, low in zip(parts, lows, strict=True)]
    for place in sorted(range(len(parts)), key=lambda one: -rooms[one]):
        if math.prod(rooms) < _ROOM:
            break
        (parts[place], rooms[place]), lows[place] = dense(parts[place]), 0
    key, size = np.zeros(len(parts[0]), np.int64), 1
    for code, room, low in zip(parts, rooms, lows, strict=True):
        if size * room >= _FULL:
            key, size = dense(key)
        if room > 1:
            key, size = code - low if size == 1 else key * room + (code - low), size * room
    return key


def order_of(key: Longs) -> Longs:
    """Return the row indices in stable order of a key, whose values must not be negative."""
    bits = max(1, len(key)).bit_length()
    if not len(key) or int(key.max()) >= _FULL >> bits:
        return np.argsort(key, kind="stable")
    # The low bits contain the row index, because sorting numbers is several times faster than sorting indices.
    packed: Longs = key << bits
    packed |= np.arange(len(key), dtype=np.int64)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def group_starts(key: Longs) -> Bools:
    """Return where a new group starts in a sorted key."""
    found = np.ones(len(key), np.bool_)
    np.not_equal(key[1:], key[:-1], out=found[1:])
    return found


def blocks_of(entry: Longs) -> tuple[Longs, Longs]:
    """Return the block of each entry of a ledger, and the last entry of that block."""
    block, highest = entry // ENTRY_BLOCK, np.iinfo(np.int64).max
    end = np.where(block < highest // ENTRY_BLOCK, block * ENTRY_BLOCK + (ENTRY_BLOCK - 1), highest)
    return block, end


def shuffle_key(ledger: Longs, entry: Longs, sequence: Longs) -> Longs:
    """Return the shuffle key of messages, spread evenly.

    It is computed from the message id and is equal for a block of entries, so that a cumulative ACK is needed in few
    buckets. If the id is missing, or is 0:0 because the topic is non-persistent, the key is computed from the sequence
    id.
    """
    block, _ = blocks_of(entry)
    own = np.flatnonzero(ledger <= 0)
    own = own[(ledger[own] < 0) | (entry[own] == 0)]
    if len(own):
        ledger = ledger.copy()
        ledger[own], block[own] = 0, sequence[own]
    mixed = ledger.astype(np.uint64)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed ^= block.view(np.uint64)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    mixed >>= np.uint64(1)
    return mixed.view(np.int64)


def table_of(schema: pa.Schema, columns: dict[str, Any]) -> pa.Table:
    """Return a table of arrays. A number becomes a constant column; None becomes a column of nulls."""
    size = next(len(one) for one in columns.values() if one is not None and not isinstance(one, int))
    arrays = []
    same: dict[int, pa.Array] = {}
    for field in schema:
        value = columns[field.name]
        if value is None:
            value = pa.nulls(size, field.type)
        elif isinstance(value, np.ndarray) and size and value.strides == (0,):
            value = int(value[0])
        if isinstance(value, int):
            # Columns with the same number share the bytes of this number.
            value = same[value] if value in same else same.setdefault(value, pa.array(np.full(size, value, np.int64)))
        arrays.append(value if isinstance(value, pa.Array | pa.ChunkedArray) else pa.array(value, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def ledgers_of(rows: pa.Table, owner: str, number: str) -> pa.Table:
    """Return LEDGERS of some rows; ``owner`` and ``number`` are the columns of the owner's id and of the frame."""
    columns = [rows.column(name).to_numpy() for name in ("stream", owner, "ledger")]
    key = joint_key(columns)
    if not len(key):
        return LEDGERS.empty_table()
    order = order_of(key)
    begins = np.flatnonzero(group_starts(key.take(order)))
    stream, owners, ledger = (one[order[begins]] for one in columns)
    first = np.minimum.reduceat(rows.column(number).to_numpy().take(order), begins)
    produces = int(owner == "producer_id")
    return table_of(
        LEDGERS, {"stream": stream, "owner_id": owners, "produces": produces, "ledger": ledger, "number": first}
    )


_MOST_KEY: Final = 1 << 62
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
        if int(owner.max()) >= _MOST_KEY // room:
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


_AT_ONCE: Final = 8192
"""Maximum number of rows that exist as dicts at the same time: 1000 rows use several megabytes."""


def values_at(values: Longs, places: Longs) -> Longs:
    """Return the values at some indices; -1 where the index is -1."""
    if not len(places) or int(places.min()) >= 0:
        return values.take(places)
    found: Longs = np.append(values, -1)[places]
    return found


def array_of(values: Any, kind: pa.DataType) -> pa.Array:
    """Return these values as an Arrow array; an Arrow array is returned unchanged."""
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def struct_of(columns: dict[str, Any], kind: pa.StructType) -> pa.Array:
    """Return a struct array; ``columns`` contains its columns by field name."""
    arrays = [array_of(columns[one.name], one.type) for one in kind]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def longs(table: pa.Table, name: str) -> Longs:
    """Return a column of numbers."""
    found: Longs = table.column(name).to_numpy()
    return found


def longs_of(values: Longs, kind: pa.DataType = LONG) -> pa.Array:
    """Return numbers as an array in which -1 is null."""
    missing: Bools = values == -1
    return pa.array(values, kind, mask=missing if missing.any() else None)


def texts_at(texts: list[str], places: Longs, *, empty_is_null: bool = False) -> pa.Array:
    """Return the text at each index; null where the index is -1."""
    values = pa.array([one or None if empty_is_null else one for one in texts] + [None], pa.string())
    return values.take(pa.array(places, mask=places < 0))


def table_in_batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table. The rows are read in batches, so only a few rows exist as dicts at the same time."""
    rows, tables = iter(rows), [schema.empty_table()]
    while some := list(islice(rows, _AT_ONCE)):
        tables.append(pa.Table.from_pylist(some, schema))
    return pa.concat_tables(tables).combine_chunks()
