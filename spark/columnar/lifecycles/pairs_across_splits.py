"""Requests and responses without a counterpart in their split, paired across splits: SENDs and receipts, ACKs.

Rules of this file
1. In a row of ``halves`` or ``ack_halves``, the number of the missing frame is -1.
2. A split summarizes the ids of these rows (UNPAIRED). A row can have a counterpart only if its id is in a range that
   contains requests and responses of its producer or connection (`PairableRanges`). Outside of these ranges, a request
   has no response, a response is ignored, and no shuffle is needed. In a capture of one direction, there is no range.
3. Within these ranges, a SEND and a receipt are a pair if no other row has their connection, producer_id and sequence
   id, the SEND precedes the receipt, and the producer's session does not end in between. All other rows with an equal
   id are matched by `resolve_sends`. SENDs without a receipt are lost if their session ended, otherwise in flight.
4. An ACK and a response are a pair if no other row has their connection and request id, and the ACK precedes the
   response. All other rows with an equal request id are matched by `exchanges_of_requests`, also rows with the request
   id of a frame that was forwarded as bytes, such as a response with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.frame_replay import frame_row, with_role
from pcli.spark.columnar.lifecycles.partial_tables import ANSWERED, FORWARDED, PUBLISHED, UNPAIRED, UNPAIRED_KINDS
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.resend_candidates import ANY_TIME, Suspect
from pcli.spark.columnar.lifecycles.row_operations import Intervals, group_starts, joint_key, order_of, table_of

_BLOCK_IDS: Final = 1 << 20
"""Number of consecutive ids of a producer or connection that are in the same bucket."""

_FAR: Final = np.iinfo(np.int64).max

_Ids = tuple[Longs, Longs, Longs, Longs]
"""Connection, owner (-1 if the connection is the owner), lowest id and highest id of each row."""

RequestIds = frozenset[tuple[int, int]]
"""Connections and request ids."""

_ANSWERS: Final = (BY_NAME["ACK_RESPONSE"].number, BY_NAME["ERROR"].number)


# -- ranges of ids -----------------------------------------------------------------------------------------------------


def _send_ids(halves: pa.Table) -> _Ids:
    names = ("stream", "producer_id", "sequence", "highest")
    stream, owner, sequence, highest = (halves.column(name).to_numpy() for name in names)
    return stream, owner, sequence, np.maximum(sequence, highest)


def _ack_ids(halves: pa.Table) -> _Ids:
    stream, request = (halves.column(name).to_numpy() for name in ("stream", "request_id"))
    return stream, np.full(len(stream), -1, np.int64), request, request


@dataclass(frozen=True, slots=True)
class PairableRanges:
    """The ids, by connection and owner, from the first to the last that a request and a response may share."""

    owners: Intervals
    least: Longs
    most: Longs
    ids: Callable[[pa.Table], _Ids]
    """The function that returns the ids of rows."""

    @property
    def empty(self) -> bool:
        """Whether no pairs are possible."""
        return not len(self.least)

    def _contain(self, halves: pa.Table) -> Bools:
        if self.empty:
            return np.zeros(len(halves), np.bool_)
        stream, owner, least, most = self.ids(halves)
        at = self.owners.find(stream, owner, np.zeros(len(stream), np.int64))
        found: Bools = (at >= 0) & (least <= self.most[at]) & (most >= self.least[at])
        return found

    def inside(self, halves: pa.Table) -> pa.Table:
        """Return the rows that may have a counterpart in a different split."""
        return halves.filter(pa.array(self._contain(halves)))

    def outside(self, halves: pa.Table) -> pa.Table:
        """Return the rows without a counterpart in any split."""
        return halves.filter(pa.array(~self._contain(halves)))

    def buckets(self, rows: pa.Table, buckets: int) -> Longs:
        """Return the bucket of each row, which is equal for close ids of the same owner."""
        stream, owner, number, _ = self.ids(rows)
        mixed = (stream * 1_000_003 + owner) * 1_000_003 + number // _BLOCK_IDS
        found: Longs = (mixed & _FAR) % buckets
        return found


def send_ranges(unpaired: pa.Table) -> PairableRanges:
    """Return the ranges of sequence ids of a recording; ``unpaired`` contains the rows of all splits."""
    return _ranges(unpaired, "SEND", "SEND_RECEIPT", _send_ids)


def ack_ranges(unpaired: pa.Table) -> PairableRanges:
    """Return the ranges of request ids of a recording; ``unpaired`` contains the rows of all splits."""
    return _ranges(unpaired, "ACK", "ACK_RESPONSE", _ack_ids)


def _ranges(unpaired: pa.Table, request: str, response: str, ids: Callable[[pa.Table], _Ids]) -> PairableRanges:
    names = ("kind", "stream", "owner_id", "least_id", "most_id")
    kind, stream, owner, least, most = (unpaired.column(name).to_numpy() for name in names)
    requests, responses = kind == UNPAIRED_KINDS[request], kind == UNPAIRED_KINDS[response]
    rows = np.flatnonzero(requests | responses)
    stream, owner, least, most = (one[rows] for one in (stream, owner, least, most))
    key = joint_key((stream, owner))
    if not len(key):
        return PairableRanges(Intervals(key, key, key), key, key, ids)
    order = order_of(key)
    begins = np.flatnonzero(group_starts(key.take(order)))
    lows, highs = [], []
    for mine in (requests[rows][order], responses[rows][order]):
        lows.append(np.minimum.reduceat(np.where(mine, least[order], _FAR), begins))
        highs.append(np.maximum.reduceat(np.where(mine, most[order], -_FAR), begins))
    low, high = np.maximum(*lows), np.minimum(*highs)
    kept = np.flatnonzero(low <= high)
    places = order[begins[kept]]
    owners = Intervals(stream[places], owner[places], np.zeros(len(kept), np.int64))
    return PairableRanges(owners, low[kept], high[kept], ids)


def unpaired_sends(sends: pa.Table, receipts: pa.Table) -> pa.Table:
    """Return UNPAIRED of ``halves``."""
    return pa.concat_tables([_unpaired("SEND", _send_ids(sends)), _unpaired("SEND_RECEIPT", _send_ids(receipts))])


def unpaired_acks(halves: pa.Table) -> pa.Table:
    """Return UNPAIRED of ``ack_halves``."""
    asked = halves.column("asked_number").to_numpy() >= 0
    acks, responses = (_ack_ids(halves.filter(pa.array(mine))) for mine in (asked, ~asked))
    return pa.concat_tables([_unpaired("ACK", acks), _unpaired("ACK_RESPONSE", responses)])


def _unpaired(kind: str, ids: _Ids) -> pa.Table:
    stream, owner, least, most = ids
    key = joint_key((stream, owner))
    if not len(key):
        return UNPAIRED.empty_table()
    order = order_of(key)
    begins = np.flatnonzero(group_starts(key.take(order)))
    columns = {
        "stream": stream[order[begins]],
        "owner_id": owner[order[begins]],
        "kind": UNPAIRED_KINDS[kind],
        "least_id": np.minimum.reduceat(least[order], begins),
        "most_id": np.maximum.reduceat(most[order], begins),
    }
    return table_of(UNPAIRED, columns)


# -- SENDs and receipts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairedSends:
    """The result of `pair_sends`."""

    published: pa.Table
    """Rows of PUBLISHED: pairs, and SENDs without a receipt."""
    ambiguous: list[Suspect]
    """The ids of rows that `resolve_sends` must match. ``published`` may contain some of these rows."""


def sends_outside(ranges: PairableRanges, halves: pa.Table) -> pa.Table:
    """Return the SENDs that have no receipt in any split."""
    found = ranges.outside(halves)
    return found.filter(pa.array(found.column("sent_number").to_numpy() >= 0))


def pair_sends(rows: pa.Table, facts: RecordingFacts) -> PairedSends:
    """Pair the SENDs and receipts of some producers and blocks of sequence ids; ``rows`` is in order of splits."""
    names = ("stream", "producer_id", "sequence", "highest", "sent_number", "receipt_number")
    stream, owner, sequence, highest, sent, received = (rows.column(name).to_numpy() for name in names)
    key = joint_key((stream, owner, sequence))
    number = np.maximum(sent, received)
    order = np.lexsort((number, key))
    begins = np.flatnonzero(group_starts(key[order])) if len(key) else order
    counts = np.diff(begins, append=len(order))
    first, is_send = order[begins], sent >= 0
    second = order[np.minimum(begins + 1, len(order) - 1)] if len(order) else order
    pairs = (counts == 2) & is_send[first] & ~is_send[second]
    pairs &= ~_ended_between(facts, stream[first], owner[first], number[first], number[second])
    alone = counts == 1
    plain = np.zeros(len(rows), np.bool_)
    plain[first[alone & is_send[first]]] = True
    made = join_pairs(rows, first[pairs], second[pairs])
    groups = _of_highest(stream, owner, sequence, highest, first[alone], is_send)
    exact = np.union1d(first[~pairs & ~alone], groups)
    keys = zip(stream[exact].tolist(), owner[exact].tolist(), sequence[exact].tolist(), strict=True)
    found = [(*one, one[2], *ANY_TIME) for one in keys]
    return PairedSends(pa.concat_tables([made, rows.filter(pa.array(plain))]), found)


def _of_highest(stream: Longs, owner: Longs, sequence: Longs, highest: Longs, alone: Longs, is_send: Bools) -> Longs:
    """Return SENDs and receipts without an equal sequence id if the receipt has the highest id of the SEND's batch."""
    sends, receipts = alone[is_send[alone]], alone[~is_send[alone]]
    sends = sends[highest[sends] != -1]
    columns = ((stream[sends], stream[receipts]), (owner[sends], owner[receipts]), (highest[sends], sequence[receipts]))
    key = joint_key(np.concatenate(one) for one in columns)
    of_sends, of_receipts = key[: len(sends)], key[len(sends) :]
    return np.concatenate([sends[np.isin(of_sends, of_receipts)], receipts[np.isin(of_receipts, of_sends)]])


def _ended_between(facts: RecordingFacts, stream: Longs, owner: Longs, since: Longs, until: Longs) -> Bools:
    """Return whether a session of the producer ended after the frame ``since`` and not after the frame ``until``."""
    ends = facts.session_ends
    at = ends.find(stream, owner, until)
    found: Bools = (at >= 0) & (np.append(ends.number, -1)[at] > since)
    return found


def lost_sends(facts: RecordingFacts, stream: Longs, owner: Longs, number: Longs) -> Bools:
    """Return whether the session of each SEND without a receipt ended, so that no receipt can follow."""
    last = int(facts.session_ends.number.max(initial=0))
    return _ended_between(facts, stream, owner, number, np.full(len(number), last, np.int64))


def join_pairs(rows: pa.Table, sent: Longs, received: Longs) -> pa.Table:
    """Return the rows of SENDs and the rows of their receipts as one row of PUBLISHED for each pair."""
    requests, answers = rows.take(pa.array(sent)).select(PUBLISHED.names), rows.take(pa.array(received))
    for name in ("ledger", "entry", "place", "receipt_number", "receipt_ns"):
        requests = requests.set_column(PUBLISHED.get_field_index(name), PUBLISHED.field(name), answers.column(name))
    return requests.cast(PUBLISHED)


# -- ACKs and their responses ------------------------------------------------------------------------------------------


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
    return PairedAcks(_join_acks(halves, first[pairs], second[pairs]), alone, halves.filter(pa.array(left)))


def _join_acks(halves: pa.Table, asked: Longs, answered: Longs) -> pa.Table:
    requests, answers = halves.take(pa.array(asked)), halves.take(pa.array(answered))
    for name in ("answered_number", "answered_ns"):
        requests = requests.set_column(ANSWERED.get_field_index(name), ANSWERED.field(name), answers.column(name))
    return requests


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
    rows = [frame for row in halves.to_pylist() for frame in _frames_of_ack(row)]
    return pa.Table.from_pylist(rows, FORWARDED)


def _frames_of_ack(row: dict[str, Any]) -> list[dict[str, Any]]:
    ids = {name: row[name] & (1 << 64) - 1 for name in ("consumer_id", "request_id")}
    found = []
    if row["asked_number"] >= 0:
        found.append(
            frame_row("acks", row, "asked", pb.CommandAck(**ids, ack_type=pb.CommandAck.Individual), from_client=True)
        )
    if row["answered_number"] >= 0:
        found.append(frame_row("acks", row, "answered", pb.CommandAckResponse(**ids), from_client=False))
    return found
