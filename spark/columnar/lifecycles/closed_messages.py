"""Messages that later captures change only if they contain further frames with the message's id.

Rules of this file
1. A message is closed if each subscription of its topic received it once and acknowledged all its messages with an
   individual or a cumulative ACK. Its row then depends only on its own frames and on facts that `settled_facts`
   compares.
2. These messages are never closed by rule 1: messages without an id, chunks, messages of transactions or of
   non-persistent topics, redelivered messages, messages whose SEND was matched by `resolve_sends`, and messages with
   frames that were read at the end of the recording and may be read differently if a file follows.
3. The receipt may be captured after the ACK. A message without a publication is closed only if the last run had no
   frames of it.
4. A message whose newest frame is older than the horizon is closed in its current state. A chunked message is closed if
   the frames of all its chunks are older (`separate_chunks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.lifecycles.lifecycle_schemas import MESSAGES
from pcli.spark.columnar.lifecycles.messages_of_driver import ChunkIds
from pcli.spark.columnar.lifecycles.row_operations import joint_key, longs
from pcli.spark.columnar.table_schema import LONG, column

ENTRIES: Final = pa.schema([
    column("ledger", LONG, "ledger"),
    column("first", LONG, "first entry"),
    column("last", LONG, "last entry"),
])  # fmt: skip
"""Ranges of entries, sorted and disjoint."""

_NUMBERS: Final = {
    "published": ("sent_number", "receipt_number"),
    "halves": ("sent_number", "receipt_number"),
    "ack_halves": ("asked_number", "answered_number"),
    "consumed": ("delivered_number", "acked_number", "nacked_number"),
}
_TIMES: Final = {
    "published": ("sent_ns", "receipt_ns"),
    "halves": ("sent_ns", "receipt_ns"),
    "consumed": ("delivered_ns", "acked_ns", "nacked_ns"),
}


@dataclass(frozen=True, slots=True)
class ClosingRules:
    """What the rules of this module depend on."""

    frames: int
    """The last frame before the end of the recording."""
    before: int
    """The last frame of the last run; 0 if there was none."""
    starts: Longs
    """The last frame before each period of the recording. A message belongs to the period of its newest frame."""
    subscriptions: Mapping[str, frozenset[int]]
    """The subscriptions of each topic."""
    limit_ns: int
    """Messages without newer frames are closed (the newest time of the recording minus the horizon)."""
    forgotten: int = 0
    """The last frame that is older than twice the horizon. The tables that show resends of earlier SENDs are no longer
    kept."""
    closed_sends: frozenset[int] = frozenset()
    """SENDs that `resolve_sends` has matched and whose messages are closed."""
    final: pa.Table = field(default_factory=ENTRIES.empty_table)
    """The ids of messages that are older than the horizon, as ENTRIES."""


@dataclass(slots=True)
class ClosedEntries:
    """The messages of a period that are closed."""

    messages: pa.Table
    """Rows of MESSAGES."""
    entries: pa.Table
    """Their ids as ENTRIES, if they have one."""
    earlier: dict[str, pa.Table]
    """Their rows of PUBLISHED and CONSUMED that are older than the period."""
    halves: Longs
    """Their frames in ``halves`` that are older than the period."""
    sends: list[int]
    """Their SENDs that `resolve_sends` has matched."""
    sequences: dict[tuple[int, int], tuple[int, int]]
    """The lowest and the highest sequence id of their other SENDs, by connection and producer_id."""


@dataclass(slots=True)
class SeparatedMessages:
    """The messages of a bucket, separated into open and closed messages."""

    messages: pa.Table
    """Rows of MESSAGES of open messages."""
    partials: dict[str, pa.Table]
    """Their rows of PUBLISHED and CONSUMED, without frames that were read at the end of the recording."""
    halves: Longs
    """Their frames in ``halves``, without those frames."""
    closed: list[ClosedEntries]
    """The closed messages of each period."""


def separate(
    messages: pa.Table, partials: Mapping[str, pa.Table], resolved: pa.Table, chunks: pa.Table, rules: ClosingRules
) -> SeparatedMessages:
    """Separate the messages of a bucket.

    ``partials`` contains their rows of ``published``, ``consumed`` and ``halves``. A row of ``halves`` is a SEND
    without a receipt, or a SEND and a receipt of different splits. ``chunks`` contains the rows of CONSUMED of messages
    that the driver completes; these messages stay open.
    """
    messages = _marked_late(messages, rules.final)
    groups = _Groups({"messages": messages, **partials, "resolved": resolved, "chunks": chunks}, partials)
    closed = groups.closed(_acknowledged(messages, rules.subscriptions), rules)
    period = np.maximum(np.searchsorted(rules.starts, groups.newest) - 1, 0)
    whole = {name: table for name, table in partials.items() if name != "halves"}
    found = []
    for at, start in enumerate(rules.starts.tolist()):
        mine = closed & (period == at)
        rows = messages.filter(pa.array(mine[groups.of["messages"]]))
        earlier = {
            name: table.filter(pa.array(mine[groups.of[name]] & (newest_numbers(name, table) <= start)))
            for name, table in whole.items()
        }
        halves = _frames_until(partials["halves"].filter(pa.array(mine[groups.of["halves"]])), start)
        sends = longs(resolved, "sent_number")[mine[groups.of["resolved"]]].tolist()
        published = [partials[name].filter(pa.array(mine[groups.of[name]])) for name in ("published", "halves")]
        sequences = _sequences(pa.concat_tables(published))
        found.append(ClosedEntries(rows, _entries_of(rows), earlier, halves, sends, sequences))
    left = {
        name: table.filter(pa.array(~closed[groups.of[name]] & (newest_numbers(name, table) <= rules.frames)))
        for name, table in whole.items()
    }
    halves = _frames_until(partials["halves"].filter(pa.array(~closed[groups.of["halves"]])), rules.frames)
    return SeparatedMessages(messages.filter(pa.array(~closed[groups.of["messages"]])), left, halves, found)


def separate_chunks(
    messages: pa.Table, ids: Sequence[ChunkIds], consumed: pa.Table, rules: ClosingRules
) -> tuple[pa.Table, list[ClosedEntries]]:
    """Return the open messages, and the closed messages of each period.

    ``messages`` are chunked messages, ``ids`` contains the ids of each, and ``consumed`` their rows of CONSUMED.
    """
    messages = _marked_late(messages, rules.final)
    owner_of = {place: row for row, one in enumerate(ids) for place in one.places}
    places = zip(consumed["ledger"].to_pylist(), consumed["entry"].to_pylist(), strict=True)
    owners = np.array([owner_of[place] for place in places], np.int64)
    newest = np.full(len(messages), -1, np.int64)
    np.maximum.at(newest, owners, newest_numbers("consumed", consumed))
    times = [pc.fill_null(pc.struct_field(messages["producer"], name), -1).to_numpy() for name in _TIMES["published"]]
    newest_ns = np.max(times, axis=0)
    np.maximum.at(newest_ns, owners, _greatest(consumed, _TIMES["consumed"]))
    closed = (newest_ns < rules.limit_ns) & (newest <= rules.frames)
    period = np.maximum(np.searchsorted(rules.starts, newest) - 1, 0)
    found = []
    for at, start in enumerate(rules.starts.tolist()):
        mine = closed & (period == at)
        own = [one for one, chosen in zip(ids, mine.tolist(), strict=True) if chosen]
        ledger, entry = np.array([place for one in own for place in one.places], np.int64).reshape(-1, 2).T
        earlier = consumed.filter(pa.array(mine[owners] & (newest_numbers("consumed", consumed) <= start)))
        sends = [one.sent_number for one in own if one.sent_number >= 0]
        rows = messages.filter(pa.array(mine))
        entries = _ranges(ledger, entry, entry)
        found.append(ClosedEntries(rows, entries, {"consumed": earlier}, np.zeros(0, np.int64), sends, {}))
    return messages.filter(pa.array(~closed)), found


def _frames_until(halves: pa.Table, last: int) -> Longs:
    """Return the frames of rows of ``halves`` up to a frame."""
    numbers = np.concatenate([longs(halves, name) for name in _NUMBERS["halves"]])
    found: Longs = numbers[(numbers >= 0) & (numbers <= last)]
    return found


def _marked_late(messages: pa.Table, final: pa.Table) -> pa.Table:
    late = in_entries(final, messages)
    if not late.any():
        return messages
    evidence = pc.if_else(pa.array(late), "late", messages["evidence"])
    return messages.set_column(messages.schema.get_field_index("evidence"), MESSAGES.field("evidence"), evidence)


class _Groups:
    """The rows of several tables by message."""

    def __init__(self, tables: Mapping[str, pa.Table], partials: Mapping[str, pa.Table]) -> None:
        keys = [_key(name, table) for name, table in tables.items()]
        sizes = np.cumsum([len(one[0]) for one in keys])[:-1]
        joint = joint_key(np.concatenate(some) for some in zip(*keys, strict=True))
        _, place = np.unique(joint, return_inverse=True)
        self.of: dict[str, Longs] = dict(zip(tables, np.split(place, sizes), strict=True))
        """The message of each row of each table."""
        count = int(place.max()) + 1 if len(place) else 0
        self.newest, self.newest_ns = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        for name, table in partials.items():
            np.maximum.at(self.newest, self.of[name], newest_numbers(name, table))
            np.maximum.at(self.newest_ns, self.of[name], _greatest(table, _TIMES[name]))
        resolved = tables["resolved"]
        np.maximum.at(self.newest_ns, self.of["resolved"], _greatest(resolved, _TIMES["published"]))
        chunks = pc.not_equal(resolved["uuid"], "").to_numpy()
        self._chunks = np.concatenate([self.of["chunks"], self.of["resolved"][chunks]])
        consumed = partials["consumed"]
        # The id 0:0 may be absent: an acknowledgement of it belongs to a message with an unknown sequence id.
        zero = (longs(consumed, "ledger") == 0) & (longs(consumed, "entry") == 0)
        self._unsure = self.of["consumed"][zero & (longs(consumed, "sequence") == -1)]

    def closed(self, acknowledged: Bools, rules: ClosingRules) -> Bools:
        """Return which messages are closed; ``acknowledged`` are the rows of MESSAGES that are closed by rule 1."""
        closed, published = np.zeros((2, len(self.newest)), np.bool_)
        closed[self.of["messages"][acknowledged]] = True
        closed[self.of["resolved"]] = False
        published[self.of["published"]] = published[self.of["halves"]] = True
        closed &= published | (self.newest <= rules.before)
        closed |= self.newest_ns < rules.limit_ns
        closed[self._chunks] = closed[self._unsure] = False
        return closed & (self.newest <= rules.frames)


def newest_numbers(name: str, table: pa.Table) -> Longs:
    """Return the newest frame of each row of PUBLISHED or CONSUMED."""
    return _greatest(table, _NUMBERS[name])


def oldest_numbers(name: str, table: pa.Table) -> Longs:
    """Return the oldest frame of each row of PUBLISHED or CONSUMED."""
    numbers = np.array([longs(table, one) for one in _NUMBERS[name]])
    found: Longs = np.where(numbers < 0, np.iinfo(np.int64).max, numbers).min(axis=0)
    return found


def _sequences(published: pa.Table) -> dict[tuple[int, int], tuple[int, int]]:
    how = [("sequence", "min"), ("sequence", "max")]
    found = published.group_by(["stream", "producer_id"], use_threads=False).aggregate(how)
    names = ("stream", "producer_id", "sequence_min", "sequence_max")
    rows = zip(*(found[name].to_pylist() for name in names), strict=True)
    return {(stream, producer): (least, most) for stream, producer, least, most in rows}


def _greatest(table: pa.Table, names: tuple[str, ...]) -> Longs:
    found: Longs = np.max([longs(table, name) for name in names], axis=0)
    return found


def _ids(messages: pa.Table) -> tuple[Longs, Longs]:
    """Return ledger and entry of MESSAGES; -1 if a message has no id."""
    ledger, entry = (pc.fill_null(messages.column(name), -1).to_numpy() for name in ("ledger", "entry"))
    return ledger, entry


def _key(name: str, table: pa.Table) -> tuple[Longs, ...]:
    """Return the values that all rows of a message have, and only these rows.

    They are the message id; if it is 0:0 or absent, the sequence id, as in `shuffle_key`; if the message was not
    stored, the sequence id, the connection and the producer_id.
    """
    if name == "messages":
        ledger, entry = _ids(table)
        names = ("sequence_id", "connection", "producer_id")
        sender = (pc.fill_null(pc.struct_field(table.column("producer"), one), -1).to_numpy() for one in names)
        unstored = (ledger < 0) & pc.not_equal(table.column("state"), "non_persistent").to_numpy()
    else:
        ledger, entry = longs(table, "ledger"), longs(table, "entry")
        names = ("sequence", "stream", "producer_id" if "producer_id" in table.column_names else "consumer_id")
        sender = (longs(table, one) for one in names)
        unstored = _unstored(table)
    sequence, stream, owner = sender
    idless = (ledger < 0) | ((ledger == 0) & (entry == 0)) | unstored
    return (
        np.where(unstored, -3, np.where(idless, -2, ledger)), np.where(idless, sequence, entry),
        np.where(unstored, stream, -1), np.where(unstored, owner, -1),
    )  # fmt: skip


def _unstored(table: pa.Table) -> Bools:
    """Return which rows of PUBLISHED, RESOLVED or CONSUMED are SENDs of messages without an id."""
    if "stored" in table.column_names:
        stored = pc.and_(table.column("stored"), pc.invert(table.column("persistent")))
        found: Bools = (longs(table, "ledger") < 0) & ~stored.to_numpy()
        return found
    if "receipt_number" in table.column_names:
        return longs(table, "receipt_number") < 0
    return np.zeros(len(table), np.bool_)


def _acknowledged(messages: pa.Table, subscriptions: Mapping[str, frozenset[int]]) -> Bools:
    """Return which rows are closed by rule 1, except for the conditions on their frames."""
    found = pc.and_(pc.equal(messages.column("state"), "acked"), pc.is_null(messages.column("chunk")))
    found = pc.and_(found, pc.is_null(messages.column("txn")))
    ledger, entry = _ids(messages)
    mask: Bools = found.to_numpy() & (ledger >= 0) & ((ledger > 0) | (entry > 0))
    topics = messages.column("topic").combine_chunks().dictionary_encode()
    names = topics.dictionary.to_pylist()
    counts = np.array([*(_readers(name, subscriptions) for name in names), -1], np.int64)
    topic = pc.fill_null(topics.indices, len(names)).to_numpy()
    deliveries = messages.column("deliveries").combine_chunks()
    sizes = pc.fill_null(pc.list_value_length(deliveries), 0).to_numpy(zero_copy_only=False)
    mask &= sizes == counts[topic]
    rows = np.repeat(np.arange(len(messages)), sizes)
    mask[rows[~_plain(deliveries.flatten(), rows)]] = False
    return mask


def _readers(topic: str, subscriptions: Mapping[str, frozenset[int]]) -> int:
    """Return the number of subscriptions of a topic; -1 if its messages are never closed by rule 1."""
    if topic.startswith("non-persistent://"):
        return -1
    return len(subscriptions.get(topic, ())) or -1


def _plain(deliveries: pa.Array, rows: Longs) -> Bools:
    """Return the single deliveries to a subscription whose messages were acknowledged with the first usual ACK.

    ``rows`` contains the message of each delivery. A consumer without a known subscription has its own subscription.
    """
    column = {one.name: deliveries.field(at) for at, one in enumerate(deliveries.type)}
    plain = pc.and_(pc.equal(column["count"], 1), pc.equal(column["unacked"], 0))
    plain = pc.and_(plain, pc.and_(pc.is_null(column["nacked_ns"]), pc.is_null(column["again"])))
    plain = pc.and_(plain, pc.is_in(column["ack_type"], pa.array(["individual", "cumulative"])))
    found: Bools = pc.fill_null(plain, fill_value=False).to_numpy(zero_copy_only=False).copy()
    names = column["subscription"].dictionary_encode()
    code = pc.fill_null(names.indices, -1).to_numpy()
    named = np.flatnonzero(code >= 0)
    pair = rows[named] * (len(names.dictionary) + 1) + code[named]
    order = np.argsort(pair, kind="stable")
    same = np.flatnonzero(pair[order][1:] == pair[order][:-1])
    found[named[order[same]]] = False
    return found


def _entries_of(messages: pa.Table) -> pa.Table:
    """Return the ids of messages as ENTRIES; messages without an id are omitted."""
    ledger, entry = _ids(messages)
    known = (ledger >= 0) & (entry >= 0)
    return _ranges(ledger[known], entry[known], entry[known])


def ids_of(partials: pa.Table) -> pa.Table:
    """Return the ids of rows of PUBLISHED or CONSUMED as ENTRIES."""
    ledger, entry = longs(partials, "ledger"), longs(partials, "entry")
    return _ranges(ledger, entry, entry)


def _ranges(ledger: Longs, first: Longs, last: Longs) -> pa.Table:
    order = np.lexsort((first, ledger))
    ledger, first, last = ledger[order], first[order], last[order]
    values, rank = np.unique(last, return_inverse=True)
    _, group = np.unique(ledger, return_inverse=True)
    # The greatest entry so far in each ledger.
    last = values[np.maximum.accumulate(group * len(values) + rank) % max(1, len(values))]
    begins = np.ones(len(ledger), np.bool_)
    begins[1:] = (ledger[1:] != ledger[:-1]) | (first[1:] - 1 > last[:-1])
    at = np.flatnonzero(begins)
    ends = last[np.append(at[1:], len(last)) - 1] if len(at) else last
    return pa.Table.from_arrays([pa.array(one) for one in (ledger[at], first[at], ends)], schema=ENTRIES)


def joined_entries(tables: Iterable[pa.Table]) -> pa.Table:
    """Return all ranges of some tables of ENTRIES."""
    table = pa.concat_tables([ENTRIES.empty_table(), *tables])
    return _ranges(*(longs(table, name) for name in ENTRIES.names))


def in_entries(entries: pa.Table, table: pa.Table) -> Bools:
    """Return which rows of PUBLISHED, CONSUMED or MESSAGES have an id in ENTRIES."""
    known, first, last = (longs(entries, name) for name in ENTRIES.names)
    ledger, entry = (pc.fill_null(table[name], -1).to_numpy() for name in ("ledger", "entry"))
    if not len(known):
        return np.zeros(len(ledger), np.bool_)
    key = joint_key((np.concatenate([known, ledger]), np.concatenate([first, entry])))
    at = np.searchsorted(key[: len(known)], key[len(known) :], side="right") - 1
    place = np.maximum(at, 0)
    found: Bools = (at >= 0) & (known[place] == ledger) & (entry <= last[place])
    return found
