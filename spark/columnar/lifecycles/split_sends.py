"""SENDs and their receipts within a split.

Rules of this file
1. A SEND and a SEND_RECEIPT are a pair if no other frames of the split have their connection, producer_id and sequence
   id, the SEND precedes the receipt, and the columns contain both completely. All other frames are unpaired and are
   forwarded as bytes: chunks, transactions, SEND_ERRORs, duplicates (-1:-1), resends, SENDs without a receipt.
2. Pairs are matched in each window, then among the frames that are unpaired after all windows of the split.
3. The SENDs of each producer in each window are summarized (``sessions``) to find resends in other splits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.byte_arrays import binary_array
from pcli.spark.columnar.frame_columns import Bools, Frames, Longs
from pcli.spark.columnar.lifecycles.partial_tables import PUBLISHED, SESSIONS
from pcli.spark.columnar.lifecycles.row_operations import (
    group_starts,
    joint_key,
    ledgers_of,
    order_of,
    picked,
    shuffle_key,
    table_of,
)

__all__ = ["SplitSends"]

_SEND: Final = BY_NAME["SEND"].number
_RECEIPT: Final = BY_NAME["SEND_RECEIPT"].number
_ERROR: Final = BY_NAME["SEND_ERROR"].number

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

    def add(self, frames: Frames, numbers: Longs) -> Longs:
        """Add a window and return the unpaired rows."""
        types = frames.type
        rows = np.flatnonzero((types == _SEND) | (types == _RECEIPT) | (types == _ERROR))
        if not len(rows):
            return rows
        sends = np.flatnonzero(types == _SEND)
        if len(sends):
            self._sessions.append(_sessions(frames, numbers, sends))
        kinds = _kinds(frames, rows)
        key = joint_key(picked(column, rows) for column in (frames.places.stream, frames.owner, frames.sequence))
        sent, received, left = _pairs(key, kinds)
        if len(sent):
            self._pairs.append(self._table(frames, numbers, rows[sent], rows[received]))
        if len(left):
            self._keep(frames, numbers, rows[left], kinds[left])
        return rows[left]

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

    def finish(self) -> tuple[pa.Table, pa.Table, pa.Table, Longs]:
        """Return the tables PUBLISHED, SESSIONS and LEDGERS, and the frames that were paired after their window."""
        found = np.zeros(0, np.int64)
        if len(self._left) > 1:
            left = pa.concat_tables(self._left)
            key = joint_key(left.column(name).to_numpy() for name in ("stream", "producer_id", "sequence"))
            sent, received, _ = _pairs(key, left.column("kind").to_numpy())
            if len(sent):
                pairs = _joined(left, sent, received)
                found = np.concatenate([pairs.column(name).to_numpy() for name in ("sent_number", "receipt_number")])
                self._pairs.append(pairs)
        published = pa.concat_tables([PUBLISHED.empty_table(), *self._pairs])
        return (
            published,
            pa.concat_tables([SESSIONS.empty_table(), *self._sessions]),
            ledgers_of(published, "producer_id", "sent_number"),
            found,
        )


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


def _joined(left: pa.Table, sent: Longs, received: Longs) -> pa.Table:
    """Return the two rows of each pair as one row."""
    requests, answers = left.take(pa.array(sent)), left.take(pa.array(received))
    for name in ("ledger", "entry", "place", "receipt_number", "receipt_ns"):
        requests = requests.set_column(
            requests.schema.get_field_index(name), PUBLISHED.field(name), answers.column(name)
        )
    return requests.drop_columns(["kind"]).cast(PUBLISHED)


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
