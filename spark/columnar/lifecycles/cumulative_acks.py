"""The first cumulative ACK that covers each message, found without comparing each ACK with each message.

Rules of this file (broker: ServerCnx.handleAck, PersistentSubscription)
1. A cumulative ACK is effective if its consumer is attached and its subscription is neither Shared nor Key_Shared.
2. A cumulative ACK covers all positions up to the ACK's position. A message is therefore acknowledged by the earliest
   ACK whose position is not below the position of the message. If the ACKs are sorted by position, this ACK is found
   with a running minimum that starts at the last ACK.
3. An ACK with an ack set or a transaction is not part of that minimum.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.lifecycles.recording_facts import CumulativeAcks, RecordingFacts
from pcli.spark.columnar.lifecycles.row_operations import joint_key

__all__ = ["cumulative_acks_of", "first_reaching", "subscriptions_of"]

_FAR = np.iinfo(np.int64).max
_SPREAD = -7046029254386353131
"""2^64 divided by the golden ratio, as int64. A multiplication by this number spreads the numbers of connections."""


def subscriptions_of(facts: RecordingFacts, stream: Longs, owner: Longs, number: Longs) -> tuple[Longs, Longs]:
    """Return the subscription number (negative if unknown) and the row of each consumer at a frame."""
    at = facts.consumers.find(stream, owner, number)
    if not len(facts.session):
        return _nameless(stream, owner), at
    subs = np.array([one.sub for one in facts.sessions], np.int64)[facts.session]
    return np.where(at >= 0, subs[at], _nameless(stream, owner)), at


def _nameless(stream: Longs, owner: Longs) -> Longs:
    """Return a number below -1, which no subscription has, for each consumer without a known subscription.

    The numbers are unique for ids of 32 bits on fewer than 2^30 connections. Clients number their consumers from 0, so
    larger ids are corrupt or hostile. The numbers for larger ids are below all others and contain all bits of the id
    except the two highest, so two of these numbers may be equal.
    """
    plain = (owner >= 0) & (owner < 1 << 32)
    mixed = (owner + stream * _SPREAD) & (1 << 62) - 1 | 1 << 62
    found: Longs = ~np.where(plain, (stream << 32 | owner) + 1, mixed)
    return found


def cumulative_acks_of(cumulative: pa.Table, facts: RecordingFacts) -> dict[int, CumulativeAcks]:
    """Return the effective cumulative ACKs by subscription."""
    names = ("stream", "consumer_id", "number", "ledger", "entry", "time_ns")
    stream, owner, number, ledger, entry, time_ns = (cumulative.column(name).to_numpy() for name in names)
    subs, at = subscriptions_of(facts, stream, owner, number)
    counts = ~np.isin(stream, list(facts.duplicate_connections))
    if len(facts.session):
        individual = np.array([one.individual for one in facts.sessions])[facts.session]
        counts &= (at < 0) | (facts.ready[at] & ~individual[at])
    rows = np.flatnonzero(counts)
    rows = rows[np.lexsort((number[rows], entry[rows], ledger[rows], subs[rows]))]
    acks = cumulative.column("ack").combine_chunks()
    found = {}
    group_starts = np.flatnonzero(np.diff(subs[rows])) + 1
    for part in np.split(rows, group_starts) if len(rows) else ():
        own = acks.take(pa.array(part))
        usual = own.is_null().to_numpy(zero_copy_only=False)
        odd = {row: own[row].as_py() for row in np.flatnonzero(~usual).tolist()}
        earliest = _earliest(number[part], usual)
        found[int(subs[part[0]])] = CumulativeAcks(
            ledger[part], entry[part], number[part], time_ns[part], earliest, odd
        )
    return found


def _earliest(number: Longs, usual: np.typing.NDArray[np.bool_]) -> Longs:
    """Return, for each row, the usual row at or after it with the lowest frame number; -1 if none."""
    when = np.where(usual, number, _FAR)[::-1]
    least = np.minimum.accumulate(when)
    place = np.where(when == least, np.arange(len(number)), -1)
    found: Longs = np.where(least == _FAR, -1, len(number) - 1 - np.maximum.accumulate(place))[::-1]
    return found


def first_reaching(marks: CumulativeAcks, ledger: Longs, entry: Longs) -> Longs:
    """Return, for each position, the row of the earliest usual ACK that covers it; -1 if none."""
    columns = ((marks.ledger, ledger), (marks.entry, entry))
    key = joint_key(np.concatenate(pair) for pair in columns)
    row = np.searchsorted(key[: len(marks.number)], key[len(marks.number) :])
    found: Longs = np.append(marks.earliest, -1)[row]
    return found
