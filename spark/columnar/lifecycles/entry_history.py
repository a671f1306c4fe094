"""The history of one entry at one subscription, event by event.

This module processes entries with several deliveries or other unusual events. It performs the steps of
pcli.codec.observe.tracking for one position.

Rules of this file
1. An individual ACK applies to the last receiver of the entry. A cumulative ACK that covers the entry also applies to
   it, unless the subscription is Shared or Key_Shared.
2. An ACK in a transaction takes effect at the commit. The time of the acknowledgement is the time of the ACK.
3. A delivery makes the entry unacknowledged again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pcli.codec.wire.bits import left_of, set_of
from pcli.spark.columnar.lifecycles.recording_facts import CumulativeAcks, RecordingFacts, TransactionEnd, position_of
from pcli.spark.columnar.lifecycles.split_deliveries import unpack_ack

RESET, DELIVERED, ACKED, NACKED, REACHED, ENDED = range(6)
"""Kinds of events: cursor reset, MESSAGE, individual ACK, REDELIVER with the id, cumulative ACK, end of a
transaction."""

_NO_BITS = -1


@dataclass(slots=True)
class Delivery:
    """One MESSAGE frame and its acknowledgement."""

    stream: int
    consumer_id: int
    session: int
    """Index into `RecordingFacts.sessions`; -1 if the SUBSCRIBE was not captured."""
    number: int
    time_ns: int
    redelivery: int
    messages: int
    acked_ns: int = -1
    ack_type: str = ""
    nacked_ns: int = -1
    nacked_number: int = -1
    aborted_number: int = -1
    """The frame that aborted a transaction that had acknowledged this delivery."""
    held: bool = True
    partition: int = -1
    place: tuple[int, int] = (-1, -1)


@dataclass(slots=True)
class Event:
    """An event in the history of the entry."""

    number: int
    kind: int
    time_ns: int
    stream: int = -1
    consumer_id: int = -1
    delivery: Delivery | None = None
    bits: int = _NO_BITS
    txn: tuple[int, int] | None = None
    end: TransactionEnd | None = None
    remaining_bits: int | None = None
    """The remaining messages as bits, for a delivery with an ack set."""


@dataclass(slots=True)
class EntryAtSubscription:
    """The state of the entry at one subscription."""

    size: int
    """Number of messages in the entry."""
    individual: bool
    deliveries: list[Delivery] = field(default_factory=list)
    unacked: int = 0
    """Number of unacknowledged messages."""
    pending: bool = False
    """Whether the last delivery is not completely acknowledged."""
    bits: int | None = None
    """Remaining messages of a partly acknowledged batch, as bits; None if nothing was acknowledged."""
    acked_number: int = -1
    """The frame that last acknowledged the entry completely."""
    acknowledged: bool = False
    """Whether the broker considers the entry acknowledged."""
    transaction_acks: list[tuple[tuple[int, int], int, bool, Delivery | None, int, str]] = field(default_factory=list)


def apply_events(sub: EntryAtSubscription, events: list[Event], failed_acks: frozenset[int]) -> EntryAtSubscription:
    """Apply all events in order of frames and return the state."""
    for one in sorted(events, key=lambda one: (one.number, one.kind)):
        if one.kind == DELIVERED:
            _deliver(sub, one)
        elif one.kind == NACKED:
            _nack(sub, one)
        elif one.kind == ENDED:
            _end(sub, one)
        elif one.kind == RESET:
            sub.pending = False
        elif not sub.deliveries:
            if one.bits != _NO_BITS and one.txn is None:
                sub.bits = one.bits if sub.bits is None else sub.bits & one.bits
        elif one.txn is not None:
            last = sub.deliveries[-1]
            if one.number not in failed_acks:
                sub.transaction_acks.append((one.txn, one.bits, one.kind == REACHED, last, one.time_ns, "transaction"))
        elif one.kind == ACKED or sub.pending:
            kind = "cumulative" if one.kind == REACHED else "batch" if one.bits != _NO_BITS else "individual"
            _ack(sub, one, (one.bits, one.time_ns, kind), effective=one.number not in failed_acks)
    return sub


def _deliver(sub: EntryAtSubscription, one: Event) -> None:
    assert one.delivery is not None
    sub.bits = one.remaining_bits
    sub.deliveries.append(one.delivery)
    sub.unacked, sub.pending, sub.acknowledged = one.delivery.messages, True, False


def _nack(sub: EntryAtSubscription, one: Event) -> None:
    """Apply a REDELIVER, which affects only messages that the consumer holds.

    Exclusive and Failover subscriptions ignore the ids.
    """
    if not sub.deliveries or not sub.pending:
        return
    last = sub.deliveries[-1]
    mine = (last.stream, last.consumer_id) == (one.stream, one.consumer_id)
    if (not sub.individual or (mine and last.held)) and last.nacked_ns < 0:
        last.nacked_ns, last.nacked_number = one.time_ns, one.number
        last.held = False


def _ack(sub: EntryAtSubscription, one: Event, what: tuple[int, int, str], *, effective: bool) -> None:
    """Apply an ACK; ``what`` contains the remaining bits, and the time and type of the ACK."""
    bits, time_ns, kind = what
    last = sub.deliveries[-1]
    if bits != _NO_BITS:
        new = bits if sub.bits is None else bits & sub.bits
        left = left_of(new, sub.size)
        if left:
            if sub.acknowledged:
                return
            sub.bits, sub.unacked = new, left
            return
    if not sub.acknowledged and effective and last.acked_ns < 0:
        last.acked_ns, last.ack_type = time_ns, kind
    sub.unacked, sub.pending, sub.acknowledged, sub.bits, sub.acked_number = 0, False, True, None, one.number


def _end(sub: EntryAtSubscription, one: Event) -> None:
    assert one.end is not None
    kept = []
    for ack in sub.transaction_acks:
        txn, bits, _, delivery, time_ns, kind = ack
        if txn != one.txn:
            kept.append(ack)
        elif one.end.commit and delivery is not None:
            earlier = delivery is not sub.deliveries[-1]
            _ack(sub, one, (bits, time_ns, kind), effective=not earlier)
            if earlier and delivery.acked_ns < 0:
                delivery.acked_ns, delivery.ack_type = time_ns, kind
        elif delivery is not None and delivery.aborted_number < 0:
            delivery.aborted_number = one.number
    sub.transaction_acks = kept


def cumulative_ack_events(marks: CumulativeAcks, at: tuple[int, int], delivered: list[int]) -> list[Event]:
    """Return the cumulative ACKs that may acknowledge a position.

    These are all unusual ACKs and, for each delivery, the first usual ACK that follows it and covers the position.
    """
    begin = position_of(marks, *at)
    number = marks.number[begin:]
    odd = [row - begin for row in marks.odd if row >= begin]
    rows = set(odd)
    first = int(marks.earliest[begin]) - begin if len(number) else -1
    for since in delivered if first >= 0 else ():
        if number[first] > since:
            rows.add(first)
            continue
        later = number > since
        later[odd] = False
        behind = np.flatnonzero(later)
        if len(behind):
            rows.add(int(behind[np.argmin(number[behind])]))
    return [_mark(marks, begin + row, at) for row in rows]


def _mark(marks: CumulativeAcks, row: int, at: tuple[int, int]) -> Event:
    event = Event(int(marks.number[row]), REACHED, int(marks.time_ns[row]))
    data = marks.odd.get(row)
    if data is not None:
        event.txn, words = unpack_ack(data)
        to = (int(marks.ledger[row]), int(marks.entry[row]))
        event.bits = set_of(words) if words and to == at else _NO_BITS
    return event


def transaction_ends(
    facts: RecordingFacts, transactions: set[tuple[int, int]], topic: str, subscription: str
) -> list[Event]:
    """Return the ends of transactions at a subscription."""
    return [
        Event(one.number, ENDED, -1, txn=txn, end=one)
        for txn in transactions
        for one in facts.transactions.get(txn, ())
        if (one.topic in ("", topic) and one.subscription == subscription) or not one.topic
    ]
