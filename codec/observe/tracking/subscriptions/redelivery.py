"""Why a message comes again: who asked, who left, what was set back; and how often all that happens.

Rules of this file
1. The cause is noted on a delivery when the broker takes it back (`Delivery.taken`), and told when the entry is
   delivered again.
2. A negative acknowledgement and an ack time-out are the same frame, REDELIVER with ids. It is called a time-out when
   its ids are as old as the client library lets a time-out be (LEAST), all ids of all such requests of the consumer had
   the same age, within a TICK, and the consumer holds no older message that was not asked for: a time-out would have
   taken that, too. What was refused once is refused again. An application that refuses everything at once, always
   after the same long delay, looks just so.
3. On Exclusive and Failover subscriptions ids are ignored: everything comes again (PersistentDispatcherSingleActive).
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position

__all__ = ["LEAST", "MAX_AGES", "TICK_NS", "ask", "came_again", "let_go", "set_back", "take_back"]

TICK_NS: Final = 1_000_000_000
"""ackTimeoutTickTime: a message may be held so much longer than the time-out."""

LEAST: Final = {"Pulsar-CPP": 10_000_000_000, "Pulsar-Go": 1 << 62}
"""The least ack time-out, ns, by the beginning of client_version; Go has none. Others: a TICK, as Java's
(ConsumerBuilder.ackTimeout)."""

MAX_AGES: Final = 64
"""Ages that are kept of the messages that a consumer asked for."""

_WORST: Final = 8
_IDS: Final = "pulsar.redeliverUnacknowledgedMessages.message_ids"


def let_go(book: SubscriptionState, delivery: Delivery) -> None:
    """The messages of a delivery are with its consumer no more, whatever became of them."""
    held, delivery.held = delivery.held, 0
    if held and book.individual:
        delivery.consumer.unacked -= held
        book.record.unacked -= held


def take_back(book: SubscriptionState, at: Position, delivery: Delivery, why: str, time_ns: int, frame: int) -> None:
    """The broker takes an unacknowledged delivery back; ``why`` is a key of topics.AGAIN."""
    if delivery.held:
        let_go(book, delivery)
        book.freed_ns = time_ns
        delivery.taken = (why, frame)
        if book.keys is not None:
            book.keys.released(book.topic.lives.get(at), delivery)


def ask(member: AttachedConsumer, facts: Facts) -> None:
    """A REDELIVER_UNACKNOWLEDGED_MESSAGES."""
    record, book, frame = member.record, member.book, facts.frame
    ids: list[dict[str, Any]] = facts.command.get(_IDS, [])
    (record.asked_again if ids else record.asked_all).add(frame.time_ns, frame.number, count=max(1, len(ids)))
    record.blocked.end(frame.time_ns, frame.number)
    wanted = [(one.get("ledgerId", -1), one.get("entryId", -1)) for one in ids]
    if ids and (book.individual or book.stranger):
        _ask_for(member, wanted, frame)
        return
    if not book.individual and record.active is False:
        return  # only the active consumer sets the cursor back (PersistentDispatcherSingleActiveConsumer)
    member.drift = 0
    for at in wanted:
        if at in book.open:
            book.open[at].again = (frame.number, frame.time_ns)
    for at, delivery in list(book.open.items()):
        if delivery.consumer is record or not book.individual:
            take_back(book, at, delivery, "rewind", frame.time_ns, frame.number)
    if not book.individual and book.mark is not None:
        book.read = book.mark


def _ask_for(member: AttachedConsumer, wanted: list[Position], frame: Any) -> None:
    record, book = member.record, member.book
    found = [(at, book.open[at]) for at in dict.fromkeys(wanted) if at in book.open]
    held = [(at, one) for at, one in found if one.held and one.consumer is record]
    if not held:
        return
    oldest = min(one.time_ns for _, one in held)
    ages = [frame.time_ns - one.time_ns for _, one in held]
    for age, (_, delivery) in zip(ages, held, strict=True):
        if not delivery.why and len(record.hold_ages) < MAX_AGES:
            record.hold_ages.append(age)
    refused = any(one.why == "nack" for _, one in held)
    why = "ack_timeout" if not refused and _is_timeout(member, {at for at, _ in held}, ages, oldest) else "nack"
    for at, delivery in held:
        delivery.again = (frame.number, frame.time_ns)
        take_back(book, at, delivery, why, frame.time_ns, frame.number)


def _is_timeout(member: AttachedConsumer, asked: set[Position], ages: list[int], oldest: int) -> bool:
    if min(ages) < member.least_timeout:
        return False
    young, old = member.timeouts
    member.timeouts = young, old = min(young or ages[0], *ages), max(old, *ages)
    if old - young > TICK_NS:
        return False
    return not any(
        one.held and one.consumer is member.record and one.time_ns < oldest and at not in asked
        for at, one in member.book.open.items()
    )


def came_again(
    book: SubscriptionState, at: Position, life: Lifecycle, past: list[Delivery], delivery: Delivery
) -> None:
    """An entry is delivered to a subscription that had it before."""
    last = past[-1]
    why, cause = last.taken
    if book.reset[0] > last.frame:
        _, why, cause = book.reset
    elif why in ("left", "lost") and cause and _alone(book, delivery, cause):
        why = "reopened" if why == "left" else why
    record = book.record
    name = _tell(book, at, delivery, why or "twice", cause)
    if life.batch and life.messages > 1 and delivery.messages == life.messages and last.again[0]:
        delivery.consumer.whole_batches_again.add(delivery.time_ns, delivery.frame, sample=name)
    worst = record.most_redelivered
    if len(worst) < _WORST or len(past) >= worst[-1][0]:
        kept = [one for one in worst if one[1] != name]
        kept.append((len(past) + 1, name, past[0].frame, delivery.frame))
        kept.sort(key=lambda one: -one[0])
        worst[:] = kept[:_WORST]


def set_back(book: SubscriptionState, at: Position, delivery: Delivery) -> None:
    """An entry comes behind a reset whose life was over: it was delivered before, and when is forgotten."""
    _tell(book, at, delivery, *book.reset[1:])


def _tell(book: SubscriptionState, at: Position, delivery: Delivery, why: str, cause: int) -> str:
    """Count a delivery that is not the first; the id of the entry."""
    delivery.why, delivery.why_frame = why, cause
    name = f"{at[0]}:{at[1]}"
    book.record.again.setdefault(why, Occurrences()).add(delivery.time_ns, delivery.frame, cause, sample=name)
    _count(book, delivery.time_ns)
    return name


def _alone(book: SubscriptionState, delivery: Delivery, left: int) -> bool:
    """Whether all consumers of the subscription came behind that frame."""
    sessions = [member.record.session for member in book.members]
    return all(one is not None and one.ready_frame > left for one in sessions)


def _count(book: SubscriptionState, time_ns: int) -> None:
    second, count = book.second
    now = time_ns // 1_000_000_000
    count = count + 1 if now == second else 1
    book.second = (now, count)
    if count > book.record.redelivered_per_second:
        book.record.redelivered_per_second = count
        book.record.redelivered_peak_ns = now * 1_000_000_000
