"""Deliveries within a split, with their acknowledgements and redelivery requests.

Rules of this file
1. A row is a MESSAGE frame. It includes the first individual ACK after it and the first REDELIVER with its id, if the
   same consumer sent them before it received the next MESSAGE with that id. All other ACKs and REDELIVERs have separate
   rows. Nothing is omitted, so the sorted rows of a message are its history.
2. The transaction and the ack set of an ACK are stored as a few bytes (`pack_ack`).
3. Cumulative ACKs are rows of a separate table, because the positions that they cover are determined after all splits.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from itertools import pairwise
from struct import pack, unpack_from
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pcli.codec.observe.decoding.decode_plans import command_plan
from pcli.codec.observe.decoding.message_decoder import walk
from pcli.codec.observe.decoding.value_kinds import Values
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.message_id import signed
from pcli.spark.columnar.byte_arrays import binary_array
from pcli.spark.columnar.frame_columns import Frames, Longs
from pcli.spark.columnar.lifecycles.partial_tables import CONSUMED, CUMULATIVE, LABELS
from pcli.spark.columnar.lifecycles.row_operations import (
    group_starts,
    joint_key,
    ledgers_of,
    longs,
    order_of,
    picked,
    shuffle_key,
    table_of,
    take,
)
from pcli.spark.columnar.observation.frame_header_rows import to_heads
from pcli.spark.columnar.string_arrays import names_of

_MESSAGE: Final = BY_NAME["MESSAGE"].number
_ACK: Final = BY_NAME["ACK"].number
REDELIVER: Final = BY_NAME["REDELIVER_UNACKNOWLEDGED_MESSAGES"].number

_DELIVERED, _ACKED, _NACKED = 0, 1, 2

_COLUMNS: Final = {
    "redelivery": "redelivery",
    "partition": "partition",
    "batch": "batch",
    "size": "payload_size",
    "publish_ms": "publish_ms",
    "deliver_at_ms": "deliver_at_ms",
    "sequence": "metadata_sequence",
    "highest": "metadata_highest",
    "key_kind": "key_kind",
}
"""Columns of CONSUMED that come from the MESSAGE, and their names in Frames."""

_ID: Final = ("stream", "consumer_id", "ledger", "entry")

_REQUESTS: Final = pa.schema(
    [*((name, pa.int64()) for name in (*_ID, "number", "time_ns")), ("ack", pa.binary())]
).empty_table()
"""ACKs and redelivery requests by message id."""


def pack_ack(most: int, least: int, words: list[int]) -> bytes | None:
    """Return the transaction (-1, -1 if none) and ack set of an ACK as bytes; None if the ACK has neither."""
    if most == -1 and least == -1 and not words:
        return None
    return pack(f"<qq{len(words)}q", most, least, *words)


def unpack_ack(data: bytes) -> tuple[tuple[int, int] | None, list[int]]:
    """Return the transaction and the words of the ack set; the inverse of `pack_ack`."""
    most, least, *words = unpack_from(f"<{len(data) // 8}q", data)
    return (None if most == -1 and least == -1 else (most, least)), list(words)


class SplitDeliveries:
    """A collector of the deliveries and acknowledgements of one split, window by window."""

    def __init__(self) -> None:
        self._delivered: list[pa.Table] = []
        self._acked: list[pa.Table] = []
        self._nacked: list[pa.Table] = []
        self._cumulative: list[pa.Table] = []
        self._labels: dict[str, int] = {}

    def add(self, frames: Frames, numbers: Longs) -> None:
        """Add a window."""
        # A MESSAGE that is truncated within its id belongs to no delivery.
        rows = np.flatnonzero((frames.type == _MESSAGE) & (frames.owner >= 0) & (frames.entry >= 0))
        if len(rows):
            self._delivered.append(self._deliveries(frames, numbers, rows))
        if len(frames.acks.row):
            self._add_acks(frames, numbers)
        rows = np.flatnonzero(frames.type == REDELIVER)
        if len(rows):
            self._nacked += _nacks(frames, numbers, rows)

    def _deliveries(self, frames: Frames, numbers: Longs, rows: Longs) -> pa.Table:
        places = frames.places
        columns: dict[str, Any] = {name: picked(getattr(frames, mine), rows) for name, mine in _COLUMNS.items()}
        # The column in `messages` has 31 bits, so larger values are clipped.
        columns["redelivery"] = np.minimum(columns["redelivery"], 0x7FFFFFFF)
        ledger, entry = picked(frames.ledger, rows), picked(frames.entry, rows)
        columns |= {
            "stream": places.stream.take(rows),
            "consumer_id": picked(frames.owner, rows),
            "ledger": ledger,
            "entry": entry,
            "place": shuffle_key(ledger, entry, columns["sequence"]),
            "delivered_number": numbers.take(rows),
            "delivered_ns": places.time_ns.take(rows),
            **dict.fromkeys(("acked_number", "acked_ns", "nacked_number", "nacked_ns"), -1),
            "ack": None,
            "name": self._names(frames, rows),
            "key": binary_array(places.data, picked(frames.key_start, rows), picked(frames.key_end, rows)),
            "head": _heads(frames, numbers, rows),
        }
        return table_of(CONSUMED, columns)

    def _names(self, frames: Frames, rows: Longs) -> Longs:
        """Return the names of producers as ids of LABELS."""
        coded = names_of(frames.places.data, picked(frames.name_start, rows), picked(frames.name_end, rows))
        ids = [self._label(one) for one in coded.dictionary.to_pylist()]
        found: Longs = np.array([*ids, 0], np.int64).take(pc.fill_null(coded.indices, len(ids)).to_numpy())
        return found

    def _label(self, text: str) -> int:
        number = self._labels.get(text)
        if number is None:
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            number = self._labels[text] = int.from_bytes(digest, "little") >> 1 or 1
        return number

    def _add_acks(self, frames: Frames, numbers: Longs) -> None:
        ids = frames.acks
        rows = ids.row
        whole = frames.type.take(rows) == _ACK
        cumulative = picked(frames.ack_type, rows) == 1
        alone = np.bincount(rows, minlength=len(frames)).take(rows) == 1
        unusual = _unusual(frames)
        for kept, group in ((whole & ~cumulative, self._acked), (whole & cumulative & alone, self._cumulative)):
            some = np.flatnonzero(kept)
            if len(some):
                mine = rows.take(some)
                columns = {
                    "stream": frames.places.stream.take(mine),
                    "consumer_id": frames.owner.take(mine),
                    "ledger": ids.ledger.take(some),
                    "entry": ids.entry.take(some),
                    "number": numbers.take(mine),
                    "time_ns": frames.places.time_ns.take(mine),
                    "ack": unusual.take(pa.array(some)),
                }
                group.append(pa.table(columns))

    def finish(self) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
        """Return the tables CONSUMED, CUMULATIVE, LABELS and LEDGERS."""
        cumulative = [
            table_of(CUMULATIVE, {name: one.column(name) for name in one.column_names}) for one in self._cumulative
        ]
        labels = pa.table({"id": list(self._labels.values()), "text": list(self._labels)}, schema=LABELS)
        delivered = pa.concat_tables([CONSUMED.empty_table(), *self._delivered])
        ledgers = ledgers_of(delivered, "consumer_id", "delivered_number")
        return self._joined(delivered), pa.concat_tables([CUMULATIVE.empty_table(), *cumulative]), labels, ledgers

    def _joined(self, delivered: pa.Table) -> pa.Table:
        """Return each delivery with its ACK and request, and separate rows for ACKs and requests without a delivery."""
        acked, nacked = pa.concat_tables([_REQUESTS, *self._acked]), pa.concat_tables([_REQUESTS, *self._nacked])
        if not len(acked) and not len(nacked):
            return delivered
        owner = _owners(delivered, acked, nacked)
        of_acks, of_nacks = owner[: len(acked)], owner[len(acked) :]
        alone = [self._alone(acked, of_acks < 0, "acked"), self._alone(nacked, of_nacks < 0, "nacked")]
        delivered = _attach(delivered, acked, of_acks, "acked")
        delivered = _attach(delivered, nacked, of_nacks, "nacked")
        return pa.concat_tables([delivered, *alone])

    def _alone(self, requests: pa.Table, left: npt.NDArray[np.bool_], word: str) -> pa.Table:
        """Return rows of ACKs or requests without a delivery in the split."""
        requests = requests.filter(pa.array(left))
        columns: dict[str, Any] = dict.fromkeys(CONSUMED.names, -1) | {"key": None, "head": None, "ack": None}
        columns |= {name: requests.column(name).to_numpy() for name in _ID}
        columns |= {"name": 0, "key_kind": 0}
        columns[f"{word}_number"], columns[f"{word}_ns"] = requests.column("number"), requests.column("time_ns")
        if word == "acked":
            columns["ack"] = requests.column("ack")
        columns["place"] = shuffle_key(columns["ledger"], columns["entry"], np.zeros(len(requests), np.int64))
        return table_of(CONSUMED, columns)


def _owners(delivered: pa.Table, acked: pa.Table, nacked: pa.Table) -> Longs:
    """Return the delivery of each ACK, then of each redelivery request; -1 if it is not the first after a delivery."""
    tables = (delivered, acked, nacked)
    key = joint_key(np.concatenate([one.column(name).to_numpy() for one in tables]) for name in _ID)
    number = np.concatenate([longs(delivered, "delivered_number"), longs(acked, "number"), longs(nacked, "number")])
    order = order_of(number)
    order = order.take(order_of(key.take(order)))
    key = key.take(order)
    index = np.arange(len(order))
    last = np.maximum.accumulate(np.where(order < len(delivered), index, -1))
    follows = last >= np.maximum.accumulate(np.where(group_starts(key), index, 0))
    found = np.full(len(order) - len(delivered), -1, np.int64)
    borders = (len(delivered), len(delivered) + len(acked), len(order))
    for low, high in pairwise(borders):
        at = np.flatnonzero(follows & (order >= low) & (order < high))
        at = at.compress(group_starts(last.take(at)))
        found[order.take(at) - len(delivered)] = order.take(last.take(at))
    return found


def _attach(delivered: pa.Table, requests: pa.Table, owner: Longs, word: str) -> pa.Table:
    """Return the deliveries with the ACKs or requests written into their rows."""
    at = np.flatnonzero(owner >= 0)
    rows = owner[at]
    for name, source in ((f"{word}_number", "number"), (f"{word}_ns", "time_ns")):
        values = np.full(len(delivered), -1, np.int64)
        values[rows] = longs(requests, source).take(at)
        delivered = delivered.set_column(CONSUMED.get_field_index(name), CONSUMED.field(name), pa.array(values))
    if word == "acked" and requests.column("ack").null_count < len(requests):
        places = np.full(len(delivered), -1, np.int64)
        places[rows] = at
        acks = requests.column("ack").combine_chunks().take(pa.array(places, mask=places < 0))
        delivered = delivered.set_column(CONSUMED.get_field_index("ack"), CONSUMED.field("ack"), acks)
    return delivered


def _heads(frames: Frames, numbers: Longs, rows: Longs) -> Any:
    """Return the bytes of unusual MESSAGEs up to the payload, null for usual MESSAGEs; None if all are usual."""
    odd = ~(frames.complete.take(rows) & frames.metadata_complete.take(rows))
    for column in (frames.set_start, frames.chunk, frames.marker):
        odd |= picked(column, rows) >= 0
    for column in (frames.metadata_most, frames.metadata_least):
        odd |= picked(column, rows) != -1
    places = np.flatnonzero(odd)
    if not len(places):
        return None
    heads = to_heads(take(frames, rows[places]), numbers[rows[places]]).column("data")
    index = np.full(len(rows), -1, np.int64)
    index[places] = np.arange(len(places))
    return heads.take(pa.array(index, mask=index < 0))


def _unusual(frames: Frames) -> pa.Array:
    """Return transaction and ack set for each id of the ACKs."""
    ids = frames.acks
    most, least = picked(frames.txn_most, ids.row), picked(frames.txn_least, ids.row)
    at = np.flatnonzero((most != -1) | (least != -1) | (ids.set_start >= 0))
    if not len(at):
        return pa.nulls(len(ids.row), pa.binary())
    values: list[bytes | None] = [None] * len(ids.row)
    for index in at.tolist():
        start, end = int(ids.set_start[index]), int(ids.set_end[index])
        words = ids.words[start:end].tolist() if start >= 0 else []
        values[index] = pack_ack(int(most[index]), int(least[index]), words)
    return pa.array(values, pa.binary())


@lru_cache(maxsize=4096)
def ids_of(data: bytes) -> tuple[tuple[int, int], ...]:
    """Return the ledger and entry of each complete id in a REDELIVER. The result is cached for several callers."""
    values: Values = {}
    walk(data, 8, 8 + int.from_bytes(data[4:8]), command_plan(REDELIVER), values)
    ids = values.get("pulsar.redeliverUnacknowledgedMessages.message_ids", ())
    whole = (one for one in ids if "ledgerId" in one and "entryId" in one)
    return tuple((signed(one["ledgerId"]), signed(one["entryId"])) for one in whole)


def _nacks(frames: Frames, numbers: Longs, rows: Longs) -> list[pa.Table]:
    """Return the ids of REDELIVERs, which are decoded one by one."""
    places = frames.places
    found: list[tuple[int, int, int]] = []
    for row in rows.tolist():
        found += [(row, *at) for at in ids_of(frames.head(row))]
    if not found:
        return []
    at = np.array(found, np.int64)
    row = at[:, 0]
    columns = (places.stream[row], frames.owner[row], at[:, 1], at[:, 2], numbers[row], places.time_ns[row])
    names = ("stream", "consumer_id", "ledger", "entry", "number", "time_ns")
    return [pa.table({**dict(zip(names, columns, strict=True)), "ack": pa.nulls(len(row), pa.binary())})]
