"""The events of a simple broker and its clients as columns, in blocks of ticks.

Rules of this file
1. A column is an event: a frame in a tick and a direction (twice the connection, plus one from the broker). The effect
   of a frame is in a later tick, so causes precede effects in the capture.
2. All events of a message are computed when it is sent. Events of later ticks wait in ``pending``.
3. Events of a direction are in order of ticks, then of columns. The ticks of receipts, dispatches and acks of one
   producer or consumer never decrease, so they never overtake each other.
4. A consumer first grants permits for its queue, then for half of it whenever it has taken half. Every ``dispatch`` has
   a permit; `Traffic.due` checks this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from load.participants import Participants, key_hosts
from load.settings import Load

__all__ = [
    "ACK",
    "ACKS",
    "ANSWER",
    "CUMULATIVE",
    "DISPATCH",
    "FLOW",
    "NACK",
    "PING",
    "PONG",
    "RAW",
    "RECEIPT",
    "SEND",
    "Traffic",
]

# Rows of an event.
TICK, DIRECTION, KIND, PARTICIPANT, MSG, LEDGER, ENTRY, EXTRA = range(8)
ROWS = 8

# Kinds. ``TAKEN`` has no frame: the application of a consumer took a message.
RAW, SEND, RECEIPT, DISPATCH, ACK, ACKS, CUMULATIVE, NACK, ANSWER, FLOW, PING, PONG, TAKEN = range(13)

Longs = Any
"""An array of int64."""


class Traffic:
    """The events of a load."""

    def __init__(self, load: Load, participants: Participants, rng: np.random.Generator) -> None:
        self.load, self.participants, self.rng = load, participants, rng
        self.pending: list[Longs] = []
        """Arrays of events that are not due yet."""
        self.messages = 0
        """Number of messages (entries) so far."""
        self.keyed = "Key_Shared" in load.subscriptions
        self._producer_direction = np.array([one.connection * 2 for one in participants.producers], np.int64)
        self._consumer_direction = np.array([one.connection * 2 for one in participants.consumers], np.int64)
        self._sequences = np.zeros(len(participants.producers), np.int64)
        self._entries = np.zeros(len(participants.topics), np.int64)
        self._latest: dict[str, int] = {}
        self._taken = np.zeros(len(participants.consumers), np.int64)
        self._permits = np.zeros(len(participants.consumers), np.int64)
        self._ack_receipts = np.array([one.ack_receipts for one in participants.consumers], np.bool_)
        self._first = [participants.table(participants.first, index) for index in range(len(load.subscriptions))]
        self._count = [participants.table(participants.count, index) for index in range(len(load.subscriptions))]
        most = max((int(count.max()) for count in self._count), default=1)
        self._key_hosts = {count: key_hosts(load, count) for count in range(1, most + 1)} if self.keyed else {}

    # -- new messages ------------------------------------------------------------------------------------------------

    def make(self, first: int, ticks: int, count: int) -> dict[str, Longs]:
        """Add ``count`` messages in ``ticks`` ticks from ``first``, with all their events; return their columns."""
        rng, load = self.rng, self.load
        producers = rng.integers(len(self.participants.producers), size=count)
        topics = np.array([one.topic for one in self.participants.producers], np.int64)[producers]
        columns = {
            "number": np.arange(self.messages, self.messages + count),
            "tick": np.sort(rng.integers(first, first + ticks, size=count)),
            "producer": producers,
            "topic": topics,
            "sequence": _counted(producers, self._sequences) * load.batch,
            "key": rng.integers(load.keys, size=count),
        }
        place = _counted(topics, self._entries)
        columns["ledger"], columns["entry"] = self._place(place, topics)
        self.messages += count
        self._publish(columns)
        for index in range(len(load.subscriptions)):
            self._deliver(index, columns)
        return columns

    def _publish(self, columns: dict[str, Longs]) -> None:
        direction = self._producer_direction[columns["producer"]]
        stored = self._later("receipt", columns["tick"], 1, 3)
        for kind, tick, side in ((SEND, columns["tick"], 0), (RECEIPT, stored, 1)):
            self._add(
                tick, direction + side, kind, columns["producer"], columns["number"], columns["ledger"],
                columns["entry"], columns["sequence"],
            )  # fmt: skip

    def _deliver(self, index: int, columns: dict[str, Longs]) -> None:
        """Dispatch the messages to a subscription."""
        kind = self.load.subscriptions[index]
        first, count = self._first[index][columns["topic"]], self._count[index][columns["topic"]]
        if kind == "Shared":
            host = self.rng.integers(1 << 30, size=len(first)) % count
        elif kind == "Key_Shared":
            table = np.stack([self._key_hosts[many] for many in range(1, len(self._key_hosts) + 1)])
            host = table[count - 1, columns["key"]]
        else:
            host = np.zeros_like(first)
        self._dispatch(index, columns["tick"] + self._ticks(self.load.lag), first + host, columns, 0)

    def _dispatch(self, index: int, after: Longs, participant: Longs, columns: dict[str, Longs], again: int) -> None:
        """Add the dispatch to consumers, and the acknowledgements or redeliveries."""
        if not len(participant):
            return
        kind = self.load.subscriptions[index]
        place = columns["number"], columns["ledger"], columns["entry"]
        tick = self._later(f"dispatch {index} {again}", after, 1, 3)
        self._add(
            tick,
            self._consumer_direction[participant] + 1,
            DISPATCH,
            participant,
            *place,
            np.full(len(participant), again),
        )
        taken = self._later(f"taken {index} {again}", tick, 1, 3)
        self._add(
            taken,
            self._consumer_direction[participant],
            TAKEN,
            participant,
            *place,
            np.full(len(participant), self.load.batch),
        )
        done = taken + self._ticks(self.load.ack_lag)
        if kind != "Shared":
            self._acknowledge(kind, done, participant, place)
            return
        bad = self.rng.random(len(participant)) < self.load.nacks
        self._acknowledge(kind, done[~bad], participant[~bad], tuple(column[~bad] for column in place))
        self._redeliver(
            index, done[bad], participant[bad], {name: column[bad] for name, column in columns.items()}, again
        )

    def _redeliver(self, index: int, done: Longs, participant: Longs, columns: dict[str, Longs], again: int) -> None:
        """Add negative acks, grouped over a few ticks, and the redeliveries to any consumer."""
        tick = (done // 8 + 2) * 8
        place = columns["number"], columns["ledger"], columns["entry"]
        self._add(tick, self._consumer_direction[participant], NACK, participant, *place, np.full(len(participant), -1))
        first, count = self._first[index][columns["topic"]], self._count[index][columns["topic"]]
        other = first + self.rng.integers(1 << 30, size=len(first)) % count
        self._dispatch(index, tick, other, columns, again + 1)

    def _acknowledge(self, kind: str, done: Longs, participant: Longs, place: tuple[Longs, ...]) -> None:
        """Add acks; a cumulative ack for every hundred entries."""
        none = np.full(len(participant), -1)
        direction = self._consumer_direction[participant]
        if kind in ("Exclusive", "Failover"):
            mine = place[2] % 100 == 99
            self._add(
                done[mine], direction[mine], CUMULATIVE, participant[mine], *(one[mine] for one in place), none[mine]
            )
        elif kind == "Key_Shared":
            self._add(done, direction, ACKS, participant, *place, none)
        else:
            ack_receipts = self._ack_receipts[participant]
            request = np.where(ack_receipts, 1000 + place[0] * 4, -1)
            self._add(done, direction, ACK, participant, *place, request)
            asked = tuple(one[ack_receipts] for one in place)
            self._add(
                done[ack_receipts] + 1,
                direction[ack_receipts] + 1,
                ANSWER,
                participant[ack_receipts],
                *asked,
                request[ack_receipts],
            )

    # -- other events --------------------------------------------------------------------------------------------------

    def ping(self, tick: int) -> None:
        """Add a PING from both sides of all connections, and the PONGs."""
        directions = np.arange(self.participants.connections * 2)
        zero = np.zeros_like(directions)
        for kind, after, direction in ((PING, 0, directions), (PONG, 1, directions ^ 1)):
            self._add(zero + tick + after, direction, kind, zero - 1, zero - 1, zero - 1, zero - 1, zero - 1)

    def raw(self, tick: int, direction: int, number: int) -> None:
        """Add a frame that the encoder stores under this number."""
        self.pending.append(np.array([[tick], [direction], [RAW], [-1], [-1], [-1], [-1], [number]]))

    def flow(self, tick: int, consumer: int) -> None:
        """Add the first FLOW of a consumer."""
        direction = int(self._consumer_direction[consumer])
        self.pending.append(np.array([[tick], [direction], [FLOW], [consumer], [-1], [-1], [-1], [self.load.queue]]))

    def last_acks(self, tick: int) -> None:
        """Add cumulative acks for all remaining messages."""
        for index, kind in enumerate(self.load.subscriptions):
            if kind in ("Exclusive", "Failover"):
                topics = np.flatnonzero(self._entries)
                participant, last = self._first[index][topics], self._entries[topics] - 1
                ledger, entry = self._place(last, topics)
                none = np.full(len(participant), -1)
                self._add(
                    none + 1 + tick,
                    self._consumer_direction[participant],
                    CUMULATIVE,
                    participant,
                    none,
                    ledger,
                    entry,
                    none,
                )

    # -- due events ----------------------------------------------------------------------------------------------------

    def due(self, before: int) -> Longs:
        """Return the events of ticks before this one, by tick and direction, in order of frames."""
        waiting = np.concatenate(self.pending, axis=1)
        now = waiting[TICK] < before
        events, self.pending = waiting[:, now], [waiting[:, ~now]]
        events = events[:, np.argsort(events[TICK], kind="stable")]
        events = np.concatenate((events, self._refills(events[:, events[KIND] == TAKEN])), axis=1)
        events = events[:, events[KIND] != TAKEN]
        directions = self.participants.connections * 2
        events = events[:, np.argsort(events[TICK] * directions + events[DIRECTION], kind="stable")]
        self._check_permits(events)
        return events

    def _refills(self, taken: Longs) -> Longs:
        """Return the FLOWs: half the queue for each half that a consumer has taken."""
        order = np.argsort(taken[PARTICIPANT], kind="stable")
        taken = taken[:, order]
        participant = taken[PARTICIPANT]
        total = _running(participant, taken[EXTRA], self._taken)
        half = self.load.queue // 2
        steps = total // half - (total - taken[EXTRA]) // half
        flows = taken[:, steps > 0].copy()
        flows[KIND] = FLOW
        flows[EXTRA] = steps[steps > 0] * half
        return flows

    def _check_permits(self, events: Longs) -> None:
        """Raise SystemExit if a broker could not have sent these events."""
        mine = events[:, (events[KIND] == FLOW) | (events[KIND] == DISPATCH)]
        # Within a tick, permits come last, because the order of packets is not determined here.
        mine = mine[:, np.lexsort((mine[KIND] == FLOW, mine[TICK], mine[PARTICIPANT]))]
        sent = mine[KIND] == DISPATCH
        change = np.where(sent, -self.load.batch, mine[EXTRA])
        left = _running(mine[PARTICIPANT], change, self._permits)
        # Brokers dispatch whole entries as long as there is at least one permit.
        if (left[sent] <= -self.load.batch).any():
            raise SystemExit(
                "the load needs a larger --queue: a consumer would receive more messages than it has permits"
            )

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _ticks(self, seconds: float) -> int:
        return int(seconds * 1e9 / self.load.tick_ns)

    def _later(self, name: str, ticks: Longs, least: int, most: int) -> Longs:
        """Return ticks that are ``least`` to ``most`` later and never decrease, also across calls of this name."""
        later = ticks + self.rng.integers(least, most + 1, size=len(ticks))
        if len(later):
            later[0] = max(int(later[0]), self._latest.get(name, 0))
            later = np.maximum.accumulate(later)
            self._latest[name] = int(later[-1])
        return later

    def _add(self, *rows: Longs) -> None:
        size = len(rows[0])
        event = np.empty((ROWS, size), np.int64)
        for index, row in enumerate(rows):
            event[index] = row
        self.pending.append(event)

    def _place(self, number: Longs, topics: Longs) -> tuple[Longs, Longs]:
        """Return the ledger and entry of a topic's messages, counted from 0."""
        ledger = 20_000 + number // self.load.ledger * len(self.participants.topics) + topics
        return ledger, number % self.load.ledger


def _counted(group: Longs, counts: Longs) -> Longs:
    """Return the number of each row within its group, starting at ``counts``, which is updated."""
    return _running(group, np.ones(len(group), np.int64), counts) - 1


def _running(group: Longs, change: Longs, totals: Longs) -> Longs:
    """Return the running sum of each row's group, starting at ``totals``, which is updated."""
    order = np.argsort(group, kind="stable")
    sorted_group, summed = group[order], np.cumsum(change[order])
    starts = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]]) if len(order) else order
    before = np.r_[0, summed][starts]
    sizes = np.diff(np.r_[starts, len(order)])
    summed = summed - np.repeat(before, sizes) + totals[sorted_group]
    if len(order):
        ends = np.r_[starts[1:], len(order)] - 1
        totals[sorted_group[ends]] = summed[ends]
    out = np.empty_like(summed)
    out[order] = summed
    return out
