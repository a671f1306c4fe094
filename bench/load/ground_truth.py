"""The truth of a load as arrays: the facts, and the part of them that the capture contains.

Rules of this file
1. Every fact has two values: the true value (``true``), and the value from the completely captured frames (``seen``). A
   fact is ``uncertain`` if the capture contains a part of the frame, or a retransmission of it.
2. Times are ns; -1 if there was no such event, or if it was not captured.
3. A delivery comprises all events of a message at a consumer. Its key is the number of the message times the number of
   consumers, plus the number of the consumer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from load.truth_files import WORDS

Longs = Any

RESYNC_NS = 40_000_000
"""Time after a gap, in ns, in which the search for frames may miss some."""


@dataclass(slots=True)
class Fact:
    """Times of one kind of event, for many messages or deliveries."""

    true: Longs
    seen: Longs
    uncertain: Any

    def take(self, rows: Longs) -> Fact:
        """Return the times of some rows."""
        return Fact(self.true[rows], self.seen[rows], self.uncertain[rows])

    @classmethod
    def first(cls, where: Longs, size: int, times: Longs, captured: Longs) -> Fact:
        """Return the first time of each item, from events of the items ``where``."""
        fact = cls(np.full(size, -1, np.int64), np.full(size, -1, np.int64), np.zeros(size, np.bool_))
        order = np.argsort(times, kind="stable")[::-1]
        fact.true[where[order]] = times[order]
        whole = order[captured[order] == 2]
        fact.seen[where[whole]] = times[whole]
        fact.uncertain[where[captured == 1]] = True
        return fact


class GroundTruth:
    """The content of a load's folder."""

    def __init__(self, folder: Path) -> None:
        self.settings = json.loads((folder / "load.json").read_text())
        table = pq.read_table(folder / "truth.parquet")
        self._columns = {name: table[name].to_numpy() for name in table.column_names if name != "kind"}
        self._kind = table["kind"].combine_chunks().indices.to_numpy()
        self.messages = int(self.settings["messages"])
        self.consumers = len(self.settings["consumers"])
        self._consumer = {
            (one["connection"], one["id"]): number for number, one in enumerate(self.settings["consumers"])
        }
        self._by_message()
        self._by_delivery()
        lost = pq.read_table(folder / "lost.parquet")
        self._lost = {name: lost[name].to_numpy() for name in lost.column_names}
        del self._columns, self._kind

    def _rows(self, *words: str) -> dict[str, Longs]:
        rows = np.flatnonzero(np.isin(self._kind, [WORDS.index(word) for word in words]))
        return {name: column[rows] for name, column in self._columns.items()}

    def _by_message(self) -> None:
        send, receipt = self._rows("send"), self._rows("receipt")
        many = self.messages
        self.sent = Fact.first(send["msg"], many, send["time_ns"], send["captured"])
        self.stored = Fact.first(receipt["msg"], many, receipt["time_ns"], receipt["captured"])
        for name in ("connection", "owner", "topic", "sequence", "ledger", "entry"):
            column = np.full(many, -1, np.int64)
            column[send["msg"]] = send[name]
            setattr(self, name, column)
        self.connection: Longs
        self.owner: Longs
        self.topic: Longs
        self.sequence: Longs
        self.ledger: Longs
        self.entry: Longs
        self._id = _Index(self.ledger << 32 | self.entry)
        self._sequence = _Index(self._sequence_key(self.connection, self.owner, self.sequence))

    def _by_delivery(self) -> None:
        """Group the events by message and consumer, sorted by their keys."""
        dispatch, ack, nack = self._rows("dispatch"), self._rows("ack"), self._rows("nack")
        self.key, where = np.unique(self._delivery_key(dispatch), return_inverse=True)
        many = len(self.key)
        self.delivered = Fact.first(where, many, dispatch["time_ns"], dispatch["captured"])
        self.count = np.bincount(where, minlength=many)
        self.count_seen = np.bincount(where[dispatch["captured"] == 2], minlength=many)
        self.redelivery = np.full(many, -1)
        np.maximum.at(self.redelivery, where, dispatch["redelivery"])
        self.acked = self._of_deliveries(ack)
        self.nacked = self._of_deliveries(nack)
        self.cumulative = np.zeros(many, np.bool_)
        self._acknowledge(self._rows("cumulative"))
        self.requests = self._requests()

    def _of_deliveries(self, rows: dict[str, Longs]) -> Fact:
        where = np.searchsorted(self.key, self._delivery_key(rows))
        return Fact.first(where, len(self.key), rows["time_ns"], rows["captured"])

    def _acknowledge(self, rows: dict[str, Longs]) -> None:
        """Acknowledge each delivery by the first cumulative ack of its consumer that covers it."""
        by = self._consumers_of(rows)
        place = self.place(self.key // self.consumers)
        consumer = self.key % self.consumers
        for one in np.unique(by).tolist():
            mine = np.flatnonzero(consumer == one)
            self.cumulative[mine] = True
            acks = {name: column[by == one] for name, column in rows.items()}
            covers = acks["ledger"] << 32 | acks["entry"]
            self.acked.true[mine] = _covering(covers, acks["time_ns"], place[mine])
            whole = acks["captured"] == 2
            self.acked.seen[mine] = _covering(covers[whole], acks["time_ns"][whole], place[mine])
            self.acked.uncertain[mine] |= bool((acks["captured"] == 1).any())

    def _requests(self) -> tuple[_Index, Fact, Fact]:
        """The acks that request a response, and their responses."""
        ack, response = self._rows("ack"), self._rows("answer")
        ack_receipts = ack["request"] >= 0
        ack = {name: column[ack_receipts] for name, column in ack.items()}
        index = _Index(self.request_key(ack["connection"], ack["request"]))
        where = index.find(self.request_key(response["connection"], response["request"]))
        many = len(ack["request"])
        requested = Fact.first(np.arange(many), many, ack["time_ns"], ack["captured"])
        return index, requested, Fact.first(where, many, response["time_ns"], response["captured"])

    # -- keys ----------------------------------------------------------------------------------------------------------

    def place(self, messages: Longs) -> Longs:
        """Return the ledger and entry as one number."""
        return self.ledger[messages] << 32 | self.entry[messages]

    def find(self, ledger: Longs, entry: Longs) -> Longs:
        """Return the numbers of the messages with these ids; -1 if none."""
        return self._id.find(ledger << 32 | entry)

    def find_sent(self, connection: Longs, owner: Longs, sequence: Longs) -> Longs:
        """Return the numbers of the messages with these producers and sequence ids."""
        return self._sequence.find(self._sequence_key(connection, owner, sequence))

    def find_delivery(self, messages: Longs, connection: Longs, owner: Longs) -> Longs:
        """Return the indices of deliveries; -1 if none."""
        consumer = self._numbers(connection, owner)
        key = messages * self.consumers + consumer
        found = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        return np.where((consumer >= 0) & (self.key[found] == key), found, -1)

    def connections(self, streams: Longs) -> Longs:
        """Return the connections of these `tcp.stream`."""
        known = np.array([*self.settings["streams"], -1], np.int64)
        return known[np.where((streams >= 0) & (streams < len(known) - 1), streams, len(known) - 1)]

    def near_gap(self, connection: Longs, from_client: Any, time_ns: Longs) -> Any:
        """Return whether the capture lacks data of the connection and side shortly before or immediately after."""
        near = np.zeros(len(time_ns), np.bool_)
        data = self._lost["size"] > 0
        for client in (True, False):
            for one in np.unique(self._lost["connection"][data]).tolist():
                rows = data & (self._lost["connection"] == one) & (self._lost["from_client"] == client)
                gaps = np.sort(self._lost["time_ns"][rows])
                if not len(gaps):
                    continue
                mine = np.flatnonzero((connection == one) & (from_client == client))
                last = np.searchsorted(gaps, time_ns[mine] + 20_000_000) - 1
                close = time_ns[mine] - gaps[np.maximum(last, 0)] < RESYNC_NS
                near[mine] = (last >= 0) & close
        return near

    @staticmethod
    def request_key(connection: Longs, request: Longs) -> Longs:
        """Return connection and request id as one number."""
        return connection.astype(np.int64) << 40 | request

    @staticmethod
    def _sequence_key(connection: Longs, owner: Longs, sequence: Longs) -> Longs:
        return (connection << 10 | owner) << 40 | sequence

    def _delivery_key(self, rows: dict[str, Longs]) -> Longs:
        return rows["msg"] * self.consumers + self._consumers_of(rows)

    def _consumers_of(self, rows: dict[str, Longs]) -> Longs:
        return self._numbers(rows["connection"], rows["owner"])

    def _numbers(self, connection: Longs, owner: Longs) -> Longs:
        """Return the numbers of consumers; -1 if none."""
        table = np.full((self.settings["settings"]["connections"] + 1, 1 << 10), -1, np.int64)
        for (one, other), number in self._consumer.items():
            table[one, other] = number
        fits = (connection >= 0) & (owner >= 0) & (owner < 1 << 10)
        return np.where(fits, table[np.where(fits, connection, 0), np.where(fits, owner, 0)], -1)


class _Index:
    """Finds rows by a key."""

    def __init__(self, keys: Longs) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def find(self, keys: Longs) -> Longs:
        """Return the row of each key; -1 if there is none."""
        if not len(self._sorted):
            return np.full(len(keys), -1)
        found = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[found] == keys, self._order[found], -1)


def _covering(covers: Longs, times: Longs, places: Longs) -> Longs:
    """Return the time of the first ack that covers each position; -1 if none does."""
    order = np.argsort(covers, kind="stable")
    first = np.minimum.accumulate(times[order][::-1])[::-1]
    found = np.searchsorted(covers[order], places)
    return np.r_[first, -1][found]
