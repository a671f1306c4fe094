"""MESSAGE: the lifecycle to which it belongs, the permits that it uses, and the cause of a redelivery.

Rules of this file
1. Entries are read in order. The broker itself acknowledges entries that the dispatcher skips: transaction markers,
   messages of aborted transactions, and unknown entries. It also acknowledges any entry that an Exclusive or Failover
   consumer does not receive, unless the consumer reads only some keys or a compacted topic.
2. If an acknowledged entry is delivered again, the ACK was lost, the cursor was reset, or the broker sent the message
   before it processed the ACK. In the last case the ACK counts, however late the message is captured: output waits for
   a commit or for a client that reads slowly. In the other cases, the broker has closed all consumers of the
   subscription or the connection of the ACK. An ACK therefore counts if consumers are attached since it, and if it
   follows the SUBSCRIBE of the consumer that receives the message. A message without an ack set can also come from a
   broker that ignores ack sets (acknowledgmentAtBatchIndexLevelEnabled, off by default before 4.1): an ACK of a part
   of a batch then counts only if it is captured less than RACE_NS before the message.
3. The broker sent a message with an earlier consumer epoch before it processed the last request for redelivery. It
   sends the entry again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from pcli.codec.observe.observer_state import Facts, ObservedFrame
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Delivery, Lifecycle
from pcli.codec.observe.tracking.subscriptions import permit_ledger
from pcli.codec.observe.tracking.subscriptions.ack_effects import NO_BITS
from pcli.codec.observe.tracking.subscriptions.cursor_positions import earliest
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import SILENCE_NS, check_limit, end_silence
from pcli.codec.observe.tracking.subscriptions.key_order import KeyOrder
from pcli.codec.observe.tracking.subscriptions.message_counting import (
    count_first,
    count_passed_over,
    count_redelivery,
    messages_in,
)
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles, positions
from pcli.codec.observe.tracking.subscriptions.redelivery import (
    ABORTED,
    record_redelivery,
    record_redelivery_after_reset,
    release,
    take_back,
)
from pcli.codec.observe.tracking.subscriptions.segment_order import check_order
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.observe.tracking.subscriptions.transaction_end import end_by_delivery
from pcli.codec.observe.tracking.subscriptions.unseen_publishes import find_unpositioned, new_life
from pcli.codec.wire.bits import left_of, set_of
from pcli.codec.wire.message_id import position

RACE_NS: Final = 100_000_000
"""Maximum time in ns between an ACK of a part of a batch and the capture of a MESSAGE without an ack set that the
broker sent before it processed the ACK."""

_MOST_PASSED_OVER: Final = 10_000
"""Maximum number of entries between two deliveries whose messages are counted."""

_two_lengths = Struct(">II").unpack_from


def deliver(lifecycles: OpenLifecycles, consumer: AttachedConsumer, facts: Facts) -> None:
    """Process a MESSAGE for a consumer."""
    frame, record, subscription = facts.frame, consumer.record, consumer.subscription
    now, number = frame.time_ns, frame.number
    message = frame.body
    message_id, words = message.message_id, message.ack_set
    at, topic, name = position(message_id), subscription.topic, subscription.record.name
    if subscription.unidentified and at[0] in lifecycles.owners:
        topic = lifecycles.move_to_topic(subscription, lifecycles.owners[at[0]])
    persistent = topic.record.persistent
    lifecycle = topic.lifecycles.get(at) if persistent else find_unpositioned(topic, facts)
    if lifecycle is None:
        lifecycle = lifecycles.reopen(topic, at) or new_life(lifecycles, topic, at, message_id.partition, facts)
    past = lifecycle.deliveries.get(name)
    if topic.uncommitted and past is None:
        end_by_delivery(topic, at, now, number)
    messages = size = lifecycle.messages
    if words:
        messages, record.ack_sets = left_of(set_of(words), size), True
    done, acked = subscription.ack_frames.get(at, -1), False
    if done >= 0 or words or subscription.ack_sets or subscription.pending_sets:
        acked = _update_ack_set(consumer, at, lifecycle, words, now)
    _count(consumer, frame, messages, size)
    delivery = Delivery(record, number, now, frame.stream.number, message.redelivery_count, messages)
    if now - subscription.last_ns > SILENCE_NS:
        end_silence(subscription, record, lifecycle, now, number)
    subscription.last_ns = record.last_message_ns = now
    record.last_message_frame = number
    if record.index_acks:
        record.index_acks.pop(at, None)
    _add_delivery(subscription, at, lifecycle, past, delivery)
    if past is None:
        lifecycles.report_dispatch(topic.record, lifecycle, name)
    if message.HasField("consumer_epoch") and message.consumer_epoch < consumer.epoch[0]:
        delivery.taken = ("rewind", consumer.epoch[1])
    elif persistent:
        _add_pending(subscription, at, lifecycle, delivery, facts, done, first=past is None, acked=acked)
        many = lifecycle.chunks
        lifecycle.unacked[name] = (
            sum(one in subscription.pending_acks for one in positions(lifecycle)) if many else delivery.held
        )
    if consumer.ended:
        take_back(subscription, at, delivery, "left", now, number)


def _update_ack_set(
    consumer: AttachedConsumer, at: Position, lifecycle: Lifecycle, words: Sequence[int], now_ns: int
) -> bool:
    """Set the unacknowledged messages of a batch to those in a MESSAGE, without those of later ACKs (rule 2).

    Return whether these ACKs acknowledge the whole entry.
    """
    subscription = consumer.subscription
    known = subscription.ack_sets.pop(at, None)
    subscription.pending_sets.pop(at, None)
    bits = set_of(words) if words else NO_BITS
    past = lifecycle.deliveries.get(subscription.record.name)
    acks, done = past[-1].acks if past else (), subscription.ack_frames.get(at, 0)
    session = consumer.record.session
    since = max(subscription.attached_frame, subscription.reset[0], session.number if session is not None else 0)
    if done > since and not words and all(ack.frame != done for ack in acks):
        return True  # acknowledged before this subscription has received it
    for ack in acks:
        counts = words or not left_of(ack.bits, lifecycle.messages) or now_ns - ack.time_ns < RACE_NS
        if counts and ack.frame > since and ack.kind != "transaction" and not ack.error:
            bits &= ack.bits
    if bits == NO_BITS:
        return False
    if not left_of(bits, lifecycle.messages):
        return True
    cursor = _cursor_set(subscription, at, known, bits) if words and subscription.individual else bits
    if cursor != bits:
        subscription.pending_sets[at] = bits
    if cursor != NO_BITS:
        subscription.ack_sets[at] = cursor
    return False


def _cursor_set(subscription: SubscriptionState, at: Position, known: int | None, bits: int) -> int:
    """Return the ack set of the cursor for a batch whose MESSAGE contains the messages ``bits``.

    Messages that the cursor has not acknowledged are missing in the MESSAGE if they are pending in a transaction, or if
    they were acknowledged before a reset of the cursor: PendingAckHandle keeps them.
    """
    if known is not None and known & bits != bits:
        return bits
    before = NO_BITS if known is None else known
    if subscription.sought:
        return before
    with_pending = bits
    for acks in subscription.transaction_acks.values():
        for one in acks:
            if one.at == at:
                with_pending |= ~one.bits
    return before & with_pending if known is not None or with_pending == NO_BITS else bits


def _count(consumer: AttachedConsumer, frame: ObservedFrame, messages: int, size: int) -> None:
    """Count an entry of ``size`` messages; ``messages`` is the number of unacknowledged messages."""
    record, totals = consumer.record, consumer.subscription.record
    permits, now, number = record.permits, frame.time_ns, frame.number
    permit_ledger.spend(permits, messages, size - messages, now, number)
    parts = frame.parts
    # equal checksums, the usual case, skip the slower check
    if parts.checksum != parts.computed and frame.checksum == "bad":
        permit_ledger.corrupt(permits, messages, now, number)
    record.received += size
    record.received_entries += 1
    whole, command = _two_lengths(frame.data)
    record.bytes_out += whole - command - 4
    totals.delivered += size
    totals.entries_out += 1
    consumer.able_entries_out = totals.entries_out


def _add_delivery(
    subscription: SubscriptionState, at: Position, lifecycle: Lifecycle, past: list[Delivery] | None, delivery: Delivery
) -> None:
    """Add a delivery to the lifecycle; ``past`` contains the earlier deliveries to the subscription, if any."""
    if lifecycle.chunks:
        delivery.chunk = next((chunk for chunk, _, *place in lifecycle.chunks if (*place,) == at), -1)
    if past is None:
        lifecycle.deliveries[subscription.record.name] = [delivery]
        count_first(subscription, lifecycle, delivery)
        return
    earlier = past if not lifecycle.chunks else _earlier_of_chunk(subscription, at, lifecycle, delivery)
    if earlier:
        count_redelivery(subscription, lifecycle, delivery)
        record_redelivery(subscription, at, lifecycle, earlier, delivery)
    else:
        count_first(subscription, lifecycle, delivery)
    past.append(delivery)


def _earlier_of_chunk(
    subscription: SubscriptionState, at: Position, lifecycle: Lifecycle, delivery: Delivery
) -> list[Delivery]:
    """Return the earlier deliveries of the same entry. A resend stores a chunk a second time, as another entry."""
    pending = subscription.pending_acks.get(at)
    if pending is not None:
        return [pending]
    earlier = [one for one in lifecycle.deliveries[subscription.record.name] if one.chunk == delivery.chunk]
    entries = sum(chunk == delivery.chunk for chunk, *_ in lifecycle.chunks)
    return earlier if len(earlier) >= entries else []


def _add_pending(
    subscription: SubscriptionState,
    at: Position,
    lifecycle: Lifecycle,
    delivery: Delivery,
    facts: Facts,
    done: int,
    *,
    first: bool,
    acked: bool,
) -> None:
    """Add the entry to the pending acks of the subscription, unless earlier ACKs acknowledge it; see `_is_done`."""
    pending = subscription.pending_acks
    before = pending.get(at)
    if before is not None:
        if before.taken[0] in ABORTED:
            before.held = 0
        release(subscription, before)
        before.taken = before.taken if before.taken[0] else ("twice", 0)
    elif _is_done(subscription, at, lifecycle, delivery, done, first=first, acked=acked):
        return
    else:
        if at < subscription.newest and pending:
            subscription.sorted = False
        subscription.newest = at
    if at < subscription.lowest:
        subscription.lowest = at
    pending[at] = delivery
    messages = delivery.messages
    if subscription.pending_sets or subscription.ack_sets:
        bits = subscription.pending_sets.get(at, subscription.ack_sets.get(at))
        messages = messages if bits is None else left_of(bits, lifecycle.messages)
    delivery.held = messages
    if subscription.individual:
        delivery.consumer.unacked += messages
        if delivery.consumer.blocked_at:
            check_limit(subscription, delivery.consumer)
        subscription.record.unacked += messages
        if lifecycle.key and subscription.record.type == "Key_Shared":
            _add_to_key(subscription, at, lifecycle, delivery, facts, first=first)
    if first and lifecycle.key and subscription.topic.record.segment is not None:
        check_order(subscription, subscription.topic.record.segment, at, lifecycle.key, delivery)
    _advance_read_position(subscription, at, delivery)


def _is_done(
    subscription: SubscriptionState,
    at: Position,
    lifecycle: Lifecycle,
    delivery: Delivery,
    done: int,
    *,
    first: bool,
    acked: bool,
) -> bool:
    """Process earlier ACKs of an entry that no consumer holds; return whether they acknowledge the whole entry.

    ``done`` is the frame of the last of these ACKs: 0 if unknown, -1 if there is none. ``acked`` is whether later ACKs
    acknowledge it (rule 2).
    """
    if done >= 0:
        del subscription.ack_frames[at]
    else:
        done = 0
    if first and not lifecycle.sent_frame:
        after_reset = subscription.lowest <= at <= subscription.highest and done <= subscription.reset[0]
        if after_reset:
            record_redelivery_after_reset(subscription, at, lifecycle, delivery)
        if after_reset or done:
            count_redelivery(subscription, lifecycle, delivery, counted_first=True)
    if done or subscription.is_acked(at):
        if acked:
            subscription.note_done(at, done)
            return True
        _undo_ack(subscription, at, lifecycle, delivery, done)
    return False


def _add_to_key(
    subscription: SubscriptionState,
    at: Position,
    lifecycle: Lifecycle,
    delivery: Delivery,
    facts: Facts,
    *,
    first: bool,
) -> None:
    """Add an entry to its key, and to the other keys of a batch."""
    if subscription.keys is None:
        subscription.keys = KeyOrder(subscription.record)
    subscription.record.hash_waits.end(delivery.time_ns, delivery.frame)
    if first:
        subscription.keys.waited(lifecycle, delivery)
    subscription.keys.delivered(lifecycle.key, at, delivery, facts.frame, first=first)
    if first and lifecycle.batch and facts.opened is not None:
        subscription.keys.batch_delivered(facts.opened.messages, delivery)


def _advance_read_position(subscription: SubscriptionState, at: Position, delivery: Delivery) -> None:
    """Advance the read position, and acknowledge the entries that the dispatcher has skipped."""
    if subscription.mark_delete is None:
        if subscription.selective:
            subscription.read_position = max(subscription.read_position, at)
            return
        oldest = _oldest(subscription, at)
        subscription.starts_at_next = False
        subscription.mark_delete = subscription.read_position = (oldest[0], oldest[1] - 1)
        subscription.advance()
    elif at <= subscription.read_position:
        return
    read, mark = subscription.read_position, subscription.mark_delete
    if read < mark:
        read = mark
    topic = subscription.topic
    gap = (at[1] != read[1] + 1 or at[0] != read[0]) and at[0] in topic.ledgers
    if gap and not subscription.individual and not subscription.selective and mark >= subscription.read_position:
        # no consumer holds any of these entries, and all of them are skipped
        passed_over = topic.count(read, at)
        if passed_over <= _MOST_PASSED_OVER and topic.budget.take(passed_over):
            for place in topic.between(read, at):
                count_passed_over(subscription, place, delivery)
        subscription.move((at[0], at[1] - 1))
        gap = False
    ahead = subscription.ahead(at) if gap else ()
    subscription.read_position = at
    if ahead:
        _pass_over(subscription, ahead, delivery)
    subscription.rewound = False


def _pass_over(subscription: SubscriptionState, ahead: Iterable[Position], delivery: Delivery) -> None:
    """Acknowledge the entries before a delivery that the dispatcher has skipped."""
    in_order = not subscription.individual or (subscription.rewound and subscription.in_order)
    everything = in_order and not subscription.selective
    for place in ahead:
        lifecycle, again = subscription.topic.lifecycles.get(place), place <= subscription.rewound_from
        if lifecycle is not None and subscription.individual and not again and _may_wait(lifecycle):
            continue
        known = subscription.pending_acks.get(place)
        if everything or (known is None and (again or subscription.skips(place))):
            if known is not None and not known.held:
                del subscription.pending_acks[place]
            if not subscription.is_acked(place):
                count_passed_over(subscription, place, delivery)
            subscription.ack(place)


def _oldest(subscription: SubscriptionState, at: Position) -> Position:
    """Return the position of the oldest unacknowledged entry if this delivery is the first.

    A Key_Shared subscription may deliver it before older entries for other consumers.
    """
    if not subscription.individual:
        return at
    since = subscription.since_ns
    if not subscription.in_order and any(one.record.initial_position == "Earliest" for one in subscription.attached):
        begin = earliest(subscription.topic)
        if begin is not None:
            return (begin[0], 0)
        since = -1
    lifecycles = subscription.topic.lifecycles.items()
    older = [(place, lifecycle) for place, lifecycle in lifecycles if place < at and lifecycle.receipt_ns >= since]
    return min((place for place, lifecycle in older if not subscription.in_order or _may_wait(lifecycle)), default=at)


def _may_wait(lifecycle: Lifecycle) -> bool:
    """Return whether Shared consumers may receive later entries first, because the entry is delayed or is a chunk.

    A chunk is delivered to the consumer that has the first chunk, or to no consumer (SharedConsumerAssignor).
    """
    return bool(lifecycle.deliver_at_ms or lifecycle.uuid)


def _undo_ack(
    subscription: SubscriptionState, at: Position, lifecycle: Lifecycle, delivery: Delivery, frame: int
) -> None:
    """Undo the acknowledgement of a redelivered entry (rule 2); ``frame`` is the frame of the ACK, or 0 if unknown."""
    past = lifecycle.deliveries[subscription.record.name]
    if at in subscription.acked:
        subscription.acked.discard(at)
    elif subscription.mark_delete is not None and at <= subscription.mark_delete:
        subscription.rewound_from = max(subscription.rewound_from, subscription.mark_delete)
        subscription.mark_delete = subscription.read_position = (at[0], at[1] - 1)
    if frame and delivery.why not in ("", "seek", "reset"):
        acknowledged_by = past[-2].consumer if len(past) > 1 else delivery.consumer
        back = acknowledged_by.acked_but_back.setdefault(delivery.why, Occurrences())
        messages = messages_in(lifecycle, delivery)
        back.add(delivery.time_ns, frame, delivery.frame, sample=f"{at[0]}:{at[1]}", count=messages)
