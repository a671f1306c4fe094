"""Which frame goes when: a simple broker's doings as columns, block by block of ticks.

Rules of this file
1. A column is an event: a frame to be sent in a tick on a way (twice the connection, plus one from the broker). What
   follows from a frame stands in a later tick, so a capture that keeps ticks apart has causes before effects.
2. All that follows from a message is known when it is sent. Events of later ticks wait in ``pending``.
3. The order on a way is that of ticks, then of the columns. So receipts, dispatches and acks of one producer or
   consumer never overtake each other: their ticks never fall.
4. Permits: a consumer gives its queue at first, then half of it when it has taken half of it. ``dispatch`` is never
   made with no permit left; `Traffic.due` holds that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from load.cast import Cast, key_hosts
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
TICK, WAY, KIND, WHO, MSG, LEDGER, ENTRY, EXTRA = range(8)
ROWS = 8

# Kinds. Of ``TAKEN`` no frame comes: a consumer's application took a message.
RAW, SEND, RECEIPT, DISPATCH, ACK, ACKS, CUMULATIVE, NACK, ANSWER, FLOW, PING, PONG, TAKEN = range(13)

Longs = Any
"""An array of int64."""


class Traffic:
    """The events of a load."""

    def __init__(self, load: Load, cast: Cast, rng: np.random.Generator) -> None:
        self.load, self.cast, self.rng = load, cast, rng
        self.pending: list[Longs] = []
        """Arrays of events that were not due yet."""
        self.messages = 0
        """Messages (entries) made so far."""
        self.keyed = "Key_Shared" in load.subscriptions
        self._maker_way = np.array([one.connection * 2 for one in cast.producers], np.int64)
        self._taker_way = np.array([one.connection * 2 for one in cast.consumers], np.int64)
        self._sequences = np.zeros(len(cast.producers), np.int64)
        self._entries = np.zeros(len(cast.topics), np.int64)
        self._latest: dict[str, int] = {}
        self._taken = np.zeros(len(cast.consumers), np.int64)
        self._permits = np.zeros(len(cast.consumers), np.int64)
        self._wants = np.array([one.wants for one in cast.consumers], np.bool_)
        self._first = [cast.table(cast.first, index) for index in range(len(load.subscriptions))]
        self._count = [cast.table(cast.count, index) for index in range(len(load.subscriptions))]
        most = max((int(count.max()) for count in self._count), default=1)
        self._key_hosts = {count: key_hosts(load, count) for count in range(1, most + 1)} if self.keyed else {}

    # -- new messages ------------------------------------------------------------------------------------------------

    def make(self, first: int, ticks: int, count: int) -> dict[str, Longs]:
        """``count`` messages sent in ``ticks`` ticks from ``first`` on, and all that follows; their columns."""
        rng, load = self.rng, self.load
        producers = rng.integers(len(self.cast.producers), size=count)
        topics = np.array([one.topic for one in self.cast.producers], np.int64)[producers]
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
        way = self._maker_way[columns["producer"]]
        stored = self._later("receipt", columns["tick"], 1, 3)
        for kind, tick, side in ((SEND, columns["tick"], 0), (RECEIPT, stored, 1)):
            self._add(
                tick, way + side, kind, columns["producer"], columns["number"], columns["ledger"], columns["entry"],
                columns["sequence"],
            )  # fmt: skip

    def _deliver(self, index: int, columns: dict[str, Longs]) -> None:
        """A subscription gets the messages."""
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

    def _dispatch(self, index: int, after: Longs, who: Longs, columns: dict[str, Longs], again: int) -> None:
        """They are sent to consumers, taken and acknowledged, or sent again."""
        if not len(who):
            return
        kind = self.load.subscriptions[index]
        place = columns["number"], columns["ledger"], columns["entry"]
        tick = self._later(f"dispatch {index} {again}", after, 1, 3)
        self._add(tick, self._taker_way[who] + 1, DISPATCH, who, *place, np.full(len(who), again))
        taken = self._later(f"taken {index} {again}", tick, 1, 3)
        self._add(taken, self._taker_way[who], TAKEN, who, *place, np.full(len(who), self.load.batch))
        done = taken + self._ticks(self.load.ack_lag)
        if kind != "Shared":
            self._settle(kind, done, who, place)
            return
        bad = self.rng.random(len(who)) < self.load.nacks
        self._settle(kind, done[~bad], who[~bad], tuple(column[~bad] for column in place))
        self._come_again(index, done[bad], who[bad], {name: column[bad] for name, column in columns.items()}, again)

    def _come_again(self, index: int, done: Longs, who: Longs, columns: dict[str, Longs], again: int) -> None:
        """Consumers give them back, a few ticks' at a time; the broker sends them to whom it likes."""
        tick = (done // 8 + 2) * 8
        place = columns["number"], columns["ledger"], columns["entry"]
        self._add(tick, self._taker_way[who], NACK, who, *place, np.full(len(who), -1))
        first, count = self._first[index][columns["topic"]], self._count[index][columns["topic"]]
        other = first + self.rng.integers(1 << 30, size=len(first)) % count
        self._dispatch(index, tick, other, columns, again + 1)

    def _settle(self, kind: str, done: Longs, who: Longs, place: tuple[Longs, ...]) -> None:
        """Acks. A cumulative one every hundred entries."""
        none = np.full(len(who), -1)
        way = self._taker_way[who]
        if kind in ("Exclusive", "Failover"):
            mine = place[2] % 100 == 99
            self._add(done[mine], way[mine], CUMULATIVE, who[mine], *(one[mine] for one in place), none[mine])
        elif kind == "Key_Shared":
            self._add(done, way, ACKS, who, *place, none)
        else:
            wants = self._wants[who]
            request = np.where(wants, 1000 + place[0] * 4, -1)
            self._add(done, way, ACK, who, *place, request)
            asked = tuple(one[wants] for one in place)
            self._add(done[wants] + 1, way[wants] + 1, ANSWER, who[wants], *asked, request[wants])

    # -- what comes beside ---------------------------------------------------------------------------------------------

    def ping(self, tick: int) -> None:
        """Both sides of all connections ask the other whether it is there."""
        ways = np.arange(self.cast.connections * 2)
        zero = np.zeros_like(ways)
        for kind, after, way in ((PING, 0, ways), (PONG, 1, ways ^ 1)):
            self._add(zero + tick + after, way, kind, zero - 1, zero - 1, zero - 1, zero - 1, zero - 1)

    def raw(self, tick: int, way: int, number: int) -> None:
        """A frame whose bytes are known elsewhere by that number."""
        self.pending.append(np.array([[tick], [way], [RAW], [-1], [-1], [-1], [-1], [number]]))

    def flow(self, tick: int, consumer: int) -> None:
        """A consumer's first permits."""
        way = int(self._taker_way[consumer])
        self.pending.append(np.array([[tick], [way], [FLOW], [consumer], [-1], [-1], [-1], [self.load.queue]]))

    def last_acks(self, tick: int) -> None:
        """Cumulative acks for what is left."""
        for index, kind in enumerate(self.load.subscriptions):
            if kind in ("Exclusive", "Failover"):
                topics = np.flatnonzero(self._entries)
                who, last = self._first[index][topics], self._entries[topics] - 1
                ledger, entry = self._place(last, topics)
                none = np.full(len(who), -1)
                self._add(none + 1 + tick, self._taker_way[who], CUMULATIVE, who, none, ledger, entry, none)

    # -- what is due ---------------------------------------------------------------------------------------------------

    def due(self, before: int) -> Longs:
        """Events of ticks before that one, in the order of ticks and, on a way, of frames."""
        waiting = np.concatenate(self.pending, axis=1)
        now = waiting[TICK] < before
        events, self.pending = waiting[:, now], [waiting[:, ~now]]
        events = events[:, np.argsort(events[TICK], kind="stable")]
        events = np.concatenate((events, self._refills(events[:, events[KIND] == TAKEN])), axis=1)
        events = events[:, events[KIND] != TAKEN]
        ways = self.cast.connections * 2
        events = events[:, np.argsort(events[TICK] * ways + events[WAY], kind="stable")]
        self._hold_permits(events)
        return events

    def _refills(self, taken: Longs) -> Longs:
        """FLOWs: half the queue for each half that a consumer has taken."""
        order = np.argsort(taken[WHO], kind="stable")
        taken = taken[:, order]
        who = taken[WHO]
        total = _running(who, taken[EXTRA], self._taken)
        half = self.load.queue // 2
        steps = total // half - (total - taken[EXTRA]) // half
        flows = taken[:, steps > 0].copy()
        flows[KIND] = FLOW
        flows[EXTRA] = steps[steps > 0] * half
        return flows

    def _hold_permits(self, events: Longs) -> None:
        """Refuse to go on when a broker could not have sent this."""
        mine = events[:, (events[KIND] == FLOW) | (events[KIND] == DISPATCH)]
        # Within a tick, permits come last: which packet was first is not said here.
        mine = mine[:, np.lexsort((mine[KIND] == FLOW, mine[TICK], mine[WHO]))]
        sent = mine[KIND] == DISPATCH
        change = np.where(sent, -self.load.batch, mine[EXTRA])
        left = _running(mine[WHO], change, self._permits)
        # As a broker that counts entries whole: it sends while there is a permit at all.
        if (left[sent] <= -self.load.batch).any():
            raise SystemExit("the load needs a larger --queue: a consumer would get more than it gave permits for")

    # -- parts of the above --------------------------------------------------------------------------------------------

    def _ticks(self, seconds: float) -> int:
        return int(seconds * 1e9 / self.load.tick_ns)

    def _later(self, name: str, ticks: Longs, least: int, most: int) -> Longs:
        """``least`` to ``most`` ticks later, each not before the one in front of it, in this call and those before."""
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
        """Ledger and entry of a topic's messages, counted from 0."""
        ledger = 20_000 + number // self.load.ledger * len(self.cast.topics) + topics
        return ledger, number % self.load.ledger


def _counted(group: Longs, counts: Longs) -> Longs:
    """The number of each row within its group, counting on from ``counts``, which goes on."""
    return _running(group, np.ones(len(group), np.int64), counts) - 1


def _running(group: Longs, change: Longs, totals: Longs) -> Longs:
    """The sum of each row's group up to it, going on from ``totals``, which is carried on."""
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
