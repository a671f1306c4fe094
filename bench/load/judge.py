"""Tables against the truth, message by message.

Rules of this file
1. A fact is right when it is what happened. It may differ only in a row whose evidence says that it may: then it is
   marked. A fact that differs in a row that says ``complete`` is silently wrong.
2. Marked or not, nothing may be said that did not happen: that is invented.
3. A message that the capture shows, and no row tells of, is missing; behind a hole of its connection it is hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from load.happened import Fact, Happened

__all__ = ["Verdict", "judge_exchanges", "judge_messages"]

Longs = Any

SHORTLY = 200_000_000
"""A frame of which the capture has a part may be dated by another of its packets, or by one sent again: within this
many ns."""


@dataclass(slots=True)
class Verdict:
    """What a comparison found."""

    counts: Counter[str] = field(default_factory=Counter)
    """``rows``, ``facts``, ``right``, ``marked``; ``invented``, ``wrong``, ``missing``, ``double``; ``hidden``."""
    faults: list[str] = field(default_factory=list)
    """The first of them in words."""

    @property
    def good(self) -> bool:
        """Whether nothing is invented, silently wrong, missing, or there twice."""
        return not any(self.counts[name] for name in ("invented", "wrong", "missing", "double"))

    def add(self, name: str, which: Any, words: str, keys: Longs) -> None:
        """Count the rows where ``which`` is true."""
        rows = np.flatnonzero(which)
        self.counts[name] += len(rows)
        if name in ("invented", "wrong", "missing", "double"):
            self.faults += [f"{name}: {words} of {keys[row]}" for row in rows[:5].tolist()]

    def lines(self) -> Iterator[str]:
        """For people."""
        names = ("rows", "facts", "right", "marked", "hidden", "invented", "wrong", "missing", "double")
        yield ", ".join(f"{self.counts[name]:,} {name}" for name in names)
        yield from self.faults[:20]


def judge_messages(table: pa.Table, happened: Happened) -> Verdict:
    """The table `messages` against what happened."""
    return _Messages(table, happened).judge()


class _Messages:
    """The work on one table."""

    def __init__(self, table: pa.Table, happened: Happened) -> None:
        self.table, self.happened, self.verdict = table.combine_chunks(), happened, Verdict()
        self.producer = {
            name: _longs(self._inner("producer", name))
            for name in ("connection", "producer_id", "sequence_id", "sent_ns", "receipt_ns", "messages")
        }
        self.connection = happened.connections(self.producer["connection"])
        self.marked = np.asarray(pc.not_equal(self.table["evidence"], "complete"))
        self.number = self._numbers()

    def judge(self) -> Verdict:
        verdict = self.verdict
        verdict.counts["rows"] += len(self.table)
        verdict.counts["rows marked"] += int(self.marked.sum())
        verdict.add("invented", self.number < 0, "a message", self._ids())
        known = self.number >= 0
        if not known.all():
            self.table = self.table.filter(pa.array(known))
            self.producer = {name: column[known] for name, column in self.producer.items()}
            self.connection, self.marked, self.number = (
                column[known] for column in (self.connection, self.marked, self.number)
            )
        self._producers()
        self._deliveries()
        self._states()
        self._missing()
        return verdict

    # -- which message a row is of -------------------------------------------------------------------------------------

    def _numbers(self) -> Longs:
        """By the id, else by connection, producer and sequence id."""
        ledger, entry = _longs(self.table["ledger"]), _longs(self.table["entry"])
        sent = self.happened.find_sent(self.connection, self.producer["producer_id"], self.producer["sequence_id"])
        number: Longs = np.where(ledger < 0, sent, self.happened.find(ledger, entry))
        of_ids = np.sort(number[(ledger >= 0) & (number >= 0)])
        self.verdict.add("double", of_ids[1:] == of_ids[:-1], "a second row of message", of_ids)
        return number

    def _ids(self) -> Any:
        return [
            f"row {row} ({ledger}:{entry})"
            for row, (ledger, entry) in enumerate(zip(_longs(self.table["ledger"]), _longs(self.table["entry"])))
        ]

    # -- facts of a row ------------------------------------------------------------------------------------------------

    def _producers(self) -> None:
        happened, number = self.happened, self.number
        self._time("sent_ns", self.producer["sent_ns"], happened.sent.take(number))
        self._time("receipt_ns", self.producer["receipt_ns"], happened.stored.take(number))
        batch = happened.told["settings"]["batch"]
        for name, value, true in (
            ("producer.connection", self.connection, happened.connection[number]),
            ("producer_id", self.producer["producer_id"], happened.owner[number]),
            ("sequence_id", self.producer["sequence_id"], happened.sequence[number]),
            ("messages", self.producer["messages"], np.full(len(number), batch)),
        ):
            self._value(name, value, true)
        topics = pa.array([*happened.told["topics"], None])
        true = topics.take(pa.array(happened.topic[number]))
        differs = np.asarray(pc.not_equal(self.table["topic"].combine_chunks(), true).cast(pa.int64()).fill_null(-1))
        # A name that no frame told is null in a row that may be complete otherwise.
        self._value("topic", differs, np.zeros_like(differs), self.marked | (differs < 0))

    def _deliveries(self) -> None:
        happened = self.happened
        lists = self.table["deliveries"].combine_chunks()
        parent = np.repeat(np.arange(len(lists)), np.asarray(lists.value_lengths().fill_null(0)))
        flat = {one.name: array for one, array in zip(lists.type.value_type, lists.flatten().flatten())}
        column = {name: _longs(flat[name]) for name in flat if pa.types.is_integer(flat[name].type)}
        connection = happened.connections(column["connection"])
        found = happened.find_delivery(self.number[parent], connection, column["consumer_id"])
        self.verdict.add("invented", found < 0, "a delivery", self.number[parent])
        keep = found >= 0
        found, marked = found[keep], self.marked[parent][keep]
        column = {name: values[keep] for name, values in column.items()}
        self._time("delivered_ns", column["delivered_ns"], happened.delivered.take(found), marked)
        self._time("acked_ns", column["acked_ns"], happened.acked.take(found), marked, happened.cumulative[found])
        self._time("nacked_ns", column["nacked_ns"], happened.nacked.take(found), marked)
        self._value("count", column["count"], happened.count[found], marked, most=True)
        self._value("redelivery_count", column["redelivery_count"], happened.redelivery[found], marked, most=True)
        self._without_delivery(found)

    def _without_delivery(self, found: Longs) -> None:
        """Deliveries that the capture shows, and the row of their message does not."""
        happened = self.happened
        told = np.zeros(len(happened.key), np.bool_)
        told[found] = True
        marked = np.ones(happened.messages, np.bool_)
        marked[self.number] = self.marked
        there = np.zeros(happened.messages, np.bool_)
        there[self.number] = True
        message = happened.key // happened.consumers
        without = ~told & (happened.delivered.seen >= 0) & there[message]
        self.verdict.counts["marked"] += int((without & marked[message]).sum())
        self.verdict.add("wrong", without & ~marked[message], "no delivery", message)

    def _states(self) -> None:
        """In rows that are complete: acked when all deliveries ended in acks, else not."""
        happened = self.happened
        subscription = np.array([one["subscription"] for one in happened.told["consumers"]], np.int64)
        many = len(happened.told["settings"]["subscriptions"])
        message, consumer = np.divmod(happened.key, happened.consumers)
        # Of a subscription, one of its consumers has to acknowledge.
        got, settled = (np.zeros(happened.messages * many, np.bool_) for _ in range(2))
        place = message * many + subscription[consumer]
        got[place] = True
        settled[place[happened.acked.true >= 0]] = True
        acked = (got == settled).reshape(-1, many).all(axis=1) & got.reshape(-1, many).any(axis=1)
        said = np.asarray(pc.equal(self.table["state"], "acked"))
        self.verdict.add("wrong", ~self.marked & (said != acked[self.number]), "the state", self.number)

    def _missing(self) -> None:
        """Messages without a row."""
        happened = self.happened
        there = np.zeros(happened.messages, np.bool_)
        there[self.number] = True
        side = np.ones(happened.messages, np.bool_)
        # Nobody makes a row of a receipt alone; so a lost SEND hides the message that was not delivered.
        lost = (happened.sent.seen < 0) & happened.near_hole(happened.connection, side, happened.sent.true)
        for fact, client in ((happened.stored, ~side), (happened.sent, side)):
            lone = ~there & (fact.seen >= 0)
            hidden = lone & (lost | happened.near_hole(happened.connection, client, fact.seen))
            self.verdict.counts["hidden"] += int(hidden.sum())
            self.verdict.add("missing", lone & ~hidden, "no row", np.arange(len(lone)))
        message, consumer = np.divmod(happened.key, happened.consumers)
        to = np.array([one["connection"] for one in happened.told["consumers"]], np.int64)[consumer]
        lone = ~there[message] & (happened.delivered.seen >= 0)
        hidden = lone & happened.near_hole(to, np.zeros(len(to), np.bool_), happened.delivered.seen)
        self.verdict.counts["hidden"] += int(hidden.sum())
        self.verdict.add("missing", lone & ~hidden, "no row, but it was delivered,", message)

    # -- comparing -----------------------------------------------------------------------------------------------------

    def _time(self, name: str, value: Longs, fact: Fact, marked: Any = None, later: Any = False) -> None:
        """``later``: where a later time than the true one is possible when the first was not seen."""
        marked = self.marked if marked is None else marked
        right = value == fact.true
        told = ~right & (value >= 0)
        shortly = fact.unsure & (np.abs(value - fact.true) <= SHORTLY)
        possible = (fact.true >= 0) & ((value == fact.seen) | shortly | (later & (value >= fact.true)))
        if name == "delivered_ns" or name == "nacked_ns":
            possible |= (fact.true >= 0) & (value >= fact.true)
        self._sort(name, right, told & ~possible, marked)

    def _value(self, name: str, value: Longs, true: Longs, marked: Any = None, most: bool = False) -> None:
        """``most``: less than the truth is possible when something was not seen."""
        right = value == true
        wrong = ~right & (value >= 0) & ~(most & (value < true))
        self._sort(name, right, wrong, self.marked if marked is None else marked)

    def _sort(self, name: str, right: Any, invented: Any, marked: Any) -> None:
        verdict, keys = self.verdict, np.arange(len(right))
        verdict.counts["facts"] += len(right)
        verdict.counts["right"] += int(right.sum())
        verdict.add("invented", invented, name, keys)
        verdict.counts["marked"] += int((~right & ~invented & marked).sum())
        verdict.add("wrong", ~right & ~invented & ~marked, name, keys)

    def _inner(self, name: str, inner: str) -> Any:
        return pc.struct_field(self.table[name], inner)


def judge_exchanges(table: pa.Table, happened: Happened) -> Verdict:
    """Acks that wanted answers, in the table `exchanges`."""
    verdict = Verdict()
    rows = table.filter(pc.equal(table["request"], "ACK"))
    connection, request = happened.connections(_longs(rows["connection"])), _longs(rows["request_id"])
    index, asked, answered = happened.requests
    found = index.find(happened.request_key(connection, request))
    verdict.counts["rows"] += len(rows)
    verdict.add("invented", found < 0, "an exchange", request)
    keep = found >= 0
    for name, fact in (("asked_ns", asked), ("answered_ns", answered)):
        value = _longs(rows[name])[keep]
        one = fact.take(found[keep])
        right = (value == one.true) | (value == one.seen)
        shortly = one.unsure & (np.abs(value - one.true) <= SHORTLY)
        verdict.counts["facts"] += len(value)
        verdict.counts["right"] += int(right.sum())
        verdict.add("invented", ~right & ~shortly & (value >= 0), name, request[keep])
        # `exchanges` has no evidence of its own: an answer that was not seen stands near a hole.
        there = happened.connections(_longs(rows["connection"]))[keep]
        hidden = happened.near_hole(there, np.zeros(len(there), np.bool_), one.true)
        verdict.counts["hidden"] += int((~right & ~shortly & (value < 0) & hidden).sum())
        verdict.add("wrong", ~right & ~shortly & (value < 0) & ~hidden, name, request[keep])
    told = np.zeros(len(asked.true), np.bool_)
    told[found[keep]] = True
    verdict.counts["not told"] += int((~told & (asked.seen >= 0)).sum())
    return verdict


def _longs(column: Any) -> Longs:
    """A column of numbers; null: -1."""
    filled = pc.fill_null(column, -1)
    array = filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled
    return np.asarray(array.cast(pa.int64()))
