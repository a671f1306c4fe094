"""SENDs and their receipts within a split.

Rules of this file
1. A SEND and a SEND_RECEIPT are a pair if no other frames of the split have their connection, producer_id and sequence
   id, the SEND precedes the receipt, the columns contain both completely, and no command opens or closes the producer
   in between.
2. Pairs are matched in each window, then among the frames that are unpaired after all windows of the split. The
   remaining SENDs and receipts are rows of ``halves``, and pairs_across_splits.py pairs them across splits.
3. If the columns do not contain a frame completely, it is forwarded as bytes: chunks, transactions, SEND_ERRORs,
   duplicates (-1:-1), truncated frames.
4. The SENDs of each producer in each window are summarized (``sessions``) to find resends in other splits. SENDs that
   have the sequence id of another SEND of the split are summarized one by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.byte_arrays import binary_array
from pcli.spark.columnar.frame_columns import Bools, Frames, Longs
from pcli.spark.columnar.lifecycles.pairs_across_splits import join_pairs, unpaired_sends
from pcli.spark.columnar.lifecycles.partial_tables import PUBLISHED, SESSIONS
from pcli.spark.columnar.lifecycles.row_operations import (
    Intervals,
    group_starts,
    joint_key,
    ledgers_of,
    order_of,
    picked,
    shuffle_key,
    table_of,
)

_SEND: Final = BY_NAME["SEND"].number
_RECEIPT: Final = BY_NAME["SEND_RECEIPT"].number
_ERROR: Final = BY_NAME["SEND_ERROR"].number
_PRODUCER: Final = BY_NAME["PRODUCER"].number
_CLOSE_PRODUCER: Final = BY_NAME["CLOSE_PRODUCER"].number

_REQUEST, _RESPONSE, _UNUSUAL = 0, 1, 2
"""The kinds of frames: a SEND, a receipt, and any other frame, which makes its sequence id unusual."""

_COLUMNS: Final = {
    "messages": "messages",
    "highest": "highest",
    "batch": "batch",
    "size": "payload_size",
    "publish_ms": "publish_ms",
    "deliver_at_ms": "deliver_at_ms",
    "marker": "marker",
    "key_kind": "key_kind",
}
"""Columns of PUBLISHED that come from the SEND, and their names in Frames."""


class SplitSends:
    """A collector of the SENDs and receipts of one split, window by window."""

    def __init__(self) -> None:
        self._pairs: list[pa.Table] = []
        self._left: list[pa.Table] = []
        self._sessions: list[pa.Table] = []
        self._commands: list[Intervals] = []
        """The commands that open or close producers."""

    def add(self, frames: Frames, numbers: Longs) -> Longs:
        """Add a window and return the rows that must be forwarded as bytes."""
        types = frames.type
        commands = np.flatnonzero((types == _PRODUCER) | (types == _CLOSE_PRODUCER))
        if len(commands):
            self._commands.append(Intervals(frames.places.stream[commands], frames.owner[commands], numbers[commands]))
        rows = np.flatnonzero((types == _SEND) | (types == _RECEIPT) | (types == _ERROR))
        if not len(rows):
            return rows
        sends = np.flatnonzero(types == _SEND)
        if len(sends):
            self._sessions.append(_sessions(frames, numbers, sends))
        kinds = _kinds(frames, rows)
        key = joint_key(picked(column, rows) for column in (frames.places.stream, frames.owner, frames.sequence))
        sent, received, left = _pairs(key, kinds)
        if len(commands):
            ids = (frames.places.stream[rows], frames.owner[rows], numbers[rows])
            sent, received, left = _within_sessions(self._commands[-1:], ids, sent, received, left)
        if len(sent):
            self._pairs.append(self._table(frames, numbers, rows[sent], rows[received]))
        if len(left):
            self._keep(frames, numbers, rows[left], kinds[left])
        unusual: Longs = rows[left[kinds[left] == _UNUSUAL]]
        return unusual

    def _table(self, frames: Frames, numbers: Longs, sent: Longs, received: Longs) -> pa.Table:
        """Return rows of SENDs and receipts; if one of the two is missing, both arguments are the same frame."""
        places = frames.places
        columns: dict[str, Any] = {name: picked(getattr(frames, mine), sent) for name, mine in _COLUMNS.items()}
        ledger, entry = picked(frames.ledger, received), picked(frames.entry, received)
        columns |= {
            "stream": places.stream.take(sent),
            "producer_id": picked(frames.owner, sent),
            "sequence": picked(frames.sequence, sent),
            "ledger": ledger,
            "entry": entry,
            "place": shuffle_key(ledger, entry, picked(frames.sequence, sent)),
            "sent_number": numbers.take(sent),
            "sent_ns": places.time_ns.take(sent),
            "receipt_number": numbers.take(received),
            "receipt_ns": places.time_ns.take(received),
            "key": binary_array(places.data, picked(frames.key_start, sent), picked(frames.key_end, sent)),
        }
        return table_of(PUBLISHED, columns)

    def _keep(self, frames: Frames, numbers: Longs, rows: Longs, kinds: Longs) -> None:
        table = self._table(frames, numbers, rows, rows)
        self._left.append(table.append_column("kind", pa.array(kinds)))

    def finish(self) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table, pa.Table]:
        """Return the tables ``published``, ``halves``, ``sessions``, ``unpaired`` and ``ledgers``."""
        left = pa.concat_tables(self._left) if self._left else _KEPT.empty_table()
        key = joint_key(left.column(name).to_numpy() for name in ("stream", "producer_id", "sequence"))
        kinds = left.column("kind").to_numpy()
        sent, received, alone = _pairs(key, kinds)
        ids = tuple(left.column(name).to_numpy() for name in ("stream", "producer_id", "sent_number"))
        sent, received, alone = _within_sessions(self._commands, ids, sent, received, alone)
        self._pairs.append(join_pairs(left, sent, received))
        paired = pa.concat_tables([PUBLISHED.empty_table(), *self._pairs])
        sends, receipts = (_half(left, alone[kinds[alone] == kind], kind) for kind in (_REQUEST, _RESPONSE))
        return (
            paired,
            pa.concat_tables([sends, receipts]),
            pa.concat_tables([SESSIONS.empty_table(), *self._sessions, _repeated(left, key, kinds)]),
            unpaired_sends(sends, receipts),
            ledgers_of(paired, "producer_id", "sent_number"),
        )


_KEPT: Final = PUBLISHED.append(pa.field("kind", pa.int64()))


def _kinds(frames: Frames, rows: Longs) -> Longs:
    types = frames.type.take(rows)
    complete = frames.complete.take(rows) & (picked(frames.owner, rows) >= 0)
    requests = (
        complete
        & (types == _SEND)
        & frames.metadata_complete.take(rows)
        & (picked(frames.chunk, rows) < 0)
        & (picked(frames.txn_most, rows) == -1)
        & (picked(frames.txn_least, rows) == -1)
    )
    answers = complete & (types == _RECEIPT) & (picked(frames.ledger, rows) >= 0)
    kinds = np.full(len(rows), _UNUSUAL)
    kinds[requests] = _REQUEST
    kinds[answers] = _RESPONSE
    return kinds


def _pairs(key: Longs, kinds: Longs) -> tuple[Longs, Longs, Longs]:
    """Return indices of SENDs, of their receipts and of all other rows; the rows are in order of frames."""
    order = order_of(key)
    sorted_key, sorted_kinds = key.take(order), kinds.take(order)
    begins = np.append(group_starts(sorted_key), True)
    first: Bools = begins[:-1] & ~begins[1:] & (sorted_kinds == _REQUEST)
    first[:-1] &= begins[2:] & (sorted_kinds[1:] == _RESPONSE)
    first[-1:] = False
    at = np.flatnonzero(first)
    alone = np.ones(len(key), np.bool_)
    alone[at] = alone[at + 1] = False
    return order[at], order[at + 1], np.sort(order[alone])


def _within_sessions(
    commands: list[Intervals], ids: tuple[Longs, ...], sent: Longs, received: Longs, left: Longs
) -> tuple[Longs, Longs, Longs]:
    """Return the result of `_pairs`, in which a pair with a command between SEND and receipt is not a pair.

    ``ids`` are the connection, producer_id and frame of each row.
    """
    if not commands or not len(sent):
        return sent, received, left
    columns = ((one.stream, one.id, one.number) for one in commands)
    known = Intervals(*map(np.concatenate, zip(*columns, strict=True)))
    stream, owner, number = ids
    last = known.find(stream[sent], owner[sent], number[received])
    good = (last < 0) | (known.number[last] < number[sent])
    return sent[good], received[good], np.sort(np.concatenate([left, sent[~good], received[~good]]))


_ABSENT: Final = {
    _REQUEST: ("ledger", "entry", "receipt_number", "receipt_ns"),
    _RESPONSE: ("highest", "sent_number", "sent_ns"),
}
"""Columns of PUBLISHED that have no value without the other frame, by the kind of the frame."""


def _half(left: pa.Table, rows: Longs, kind: int) -> pa.Table:
    """Return SENDs without their receipts, or receipts without their SENDs."""
    table = left.select(PUBLISHED.names).take(pa.array(rows))
    for name in _ABSENT[kind]:
        missing = pa.array(np.full(len(rows), -1, np.int64))
        table = table.set_column(PUBLISHED.get_field_index(name), PUBLISHED.field(name), missing)
    return table.cast(PUBLISHED)


def _repeated(left: pa.Table, key: Longs, kinds: Longs) -> pa.Table:
    """Return SESSIONS of each SEND whose key another SEND has."""
    rows = np.flatnonzero(kinds == _REQUEST)
    _, group, counts = np.unique(key[rows], return_inverse=True, return_counts=True)
    rows = rows[counts[group] > 1]
    if not len(rows):
        return SESSIONS.empty_table()
    table = left.take(pa.array(rows))
    sources = ("stream", "producer_id", "sent_number", "sequence", "sequence", "publish_ms", "publish_ms")
    return table_of(SESSIONS, {name: table.column(one) for name, one in zip(SESSIONS.names, sources, strict=True)})


def _sessions(frames: Frames, numbers: Longs, rows: Longs) -> pa.Table:
    """Return SESSIONS of all SENDs of a window."""
    stream, owner = frames.places.stream.take(rows), picked(frames.owner, rows)
    key = joint_key((stream, owner))
    order = order_of(key)
    begins = np.flatnonzero(group_starts(key.take(order)))
    rows = rows.take(order)
    numbers, sequence, publish = (picked(one, rows) for one in (numbers, frames.sequence, frames.publish_ms))
    columns = {
        "stream": stream[order[begins]],
        "producer_id": owner[order[begins]],
        "first_number": numbers[begins],
        "least_sequence": np.minimum.reduceat(sequence, begins),
        "most_sequence": np.maximum.reduceat(sequence, begins),
        "least_publish_ms": np.minimum.reduceat(publish, begins),
        "most_publish_ms": np.maximum.reduceat(publish, begins),
    }
    return table_of(SESSIONS, columns)
