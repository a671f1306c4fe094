"""Where subscriptions stand: at their beginning, after a SEEK, when the broker loads their topic anew.

Rules of this file
1. No frame says where a durable subscription stands, or whether it is new. But entries are read in order from the
   oldest unacknowledged one on: the first that comes tells. So does GET_LAST_MESSAGE_ID's answer, and silence: a
   consumer with permits that gets nothing for QUIET has nothing to get.
2. A subscription that is not durable begins where its SUBSCRIBE says (NonDurableCursorImpl).
3. When a topic is unloaded, deleted or its broker restarted, the broker closes all its producers and consumers; the
   counters of its statistics begin anew, and sets of partly acknowledged batches are lost. A reset by the admin
   interface closes the consumers of one subscription. Peers of two kinds closed within CLOSING tell an unload; so does
   a new ledger behind it. If neither is seen, nothing tells.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import ObservedFrame
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, Session
from pcli.codec.observe.tracking.subscriptions.ack_effects import NO_BITS
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import take_back
from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position, TopicState

__all__ = [
    "CLOSING_NS",
    "LATEST",
    "closed_by_broker",
    "earliest",
    "lived_on",
    "new_ledger",
    "open_cursor",
    "repeated_reconnects",
    "seek",
]

CLOSING_NS: Final = 1_000_000_000
"""How long a broker takes to close all peers of a topic."""

PROMPT_NS: Final = 200_000_000
"""A peer that is closed later was not closed by the same event."""

LATEST: Final = 1 << 62
"""Ledgers above are none: clients write "latest" as the greatest number that they have."""


def open_cursor(book: SubscriptionState, record: ConsumerRecord) -> None:
    """The first consumer has come: reading begins at the mark."""
    if record.rollback_seconds:
        book.reset_to(None)
    elif book.mark is None and not record.durable and not book.at_next:
        _begin(book, record)
    elif book.mark is None and book.picky and record.initial_position == "Earliest":
        book.mark = earliest(book.topic)
    if book.mark is not None:
        book.read = book.mark
    book.rewound = True


def _begin(book: SubscriptionState, record: ConsumerRecord) -> None:
    """A new subscription that is not durable."""
    topic, start = book.topic, record.start_id
    latest = start is None or start[0] >= LATEST or (topic.last[0] >= 0 and start > topic.last)
    if start is not None and not latest:
        if start[0] >= 0:
            book.mark = (start[0], start[1] - 1 if start[1] > 0 else -1)
        elif book.picky:
            book.mark = earliest(topic)
    elif record.initial_position == "Latest" or start is None:
        if topic.last[0] >= 0:
            book.mark = topic.last
        else:
            book.at_next = True


def earliest(topic: TopicState) -> Position | None:
    """Before the first entry, if the capture has seen that: no frame says so when ledgers that nobody needs go."""
    first = topic.first
    return (first[0], -1) if first is not None and first[1] == 0 and len(topic.ledgers) == 1 else None


def seek(
    shelf: OpenLifecycles,
    book: SubscriptionState,
    target: tuple[Position, int] | None,
    asked: int,
    frame: ObservedFrame,
) -> None:
    """A SEEK was answered with success."""
    topic = book.topic
    if not topic.record.persistent:
        return
    book.highest = max(book.highest, book.read)
    for at, delivery in book.open.items():
        take_back(book, at, delivery, "seek", frame.time_ns, asked)
    book.open.clear()
    book.sorted = True
    book.reset = (frame.number, "seek", asked)
    mark: Position | None = None
    if target is not None:
        at, bits = target
        if at[0] >= LATEST or at > topic.last:
            mark = topic.last if topic.last[0] >= 0 else None
            book.at_next = mark is None
        elif at[0] >= 0:
            mark = (at[0], at[1] - 1 if at[1] > 0 else -1)
        else:
            mark = earliest(topic)
        book.reset_to(mark)
        if bits != NO_BITS:
            book.sets[at] = bits
    else:
        book.reset_to(None)
    book.last_ns = frame.time_ns
    shelf.settle_all(topic)


def closed_by_broker(topic: TopicState, who: str, time_ns: int, frame: int, began_ns: int = -1) -> None:
    """The broker has closed a consumer of a subscription, or a producer (empty name), without being asked.

    ``began_ns``: since when that was open; -1: not known. What was opened behind the first close was closed again.
    """
    if topic.closed_ns < 0 or time_ns - topic.closed_ns > CLOSING_NS or began_ns > topic.closed_ns:
        topic.closed_ns = time_ns
        topic.closers = set()
        topic.restarted = False
        for book in topic.subscriptions.values():
            book.snapshot = book.record.delivered
        topic.record.unloads.add(time_ns, frame)
    before = len(topic.closers)
    topic.closers.add(who)
    if who in topic.subscriptions:
        book = topic.subscriptions[who]
        book.reset = (frame, "unload", frame)
        book.highest = max(book.highest, book.read)
    if before == 1 and len(topic.closers) == 2:
        _restart(topic)


def new_ledger(topic: TopicState) -> None:
    """An entry was stored in a ledger that was not there before."""
    if (topic.closed_ns >= 0 and len(topic.closers) == 1 and "" not in topic.closers) or topic.closers == {""}:
        _restart(topic)
        topic.closers = set()


def lived_on(topic: TopicState, session: Session) -> bool:
    """Whether a session shows that the topic was not unloaded when the broker closed others."""
    before = session.began_ns < topic.closed_ns
    return before and session.end != "broker" and (not session.end or session.ended_ns > topic.closed_ns + PROMPT_NS)


def repeated_reconnects(topic: TopicState) -> None:
    """A producer is there again: what was counted until now belongs to the time before an unload."""
    if topic.restarted:
        topic.base = topic.record.messages_in
        topic.restarted = False


def _restart(topic: TopicState) -> None:
    """The broker has loaded the topic anew."""
    topic.restarted = True
    topic.base = topic.record.messages_in
    for book in topic.subscriptions.values():
        book.base = book.snapshot
        book.served = False
        book.sets.clear()
