"""Why nothing comes: a consumer with permits that gets none of the entries that it could get.

Rules of this file
1. Silence is noticed when it ends, with the next MESSAGE, or when somebody looks; nothing is done per frame. It counts
   from SILENCE on, which is longer than the steps of a rate limit of one second.
2. An entry could be got since it was stored, its time has come (delayed messages on Shared and Key_Shared), the
   consumer had permits, and the subscription was served last. Messages of open transactions, and those behind them,
   can't be got.
3. A consumer that holds unacknowledged messages and gets nothing is taken to be blocked on them, since no frame says
   so; one that waits for a key which another holds is not. Of a Key_Shared message only the consumer is taken to be
   meant that was given its key last, or asked for its slot; of a chunk nobody is. The number that it holds then is the
   limit, as far as can be seen. A Shared consumer with permits is blocked, too, when others are given one entry after
   the other.
4. A consumer of less priority gets nothing as long as one of more has permits; one that is not active gets nothing.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.subscriptions.key_order import slot_of_key
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position

__all__ = ["QUIET_NS", "ROUNDS", "SILENCE_NS", "able", "caught_up", "heard", "look", "may_be_blocked", "waiting"]

SILENCE_NS: Final = 3_000_000_000
"""A consumer that gets nothing for less is not silent."""

QUIET_NS: Final = 1_500_000_000
"""How long a broker needs at most until it delivers to a new consumer: the delay of Failover (one second) and half."""

ROUNDS: Final = 40
"""Entries that others get before it is no chance: twice dispatcherMaxRoundRobinBatchSize."""

_MAX_STEPS: Final = 20_000
_END: Final = (1 << 64, 0)
"""Behind all positions."""


def heard(book: SubscriptionState, record: ConsumerRecord, life: Lifecycle, now_ns: int, frame: int) -> None:
    """A MESSAGE comes after a silence of its subscription; see whether it could have come earlier."""
    if record.blocked.since_ns >= 0:
        record.blocked.end(now_ns, frame)
        return
    since = max(_available(book, life), record.permits.able_ns, book.last_ns, record.last_ack_ns, record.active_ns)
    if life.receipt_ns < 0 or life.txn is not None or book.record.name in life.deliveries:
        return
    if not _is_for(book, record, life):
        return
    if now_ns - since > SILENCE_NS:
        record.silent.end(now_ns, frame)
        record.silent.begin(since, life.receipt_frame)
        record.silent.end(now_ns, frame)


def look(book: SubscriptionState, now_ns: int) -> None:
    """See how the subscription stands, when nothing comes."""
    members = [member for member in book.members if able(member)]
    if not members:
        return
    if book.mark is None and book.record.key_shared_mode != "STICKY" and len(members) == len(book.members):
        _settle_down(book, members, now_ns)
    for member in members:
        _passed_over(member)
    found = waiting(book, now_ns)
    if found is None:
        caught_up(book)
        return
    _, life = found
    if _wait_for_key(book, life):
        return
    for member in members:
        record = member.record
        since = max(_available(book, life), record.permits.able_ns, book.last_ns, record.last_ack_ns)
        if _is_for(book, record, life) and now_ns - since > SILENCE_NS:
            if book.individual and record.unacked > 0:
                _block(record)
            else:
                record.silent.begin(since, life.receipt_frame)


def may_be_blocked(member: AttachedConsumer, now_ns: int) -> None:
    """An ACK or REDELIVER comes; see whether the consumer was blocked until now."""
    record, book = member.record, member.book
    _passed_over(member)
    if now_ns - book.last_ns < QUIET_NS or not record.unacked or record.blocked.since_ns >= 0 or not able(member):
        return
    found = waiting(book, now_ns)
    if found is None or now_ns - _available(book, found[1]) < QUIET_NS or _wait_for_key(book, found[1]):
        return
    if _is_for(book, record, found[1]):
        _block(record)


def _block(record: ConsumerRecord) -> None:
    record.blocked.begin(record.last_message_ns, record.last_message_frame)
    record.blocked_at = max(record.blocked_at, record.unacked)


def _is_for(book: SubscriptionState, record: ConsumerRecord, life: Lifecycle) -> bool:
    """Whether a message that waits is for this consumer, for all that is known."""
    if book.individual and life.uuid:
        return False  # a chunk is for the consumer that got the first one, when anybody did
    if record.type != "Key_Shared":
        return True
    keys = book.keys
    if record.key_ranges:
        slot = slot_of_key(life.key) if keys is None else keys.slot(life.key)
        return bool(life.key) and any(low <= slot <= high for low, high in record.key_ranges)
    return len(book.members) == 1 or (keys is not None and keys.owner(life.key) is record)


def _wait_for_key(book: SubscriptionState, life: Lifecycle) -> bool:
    """Whether a message waits for a consumer that holds earlier ones of its key, but could get it itself."""
    holder = book.keys.holder(life.key) if book.keys is not None else None
    if holder is None or holder.permits.balance <= 0 or holder.blocked.since_ns >= 0:
        return False
    if all(member.record is holder for member in book.members):
        return False
    book.record.hash_waits.begin(max(_available(book, life), book.last_ns), life.receipt_frame)
    if not book.record.hash_waits.longest_ns:
        book.record.hash_holder = f"{holder.name} holds {life.key}"
    return True


def _passed_over(member: AttachedConsumer) -> None:
    """See whether others of a Shared subscription got all, for several rounds, though this one had permits."""
    record, book = member.record, member.book
    if record.type != "Shared" or not record.unacked or book.record.entries_out - member.turn < ROUNDS:
        return
    permits = record.permits
    if permits.balance > permits.unspent and able(member):
        _block(record)


def able(member: AttachedConsumer) -> bool:
    """Whether a consumer may be given something, for all that is known."""
    record, book = member.record, member.book
    if record.permits.balance <= 0 or record.active is False:
        return False
    better = (one.record for one in book.members if one.record.priority < record.priority)
    return not any(one.permits.balance > 0 for one in better)


def waiting(book: SubscriptionState, now_ns: int) -> tuple[Position, Lifecycle] | None:
    """The first entry that the subscription could be given now; None: there is none that is known."""
    topic = book.topic
    for at, delivery in book.open.items():
        if not delivery.held and at in topic.lives and not book.is_acked(at):
            return at, topic.lives[at]
    if book.mark is None or topic.last <= book.read:
        return None
    barrier = topic.barrier
    place = topic.following(max(book.read, book.mark))
    for _ in range(_MAX_STEPS):
        if place is None or (barrier is not None and place >= barrier):
            return None
        life = topic.lives.get(place)
        if life is not None and place not in topic.aborted and place not in book.open and not book.is_acked(place):
            due = not book.individual or life.deliver_at_ms * 1_000_000 <= now_ns
            if due:
                return None if book.picky else (place, life)
        place = topic.following(place)
    return None


def caught_up(book: SubscriptionState) -> None:
    """The dispatcher has read all: what was no message is acknowledged by the broker itself."""
    topic = book.topic
    if book.mark is None or topic.last <= book.read:
        return
    for at in book.ahead(topic.barrier or _END):
        if book.skips(at):
            book.ack(at)


def _settle_down(book: SubscriptionState, members: list[AttachedConsumer], now_ns: int) -> None:
    """A consumer with permits gets nothing: there is nothing for its subscription.

    Of a Failover consumer that is so only when it was told to be the active one.
    """
    if not any(member.record.type != "Failover" or member.record.active for member in members):
        return
    newest = book.topic.lives.get(book.topic.last)
    stored = newest.receipt_ns if newest is not None else -1
    since = [max(member.record.permits.able_ns, book.last_ns, stored) for member in members]
    if book.topic.last[0] >= 0 and now_ns - min(since) > QUIET_NS:
        book.mark = book.read = book.topic.last
        book.advance()


def _available(book: SubscriptionState, life: Lifecycle) -> int:
    """Since when the broker may deliver it, ns."""
    since = max(life.receipt_ns if life.receipt_ns >= 0 else life.sent_ns, book.freed_ns)
    return max(since, life.deliver_at_ms * 1_000_000) if book.individual else since
