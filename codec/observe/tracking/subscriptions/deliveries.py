"""A MESSAGE: whose life it belongs to, what it costs, and why it came again.

Rules of this file
1. Entries are read in order. What the dispatcher has passed over without a delivery is acknowledged by the broker
   itself when it is a transaction's marker, a message of an aborted transaction, or nothing that was ever seen; so is
   what an Exclusive or Failover consumer is not given, unless it reads only some keys or a compacted topic.
2. An entry that comes although it was acknowledged is not acknowledged to the broker: the ack was lost, or too late, or
   somebody set the cursor back. Only an ack seen within RACE of the delivery was on its way, and counts.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.observe.observer_state import Facts, ObservedFrame
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.subscriptions import permit_ledger
from pcli.codec.observe.tracking.subscriptions.cursor_positions import earliest
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import SILENCE_NS, heard
from pcli.codec.observe.tracking.subscriptions.key_order import KeyOrder
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles, positions
from pcli.codec.observe.tracking.subscriptions.redelivery import came_again, let_go, set_back, take_back
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.observe.tracking.subscriptions.unseen_publishes import loose, new_life
from pcli.codec.wire.bits import left_of, set_of

__all__ = ["RACE_NS", "deliver"]

RACE_NS: Final = 5_000_000
"""How long an ack may be on its way through the broker while it delivers the same entry."""

_two_lengths = Struct(">II").unpack_from


def deliver(shelf: OpenLifecycles, member: AttachedConsumer, facts: Facts) -> None:
    """Take in a MESSAGE for a consumer."""
    frame, record, book = facts.frame, member.record, member.book
    now, number = frame.time_ns, frame.number
    hot, words = facts.hot, None
    if hot is not None:
        _, place, entry, partition, redeliveries = hot
    else:
        place, entry, partition, redeliveries, words = _slow(facts)
    at = (place, entry)
    topic = book.topic
    if book.stranger and place in shelf.owners:
        topic = shelf.adopt(book, shelf.owners[place])
    life = topic.lives.get(at) if topic.record.persistent else loose(topic, facts)
    if life is None:
        life = new_life(shelf, topic, at, partition, facts)
    messages = size = life.messages
    if words:
        bits = set_of(words)
        messages = left_of(bits, size)
        book.sets[at] = bits
    elif book.sets:
        book.sets.pop(at, None)
    _count(member, frame, messages, size)
    delivery = Delivery(record, number, now, frame.stream.number, max(redeliveries, 0), messages)
    if now - book.last_ns > SILENCE_NS:
        heard(book, record, life, now, number)
    book.last_ns = record.last_message_ns = now
    record.last_message_frame = number
    first = _enter(book, at, life, delivery)
    if topic.record.persistent:
        _hold(book, at, life, delivery, frame, first=first)
        many = life.chunks
        life.unacked[book.record.name] = sum(one in book.open for one in positions(life)) if many else messages
    if member.ended:
        take_back(book, at, delivery, "left", now, number)


def _count(member: AttachedConsumer, frame: ObservedFrame, messages: int, size: int) -> None:
    """An entry of ``size`` messages went to a consumer, of which ``messages`` were not acknowledged yet."""
    record, subscription = member.record, member.book.record
    permits, now, number = record.permits, frame.time_ns, frame.number
    if messages > 1 and messages > permits.balance:
        _starves(member.book, record, now, number)
    permit_ledger.spend(permits, messages, size - messages, now, number)
    parts = frame.parts
    # The same value twice is most of the traffic; only else it is worth asking what is wrong.
    if parts.checksum != parts.computed and frame.checksum == "bad":
        permit_ledger.corrupt(permits, messages, now, number)
    record.received += size
    record.received_entries += 1
    whole, command = _two_lengths(frame.data)
    record.bytes_out += whole - command - 4
    subscription.delivered += size
    subscription.entries_out += 1
    member.turn = subscription.entries_out


def _enter(book: SubscriptionState, at: Position, life: Lifecycle, delivery: Delivery) -> bool:
    """Write the delivery into the life; whether it is the first to the subscription."""
    if life.chunks:
        delivery.chunk = next((chunk for chunk, _, *place in life.chunks if (*place,) == at), -1)
    past = life.deliveries.get(book.record.name)
    if past is None:
        life.deliveries[book.record.name] = [delivery]
        return True
    earlier = past if not life.chunks else [one for one in past if one.chunk == delivery.chunk]
    if earlier:
        came_again(book, at, life, earlier, delivery)
    past.append(delivery)
    return False


def _starves(book: SubscriptionState, record: ConsumerRecord, now: int, number: int) -> None:
    """A batch is larger than the permits of its consumer; see whether another one could have had some of it."""
    others = (member.record for member in book.members if member.record is not record)
    if book.record.type == "Shared" and any(
        one.permits.balance > 0 and one.priority <= record.priority for one in others
    ):
        book.record.large_batches.add(now, number)


def _hold(
    book: SubscriptionState, at: Position, life: Lifecycle, delivery: Delivery, frame: ObservedFrame, *, first: bool
) -> None:
    """The entry is with a consumer of the subscription."""
    before = book.open.get(at)
    if before is not None:
        let_go(book, before)
        before.taken = before.taken if before.taken[0] else ("twice", 0)
    elif book.open and book.sorted and at < next(reversed(book.open)):
        book.sorted = False
    if before is None:
        done = book.done.pop(at, 0)
        if done or book.is_acked(at):
            _undo(book, at, life, delivery, done)
        if at <= book.highest and first and not life.sent_frame and at >= book.lowest and done <= book.reset[0]:
            set_back(book, at, delivery)
    if at < book.lowest:
        book.lowest = at
    book.open[at] = delivery
    delivery.held = messages = delivery.messages
    if book.individual:
        delivery.consumer.unacked += messages
        book.record.unacked += messages
        if life.key and book.record.type == "Key_Shared":
            if book.keys is None:
                book.keys = KeyOrder(book.record)
            book.record.hash_waits.end(delivery.time_ns, delivery.frame)
            if first:
                book.keys.waited(life, delivery)
            book.keys.delivered(life.key, at, delivery, frame, first=first)
    _pass(book, at)


def _pass(book: SubscriptionState, at: Position) -> None:
    """The dispatcher has read up to there; see what it has left out on its way."""
    if book.mark is None:
        if book.picky:
            book.read = max(book.read, at)
            return
        oldest = _oldest(book, at)
        book.mark = book.read = (oldest[0], oldest[1] - 1)
        book.advance()
    elif at <= book.read:
        return
    read = book.read if book.read > book.mark else book.mark
    topic = book.topic
    gap = at[0] in topic.ledgers and (at[0] != read[0] or at[1] != read[1] + 1)
    if gap and not book.individual and not book.picky and book.mark >= book.read:
        # Nobody holds anything, and all of it is passed over.
        book.move((at[0], at[1] - 1))
        gap = False
    ahead = book.ahead(at) if gap else ()
    book.read = at
    if ahead:
        everything = (not book.individual or (book.rewound and book.in_order)) and not book.picky
        for place in ahead:
            life = topic.lives.get(place)
            if life is not None and book.individual and place > book.redo and _may_wait(life):
                continue
            known = book.open.get(place)
            if everything or (known is None and (place <= book.redo or book.skips(place))):
                if known is not None and not known.held:
                    del book.open[place]
                book.ack(place)
    book.rewound = False


def _oldest(book: SubscriptionState, at: Position) -> Position:
    """The oldest unacknowledged entry, when this one comes first: it, but where others may have been passed over.

    Consumers of a Key_Shared subscription with permits get theirs while older ones of others wait.
    """
    if not book.individual:
        return at
    since = book.since_ns
    if not book.in_order and any(one.record.initial_position == "Earliest" for one in book.members):
        begin = earliest(book.topic)
        if begin is not None:
            return (begin[0], 0)
        since = -1
    lives = book.topic.lives.items()
    older = [(place, life) for place, life in lives if place < at and life.receipt_ns >= since]
    return min((place for place, life in older if not book.in_order or _may_wait(life)), default=at)


def _may_wait(life: Lifecycle) -> bool:
    """Whether Shared consumers may be given later entries first: it is delayed, or a chunk.

    A chunk goes to the consumer that has the first one, and to nobody when that is missing (SharedConsumerAssignor).
    """
    return bool(life.deliver_at_ms or life.uuid)


def _undo(book: SubscriptionState, at: Position, life: Lifecycle, delivery: Delivery, frame: int) -> None:
    """It was acknowledged, as far as was seen, and comes all the same (rule 2); ``frame``: in which, 0: not known."""
    past = life.deliveries[book.record.name]
    acks = past[-2].acks if len(past) > 1 else ()
    if acks and delivery.time_ns - acks[-1].time_ns < RACE_NS:
        book.note_done(at, frame)
        return
    if at in book.acked:
        book.acked.discard(at)
    elif book.mark is not None and at <= book.mark:
        book.redo = max(book.redo, book.mark)
        book.mark = book.read = (at[0], at[1] - 1)
    if frame > book.reset[0]:
        delivery.consumer.acked_but_back.add(delivery.time_ns, frame, delivery.frame, sample=f"{at[0]}:{at[1]}")


def _slow(facts: Facts) -> tuple[int, int, int, int, list[int] | None]:
    values = facts.command
    read = values.get
    return (
        read("pulsar.message.message_id.ledgerId", -1),
        read("pulsar.message.message_id.entryId", -1),
        read("pulsar.message.message_id.partition", -1),
        read("pulsar.message.redelivery_count", 0),
        read("pulsar.message.ack_set"),
    )
