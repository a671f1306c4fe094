"""The first cumulative ACK that covers each message, found without comparing each ACK with each message.

Rules of this file (broker: ServerCnx.handleAck, PersistentSubscription)
1. A cumulative ACK is effective if its consumer is attached and its subscription is neither Shared nor Key_Shared.
2. A cumulative ACK covers all positions up to the ACK's position. A message is therefore acknowledged by the earliest
   ACK whose position is not below the position of the message. If the ACKs are sorted by position, this ACK is found
   with a running minimum that starts at the last ACK.
3. An ACK with an ack set or a transaction, or with an error in its response, is not part of that minimum.
4. ACKs are shuffled to the bucket of their block of entries. All buckets receive a summary of all blocks, from which
   they know the earliest ACK of later blocks. If the first ACK after a certain frame is needed and the summary does not
   contain it, the message is processed by the driver, which asks the splits for this ACK (`first_acks_after`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.lifecycles.recording_facts import CumulativeAcks, LaterAcks, RecordingFacts
from pcli.spark.columnar.lifecycles.row_operations import blocks_of, joint_key
from pcli.spark.columnar.table_schema import BOOL, BYTES, LONG, column

EFFECTIVE: Final = pa.schema([
    column("sub", LONG, "number of the subscription, or its substitute number"),
    column("ledger", LONG, "ledger"),
    column("entry", LONG, "entry"),
    column("number", LONG, "frame of the ACK"),
    column("time_ns", LONG, "time of that frame"),
    column("ack", BYTES, "transaction and ack set, in the format of CONSUMED"),
    column("usual", BOOL, "whether the ACK has no transaction and ack set, and its response no error"),
])  # fmt: skip
"""Effective cumulative ACKs."""

SUMMARY: Final = pa.schema([
    column("sub", LONG, "number of the subscription, or its substitute number"),
    column("resets", LONG, "number of cursor resets before the ACKs"),
    column("ledger", LONG, "ledger"),
    column("block", LONG, "number of the block of entries in the ledger"),
    column("number", LONG, "frame of the first ACK"),
    column("time_ns", LONG, "time of that frame"),
    column("last", LONG, "frame of the last ACK"),
])  # fmt: skip
"""The usual cumulative ACKs of a block of entries: a thousandth of the ACKs, or less."""

_LAST_FRAME: Final = pa.field("last", pa.int64())

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


def effective_acks(cumulative: pa.Table, facts: RecordingFacts) -> pa.Table:
    """Return EFFECTIVE of the rows of CUMULATIVE that are effective."""
    stream, owner, number = (cumulative.column(name).to_numpy() for name in ("stream", "consumer_id", "number"))
    subs, at = subscriptions_of(facts, stream, owner, number)
    counts = ~np.isin(stream, list(facts.duplicate_connections))
    if len(facts.session):
        individual = np.array([one.individual for one in facts.sessions])[facts.session]
        counts &= (at < 0) | (facts.ready[at] & ~individual[at])
    usual = cumulative.column("ack").is_null().to_numpy()
    if facts.failed_acks:
        usual = usual & ~np.isin(number, list(facts.failed_acks))
    names = ("ledger", "entry", "number", "time_ns", "ack")
    columns = [pa.array(subs), *(cumulative.column(name) for name in names), pa.array(usual)]
    return pa.table(columns, schema=EFFECTIVE).filter(pa.array(counts))


def summarize_acks(acks: pa.Table, facts: RecordingFacts) -> pa.Table:
    """Return SUMMARY of the usual rows of EFFECTIVE."""
    acks = acks.filter(acks.column("usual"))
    sub, ledger, entry, number, time_ns = (acks.column(name).to_numpy() for name in EFFECTIVE.names[:5])
    resets = np.zeros(len(sub), np.int64)
    for one, frames in facts.cursor_resets.items():
        rows = np.flatnonzero(sub == one)
        resets[rows] = np.searchsorted(np.array(frames, np.int64), number[rows])
    block, _ = blocks_of(entry)
    order = np.lexsort((number, block, ledger, resets, sub))
    keys = [one[order] for one in (sub, resets, ledger, block)]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.logical_or.reduce([one[1:] != one[:-1] for one in keys])
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(order))[: len(starts)] - 1
    columns = [one[starts] for one in keys] + [number[order[starts]], time_ns[order[starts]], number[order[ends]]]
    return pa.table([pa.array(one) for one in columns], schema=SUMMARY)


def later_acks_of(summary: pa.Table) -> dict[int, list[LaterAcks]]:
    """Return the summary of a recording; ``summary`` contains the rows of all splits."""
    sub, resets, ledger, block, number, time_ns, last = (column.to_numpy() for column in summary.columns)
    order = np.lexsort((block, ledger, resets, sub))
    starts = np.flatnonzero((np.diff(sub[order]) != 0) | (np.diff(resets[order]) != 0)) + 1
    found: dict[int, list[LaterAcks]] = {}
    for rows in np.split(order, starts) if len(order) else ():
        least = _earliest(number[rows], np.ones(len(rows), np.bool_))
        later = LaterAcks(
            ledger[rows], block[rows], number[rows][least], time_ns[rows][least],
            np.maximum.accumulate(last[rows][::-1])[::-1],
        )  # fmt: skip
        found.setdefault(int(sub[rows[0]]), []).append(later)
    return found


def acks_of_bucket(
    cumulative: pa.Table, facts: RecordingFacts, sub: Longs, ledger: Longs, entry: Longs
) -> dict[int, CumulativeAcks]:
    """Return the ACKs that positions of a bucket need, by subscription.

    ``cumulative`` contains the rows of CUMULATIVE in the same blocks, and ``sub``, ``ledger`` and ``entry`` the
    positions. For each block, a row at its end represents the usual ACKs of later blocks.
    """
    own = effective_acks(cumulative, facts)
    own = own.filter(own.column("usual"))
    tables = [own]
    for number in np.unique(sub).tolist() if facts.later_acks else ():
        rows = sub == number
        blocks = np.unique(np.stack([ledger[rows], *blocks_of(entry[rows])]), axis=1)
        tables += [_ends_of_blocks(number, blocks, later) for later in facts.later_acks.get(number, ())]
    found = acks_by_subscription(pa.concat_tables(tables, promote_options="default"), facts)
    known = [*facts.later_acks, *([] if facts.odd_acks is None else facts.odd_acks.column("sub").to_pylist())]
    none = np.zeros(0, np.int64)
    return {one: CumulativeAcks(none, none, none, none, none, {}, none) for one in known} | found


def _ends_of_blocks(sub: int, blocks: Longs, later: LaterAcks) -> pa.Table:
    """Return a row at the last entry of each block for all ACKs of later blocks.

    The rows of ``blocks`` are ledger, number and last entry.
    """
    ledger, block, end = blocks
    columns = ((later.ledger, ledger), (later.block, block))
    key = joint_key(np.concatenate(one) for one in columns)
    at = np.searchsorted(key[: len(later.number)], key[len(later.number) :], side="right")
    rows = np.flatnonzero(at < len(later.number))
    at, size = at[rows], len(rows)
    places = (np.full(size, sub), ledger[rows], end[rows], later.number[at], later.time_ns[at])
    arrays = [*map(pa.array, places), pa.nulls(size, pa.binary()), pa.array(np.ones(size, np.bool_))]
    return pa.table(arrays, schema=EFFECTIVE).append_column(_LAST_FRAME, pa.array(later.last[at]))


def acks_by_subscription(acks: pa.Table, facts: RecordingFacts) -> dict[int, CumulativeAcks]:
    """Return rows of EFFECTIVE and the unusual ACKs of the facts by subscription."""
    if facts.odd_acks is not None:
        acks = pa.concat_tables([acks, facts.odd_acks], promote_options="default")
    sub, ledger, entry, number, time_ns = (acks.column(name).to_numpy() for name in EFFECTIVE.names[:5])
    usual = acks.column("usual").to_numpy()
    last = number
    if _LAST_FRAME.name in acks.column_names:
        column = acks.column(_LAST_FRAME.name)
        last = np.where(column.is_null().to_numpy(), number, column.fill_null(0).to_numpy())
    rows = np.lexsort((number, entry, ledger, sub))
    data = acks.column("ack").combine_chunks()
    found = {}
    for part in np.split(rows, np.flatnonzero(np.diff(sub[rows])) + 1) if len(rows) else ():
        odd = {at: data[int(part[at])].as_py() for at in np.flatnonzero(~usual[part]).tolist()}
        earliest = _earliest(number[part], usual[part])
        found[int(sub[part[0]])] = CumulativeAcks(
            ledger[part], entry[part], number[part], time_ns[part], earliest, odd, last[part]
        )
    return found


def first_acks_after(acks: pa.Table, sub: Longs, ledger: Longs, entry: Longs, since: Longs) -> pa.Table:
    """Return, for each position, the first usual row of EFFECTIVE that covers it after the frame ``since``."""
    acks = acks.filter(acks.column("usual"))
    of, at_ledger, at_entry, number = (acks.column(name).to_numpy() for name in EFFECTIVE.names[:4])
    found = set()
    for one in np.unique(sub).tolist():
        mine = np.flatnonzero(of == one)
        mine = mine[np.argsort(number[mine], kind="stable")]
        for row in np.flatnonzero(sub == one).tolist():
            later = mine[np.searchsorted(number[mine], since[row], side="right") :]
            same = at_ledger[later] == ledger[row]
            covers = (at_ledger[later] > ledger[row]) | same & (at_entry[later] >= entry[row])
            place = np.argmax(covers) if len(covers) else 0
            if len(covers) and covers[place]:
                found.add(int(later[place]))
    return acks.take(pa.array(sorted(found), pa.int64()))


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
