"""Comparison of tables with the truth, message by message.

Rules of this file
1. A fact is right if it is true. In a row whose evidence is not ``complete``, a different fact is marked. In a complete
   row, it is wrong.
2. A fact that is not in the truth is invented, in any row.
3. A captured message without a row is missing; if a gap of its connection explains this, it is hidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from load.ground_truth import Fact, GroundTruth

Longs = Any

TOLERANCE_NS = 200_000_000
"""Tolerance in ns for the time of a partly captured frame, which may be the time of a different packet or of a
retransmission."""


@dataclass(slots=True)
class CheckResult:
    """The result of a comparison."""

    counts: Counter[str] = field(default_factory=Counter)
    """``rows``, ``facts``, ``right``, ``marked``; ``invented``, ``wrong``, ``missing``, ``double``; ``hidden``."""
    faults: list[str] = field(default_factory=list)
    """Descriptions of the first faults."""

    @property
    def good(self) -> bool:
        """Whether nothing is invented, wrong, missing or duplicated."""
        return not any(self.counts[name] for name in ("invented", "wrong", "missing", "double"))

    def add(self, name: str, which: Any, words: str, keys: Longs) -> None:
        """Count the rows where ``which`` is true."""
        rows = np.flatnonzero(which)
        self.counts[name] += len(rows)
        if name in ("invented", "wrong", "missing", "double"):
            self.faults += [f"{name}: {words} of {keys[row]}" for row in rows[:5].tolist()]

    def lines(self) -> Iterator[str]:
        """Yield the result as text."""
        names = ("rows", "facts", "right", "marked", "hidden", "invented", "wrong", "missing", "double")
        yield ", ".join(f"{self.counts[name]:,} {name}" for name in names)
        yield from self.faults[:20]


def check_messages(table: pa.Table, truth: GroundTruth) -> CheckResult:
    """Compare the table `messages` with the truth."""
    return _Messages(table, truth).check()


class _Messages:
    """The comparison of one table."""

    def __init__(self, table: pa.Table, truth: GroundTruth) -> None:
        self.table, self.truth, self.result = table.combine_chunks(), truth, CheckResult()
        self.producer = {
            name: _longs(self._inner("producer", name))
            for name in ("connection", "producer_id", "sequence_id", "sent_ns", "receipt_ns", "messages")
        }
        self.connection = truth.connections(self.producer["connection"])
        self.marked = np.asarray(pc.not_equal(self.table["evidence"], "complete"))
        self.number = self._numbers()

    def check(self) -> CheckResult:
        result = self.result
        result.counts["rows"] += len(self.table)
        result.counts["rows marked"] += int(self.marked.sum())
        result.add("invented", self.number < 0, "a message", self._ids())
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
        return result

    # -- messages of rows ----------------------------------------------------------------------------------------------

    def _numbers(self) -> Longs:
        """Return the message of each row, by its id, otherwise by connection, producer and sequence id."""
        ledger, entry = _longs(self.table["ledger"]), _longs(self.table["entry"])
        sent = self.truth.find_sent(self.connection, self.producer["producer_id"], self.producer["sequence_id"])
        number: Longs = np.where(ledger < 0, sent, self.truth.find(ledger, entry))
        of_ids = np.sort(number[(ledger >= 0) & (number >= 0)])
        self.result.add("double", of_ids[1:] == of_ids[:-1], "a second row of message", of_ids)
        return number

    def _ids(self) -> Any:
        return [
            f"row {row} ({ledger}:{entry})"
            for row, (ledger, entry) in enumerate(zip(_longs(self.table["ledger"]), _longs(self.table["entry"])))
        ]

    # -- facts of a row ------------------------------------------------------------------------------------------------

    def _producers(self) -> None:
        truth, number = self.truth, self.number
        self._time("sent_ns", self.producer["sent_ns"], truth.sent.take(number))
        self._time("receipt_ns", self.producer["receipt_ns"], truth.stored.take(number))
        batch = truth.settings["settings"]["batch"]
        for name, value, true in (
            ("producer.connection", self.connection, truth.connection[number]),
            ("producer_id", self.producer["producer_id"], truth.owner[number]),
            ("sequence_id", self.producer["sequence_id"], truth.sequence[number]),
            ("messages", self.producer["messages"], np.full(len(number), batch)),
        ):
            self._value(name, value, true)
        topics = pa.array([*truth.settings["topics"], None])
        true = topics.take(pa.array(truth.topic[number]))
        differs = np.asarray(pc.not_equal(self.table["topic"].combine_chunks(), true).cast(pa.int64()).fill_null(-1))
        # A name that no frame contains is null, also in a complete row.
        self._value("topic", differs, np.zeros_like(differs), self.marked | (differs < 0))

    def _deliveries(self) -> None:
        truth = self.truth
        lists = self.table["deliveries"].combine_chunks()
        parent = np.repeat(np.arange(len(lists)), np.asarray(lists.value_lengths().fill_null(0)))
        flat = {one.name: array for one, array in zip(lists.type.value_type, lists.flatten().flatten())}
        column = {name: _longs(flat[name]) for name in flat if pa.types.is_integer(flat[name].type)}
        connection = truth.connections(column["connection"])
        found = truth.find_delivery(self.number[parent], connection, column["consumer_id"])
        self.result.add("invented", found < 0, "a delivery", self.number[parent])
        keep = found >= 0
        found, marked = found[keep], self.marked[parent][keep]
        column = {name: values[keep] for name, values in column.items()}
        self._time("delivered_ns", column["delivered_ns"], truth.delivered.take(found), marked)
        self._time("acked_ns", column["acked_ns"], truth.acked.take(found), marked, truth.cumulative[found])
        self._time("nacked_ns", column["nacked_ns"], truth.nacked.take(found), marked)
        self._value("count", column["count"], truth.count[found], marked, most=True)
        self._value("redelivery_count", column["redelivery_count"], truth.redelivery[found], marked, most=True)
        self._without_delivery(found)

    def _without_delivery(self, found: Longs) -> None:
        """Check for captured deliveries that the row of their message lacks."""
        truth = self.truth
        reported = np.zeros(len(truth.key), np.bool_)
        reported[found] = True
        marked = np.ones(truth.messages, np.bool_)
        marked[self.number] = self.marked
        present = np.zeros(truth.messages, np.bool_)
        present[self.number] = True
        message = truth.key // truth.consumers
        without = ~reported & (truth.delivered.seen >= 0) & present[message]
        self.result.counts["marked"] += int((without & marked[message]).sum())
        self.result.add("wrong", without & ~marked[message], "no delivery", message)

    def _states(self) -> None:
        """Check complete rows: they are acked if and only if all subscriptions acknowledged the message."""
        truth = self.truth
        subscription = np.array([one["subscription"] for one in truth.settings["consumers"]], np.int64)
        many = len(truth.settings["settings"]["subscriptions"])
        message, consumer = np.divmod(truth.key, truth.consumers)
        # One consumer of each subscription must acknowledge.
        delivered_to, acknowledged = (np.zeros(truth.messages * many, np.bool_) for _ in range(2))
        place = message * many + subscription[consumer]
        delivered_to[place] = True
        acknowledged[place[truth.acked.true >= 0]] = True
        acked = (delivered_to == acknowledged).reshape(-1, many).all(axis=1) & delivered_to.reshape(-1, many).any(
            axis=1
        )
        reported_state = np.asarray(pc.equal(self.table["state"], "acked"))
        self.result.add("wrong", ~self.marked & (reported_state != acked[self.number]), "the state", self.number)

    def _missing(self) -> None:
        """Check for messages without a row."""
        truth = self.truth
        present = np.zeros(truth.messages, np.bool_)
        present[self.number] = True
        side = np.ones(truth.messages, np.bool_)
        # A receipt alone has no row, so a lost SEND hides a message that was not delivered.
        lost = (truth.sent.seen < 0) & truth.near_gap(truth.connection, side, truth.sent.true)
        for fact, client in ((truth.stored, ~side), (truth.sent, side)):
            without_row = ~present & (fact.seen >= 0)
            hidden = without_row & (lost | truth.near_gap(truth.connection, client, fact.seen))
            self.result.counts["hidden"] += int(hidden.sum())
            self.result.add("missing", without_row & ~hidden, "no row", np.arange(len(without_row)))
        message, consumer = np.divmod(truth.key, truth.consumers)
        to = np.array([one["connection"] for one in truth.settings["consumers"]], np.int64)[consumer]
        without_row = ~present[message] & (truth.delivered.seen >= 0)
        hidden = without_row & truth.near_gap(to, np.zeros(len(to), np.bool_), truth.delivered.seen)
        self.result.counts["hidden"] += int(hidden.sum())
        self.result.add("missing", without_row & ~hidden, "no row, but it was delivered,", message)

    # -- comparing -----------------------------------------------------------------------------------------------------

    def _time(self, name: str, value: Longs, fact: Fact, marked: Any = None, later: Any = False) -> None:
        """``later``: rows in which a time after the true one is possible, because the first event was not captured."""
        marked = self.marked if marked is None else marked
        right = value == fact.true
        reported = ~right & (value >= 0)
        shortly = fact.uncertain & (np.abs(value - fact.true) <= TOLERANCE_NS)
        possible = (fact.true >= 0) & ((value == fact.seen) | shortly | (later & (value >= fact.true)))
        if name == "delivered_ns" or name == "nacked_ns":
            possible |= (fact.true >= 0) & (value >= fact.true)
        self._sort(name, right, reported & ~possible, marked)

    def _value(self, name: str, value: Longs, true: Longs, marked: Any = None, most: bool = False) -> None:
        """``most``: a value below the true one is possible, because events were not captured."""
        right = value == true
        wrong = ~right & (value >= 0) & ~(most & (value < true))
        self._sort(name, right, wrong, self.marked if marked is None else marked)

    def _sort(self, name: str, right: Any, invented: Any, marked: Any) -> None:
        result, keys = self.result, np.arange(len(right))
        result.counts["facts"] += len(right)
        result.counts["right"] += int(right.sum())
        result.add("invented", invented, name, keys)
        result.counts["marked"] += int((~right & ~invented & marked).sum())
        result.add("wrong", ~right & ~invented & ~marked, name, keys)

    def _inner(self, name: str, inner: str) -> Any:
        return pc.struct_field(self.table[name], inner)


def check_exchanges(table: pa.Table, truth: GroundTruth) -> CheckResult:
    """Compare the acks with a request id in the table `exchanges` with the truth."""
    result = CheckResult()
    rows = table.filter(pc.equal(table["request"], "ACK"))
    connection, request = truth.connections(_longs(rows["connection"])), _longs(rows["request_id"])
    index, requested, answered = truth.requests
    found = index.find(truth.request_key(connection, request))
    result.counts["rows"] += len(rows)
    result.add("invented", found < 0, "an exchange", request)
    keep = found >= 0
    for name, fact in (("asked_ns", requested), ("answered_ns", answered)):
        value = _longs(rows[name])[keep]
        one = fact.take(found[keep])
        right = (value == one.true) | (value == one.seen)
        shortly = one.uncertain & (np.abs(value - one.true) <= TOLERANCE_NS)
        result.counts["facts"] += len(value)
        result.counts["right"] += int(right.sum())
        result.add("invented", ~right & ~shortly & (value >= 0), name, request[keep])
        # `exchanges` has no column for evidence: a response that was not captured must be near a gap.
        present = truth.connections(_longs(rows["connection"]))[keep]
        hidden = truth.near_gap(present, np.zeros(len(present), np.bool_), one.true)
        result.counts["hidden"] += int((~right & ~shortly & (value < 0) & hidden).sum())
        result.add("wrong", ~right & ~shortly & (value < 0) & ~hidden, name, request[keep])
    reported = np.zeros(len(requested.true), np.bool_)
    reported[found[keep]] = True
    result.counts["not reported"] += int((~reported & (requested.seen >= 0)).sum())
    return result


def _longs(column: Any) -> Longs:
    """Return a column of numbers, with -1 for null."""
    filled = pc.fill_null(column, -1)
    array = filled.combine_chunks() if isinstance(filled, pa.ChunkedArray) else filled
    return np.asarray(array.cast(pa.int64()))
