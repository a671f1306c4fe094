"""SENDs and receipts without a counterpart in their split, paired across splits.

Rules of this file
1. In a row of ``halves`` that is a SEND, ``receipt_number`` is -1. In a row that is a receipt, ``sent_number`` is -1.
2. A row can have a counterpart only if its sequence id is in a range that contains both SENDs and receipts of its
   producer (pairable_ranges.py). Outside of these ranges, a SEND has no receipt, and a receipt is ignored.
3. Within these ranges, a SEND and a receipt are a pair if no other row has their connection, producer_id and sequence
   id, the SEND precedes the receipt, and the producer's session does not end in between. All other rows with an equal
   id are matched by `resolve_sends`.
4. SENDs without a receipt are lost if their session ended, otherwise in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.pairable_ranges import PairableRanges, pair_buckets, pairable_ranges
from pcli.spark.columnar.lifecycles.partial_tables import UNPAIRED_KINDS
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.resend_candidates import ANY_TIME, Suspect
from pcli.spark.columnar.lifecycles.row_operations import group_starts, joint_key
from pcli.spark.columnar.lifecycles.split_sends import join_pairs

__all__ = ["PairedSends", "SendRanges", "lost_sends", "pair_sends", "send_ranges"]


@dataclass(frozen=True, slots=True)
class SendRanges:
    """The sequence ids, by producer, at which SENDs and receipts of different splits can be pairs."""

    ranges: PairableRanges

    @property
    def empty(self) -> bool:
        """Whether no pairs are possible."""
        return not len(self.ranges.least)

    def buckets(self, rows: pa.Table, buckets: int) -> Longs:
        """Return the bucket of each row."""
        stream, owner, sequence = (rows.column(name).to_numpy() for name in ("stream", "producer_id", "sequence"))
        return pair_buckets(stream, owner, sequence, buckets)

    def _contain(self, halves: pa.Table) -> Bools:
        names = ("stream", "producer_id", "sequence", "highest")
        stream, owner, sequence, highest = (halves.column(name).to_numpy() for name in names)
        return self.ranges.contain(stream, owner, sequence, np.maximum(sequence, highest))

    def inside(self, halves: pa.Table) -> pa.Table:
        """Return the rows that may have a counterpart in a different split."""
        return halves.filter(pa.array(self._contain(halves)))

    def sends_outside(self, halves: pa.Table) -> pa.Table:
        """Return the SENDs that have no receipt in any split."""
        return halves.filter(pa.array(~self._contain(halves) & (halves.column("sent_number").to_numpy() >= 0)))


def send_ranges(unpaired: pa.Table) -> SendRanges:
    """Return the ranges of a recording; ``unpaired`` contains the rows of all splits."""
    return SendRanges(pairable_ranges(unpaired, UNPAIRED_KINDS["SEND"], UNPAIRED_KINDS["SEND_RECEIPT"]))


@dataclass(frozen=True, slots=True)
class PairedSends:
    """The result of `pair_sends`."""

    published: pa.Table
    """Rows of PUBLISHED: pairs, and SENDs without a receipt."""
    ambiguous: list[Suspect]
    """The ids of rows that `resolve_sends` must match. ``published`` may contain some of these rows."""


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
