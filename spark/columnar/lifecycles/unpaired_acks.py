"""ACKs with a request id and their responses, paired in a split and across splits.

Rules of this file
1. In a row of ``ack_halves`` that is an ACK, ``answered_number`` is -1. In a row that is a response, ``asked_number``
   is -1.
2. An ACK and a response are a pair if no other row has their connection and request id, and the ACK precedes the
   response. All other rows with an equal request id are matched by `exchanges_of_requests`, also rows with the request
   id of a frame that was forwarded as bytes, such as a response with an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.frame_replay import with_role
from pcli.spark.columnar.lifecycles.pairable_ranges import (
    PairableRanges,
    pair_buckets,
    pairable_ranges,
    unpaired_rows,
)
from pcli.spark.columnar.lifecycles.partial_tables import ANSWERED, FORWARDED, UNPAIRED_KINDS
from pcli.spark.columnar.lifecycles.rebuilt_frames import frame_row
from pcli.spark.columnar.lifecycles.row_operations import group_starts, joint_key

__all__ = [
    "AckRanges",
    "PairedAcks",
    "RequestIds",
    "ack_ranges",
    "frames_of_acks",
    "pair_acks",
    "requests_of_bytes",
    "separate_requests",
    "unpaired_acks",
]

RequestIds = frozenset[tuple[int, int]]
"""Connections and request ids."""

_ANSWERS: Final = (BY_NAME["ACK_RESPONSE"].number, BY_NAME["ERROR"].number)


@dataclass(frozen=True, slots=True)
class AckRanges:
    """The request ids, by connection, at which ACKs and responses of different splits can be pairs."""

    ranges: PairableRanges

    @property
    def empty(self) -> bool:
        """Whether no pairs are possible."""
        return not len(self.ranges.least)

    def buckets(self, rows: pa.Table, buckets: int) -> Longs:
        """Return the bucket of each row."""
        stream, request = (rows.column(name).to_numpy() for name in ("stream", "request_id"))
        return pair_buckets(stream, np.full(len(stream), -1, np.int64), request, buckets)

    def _contain(self, halves: pa.Table) -> Bools:
        stream, request = (halves.column(name).to_numpy() for name in ("stream", "request_id"))
        return self.ranges.contain(stream, np.full(len(stream), -1, np.int64), request, request)

    def inside(self, halves: pa.Table) -> pa.Table:
        """Return the rows that may have a counterpart in a different split."""
        return halves.filter(pa.array(self._contain(halves)))

    def outside(self, halves: pa.Table) -> pa.Table:
        """Return the rows without a counterpart in any split."""
        return halves.filter(pa.array(~self._contain(halves)))


def ack_ranges(unpaired: pa.Table) -> AckRanges:
    """Return the ranges of a recording; ``unpaired`` contains the rows of all splits."""
    return AckRanges(pairable_ranges(unpaired, UNPAIRED_KINDS["ACK"], UNPAIRED_KINDS["ACK_RESPONSE"]))


def unpaired_acks(halves: pa.Table) -> pa.Table:
    """Return UNPAIRED of ``ack_halves``."""
    asked = halves.column("asked_number").to_numpy() >= 0
    tables = []
    for kind, rows in (("ACK", np.flatnonzero(asked)), ("ACK_RESPONSE", np.flatnonzero(~asked))):
        stream, request = (halves.column(name).to_numpy()[rows] for name in ("stream", "request_id"))
        tables.append(unpaired_rows(UNPAIRED_KINDS[kind], stream, np.full(len(rows), -1, np.int64), request, request))
    return pa.concat_tables(tables)


@dataclass(frozen=True, slots=True)
class PairedAcks:
    """The result of `pair_acks`."""

    answered: pa.Table
    """Pairs."""
    alone: pa.Table
    """ACKs and responses without a counterpart."""
    ambiguous: pa.Table
    """All other rows."""


def pair_acks(halves: pa.Table) -> PairedAcks:
    """Pair ACKs and responses; ``halves`` contains all rows of some request ids."""
    names = ("stream", "request_id", "asked_number", "answered_number")
    stream, request, asked, answered = (halves.column(name).to_numpy() for name in names)
    key = joint_key((stream, request))
    order = np.lexsort((np.maximum(asked, answered), key))
    begins = np.flatnonzero(group_starts(key[order])) if len(key) else order
    counts = np.diff(begins, append=len(order))
    first = order[begins]
    second = order[np.minimum(begins + 1, max(0, len(order) - 1))]
    pairs = (counts == 2) & (asked[first] >= 0) & (asked[second] < 0)
    left = np.ones(len(key), np.bool_)
    left[first[pairs]] = left[second[pairs]] = left[first[counts == 1]] = False
    alone = halves.take(pa.array(np.sort(first[counts == 1])))
    return PairedAcks(_joined(halves, first[pairs], second[pairs]), alone, halves.filter(pa.array(left)))


def _joined(halves: pa.Table, asked: Longs, answered: Longs) -> pa.Table:
    requests, answers = halves.take(pa.array(asked)), halves.take(pa.array(answered))
    for name in ("answered_number", "answered_ns"):
        requests = requests.set_column(ANSWERED.get_field_index(name), ANSWERED.field(name), answers.column(name))
    return requests


# -- rows that are matched frame by frame


def requests_of_bytes(forwarded: pa.Table) -> RequestIds:
    """Return the request ids of ACKs and responses that were forwarded as bytes, and of ERRORs."""
    rows = with_role(forwarded, "acks", "control")
    found = set()
    acks = with_role(rows, "acks")
    for table, types in ((acks, None), (rows, _ANSWERS)):
        names = ("stream", "type", "data")
        for stream, kind, data in zip(*(table.column(name).to_pylist() for name in names), strict=True):
            if types is None or kind in types:
                found.add((stream, signed(Frame.of(data).body.request_id)))
    return frozenset(found)


def separate_requests(halves: pa.Table, requests: RequestIds) -> tuple[pa.Table, pa.Table]:
    """Return the rows without these request ids, and the rows with them."""
    if not requests or not len(halves):
        return halves, halves.slice(0, 0)
    stream, request = (halves.column(name).to_numpy() for name in ("stream", "request_id"))
    found = np.zeros(len(stream), np.bool_)
    rows = np.flatnonzero(np.isin(request, [number for _, number in requests]))
    keys = zip(stream[rows].tolist(), request[rows].tolist(), strict=True)
    found[rows] = np.array([one in requests for one in keys], np.bool_)
    return halves.filter(pa.array(~found)), halves.filter(pa.array(found))


def frames_of_acks(halves: pa.Table) -> pa.Table:
    """Return FORWARDED of the ACKs and responses in these rows."""
    rows = [frame for row in halves.to_pylist() for frame in _frames(row)]
    return pa.Table.from_pylist(rows, FORWARDED)


def _frames(row: dict[str, Any]) -> list[dict[str, Any]]:
    ids = {name: row[name] & (1 << 64) - 1 for name in ("consumer_id", "request_id")}
    found = []
    if row["asked_number"] >= 0:
        found.append(
            frame_row("acks", row, "asked", pb.CommandAck(**ids, ack_type=pb.CommandAck.Individual), from_client=True)
        )
    if row["answered_number"] >= 0:
        found.append(frame_row("acks", row, "answered", pb.CommandAckResponse(**ids), from_client=False))
    return found
