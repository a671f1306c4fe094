"""Effects of one ACK on a subscription: individual, cumulative, part of a batch, or in a transaction.

Rules of this file (broker: ServerCnx.handleAck, Consumer.messageAcked, PersistentSubscription)
1. An ACK applies to the consumer that holds the entry, which may not be the consumer that sent the ACK.
2. A cumulative ACK has no effect on Shared and Key_Shared subscriptions.
3. The set bits of an ack set are the messages that remain unacknowledged. The ack sets of several ACKs are combined; if
   no bit remains, the entry is acknowledged. The setting acknowledgmentAtBatchIndexLevelEnabled, the default since 4.1,
   enables this.
4. If an id does not exist, the ids before it take effect, and the ids after it have no effect.
5. A part of a batch reduces the unacknowledged messages of the consumer by the number of messages that the ack set of
   the cursor loses; without one, by the number of messages that the consumer holds and the ACK does not contain
   (Consumer.getAckedCountForBatchIndexLevelEnabled). If the pending acks have a different set (`pending_sets`), it
   determines when the consumer holds no message any more. Messages that count too much then remain counted until the
   consumer leaves (verified on 4.2.4).
6. On Shared and Key_Shared subscriptions, an ACK in a transaction reduces the unacknowledged messages when it arrives,
   even if it is a conflict (Consumer.individualAckWithTransaction; verified on 4.2.4). The commit does not reduce them
   again. A broker without transactions refuses the ACK first.
7. PendingAckHandle also records the messages of batches that an open transaction acknowledges (`pending_sets`). If
   they overlap messages that it has recorded before, the ACK is a conflict and changes nothing there. After a conflict
   the broker removes its pending acks of all batches in the ACK that PendingAckHandle does not contain (verified on
   4.2.4).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pcli.codec.observe.tracking.records.lifecycle import Ack, Delivery, Lifecycle
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OnLatency
from pcli.codec.observe.tracking.subscriptions.redelivery import release_messages, remove_pending_ack
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.wire.bits import left_of

NO_BITS: Final = -1
"""Value for a whole entry, instead of an ack set."""

Id = tuple[Position, int]
"""A position, and the unacknowledged messages in the batch at this position, as bits."""


class TransactionAck(NamedTuple):
    """An id that was acknowledged in an open transaction."""

    at: Position
    bits: int
    """The unacknowledged messages in the batch; NO_BITS for a whole entry."""
    cumulative: bool
    ack: Ack
    consumer: AttachedConsumer
    """The consumer that sent the ACK."""
    messages: int
    """Messages that the ACK acknowledges."""
    released: int
    """Messages that stopped counting as unacknowledged when the ACK arrived."""
    before: int | None
    """The set of the entry in `pending_sets` before the ACK, if there was one."""


_MAX_REDELIVERIES: Final = 16
"""Maximum number of deliveries of an entry whose ACKs are counted; the time for more would be quadratic."""


class AckEffects:
    """The effects of one ACK on a subscription."""

    __slots__ = (
        "acknowledged",
        "acks",
        "age",
        "entries",
        "frame",
        "latest",
        "messages",
        "now",
        "oldest",
        "on_latency",
        "recorded_ack",
        "repeated",
        "subscription",
    )  # fmt: skip

    def __init__(self, subscription: SubscriptionState, frame: int, now: int, on_latency: OnLatency | None) -> None:
        self.subscription = subscription
        self.on_latency = on_latency
        self.frame = frame
        self.now = now
        self.acks: list[Ack] = []
        self.acknowledged: list[Position] = []
        self.entries = self.messages = self.age = self.oldest = 0
        self.latest = 0
        """The latest delivery that was acknowledged, as a frame number."""
        self.repeated = 0
        """Entries that were already acknowledged and had been redelivered after a request that may
        be an ack timeout."""
        self.recorded_ack: Ack | None = None
        """The Ack recorded when the ACK was sent, if the ACK belongs to a transaction."""

    def individual(self, ids: list[Id]) -> None:
        """Acknowledge single ids."""
        subscription = self.subscription
        last = subscription.topic.last
        for at, bits in ids:
            if at > last and at not in subscription.pending_acks and subscription.mark_delete is not None:
                return
            self.one(at, bits)

    def one(self, at: Position, bits: int) -> None:
        """Acknowledge one id."""
        if bits == NO_BITS:
            self._whole(at, "individual")
        else:
            self._part(at, bits, "batch")

    def cumulative(self, at: Position, bits: int) -> None:
        """Acknowledge all entries up to a position."""
        subscription = self.subscription
        if subscription.mark_delete is not None and at <= subscription.mark_delete:
            return
        if subscription.pending_acks:
            passed = []
            for place in subscription.pending_acks:
                if place < at or (place == at and bits == NO_BITS):
                    passed.append(place)
                elif subscription.sorted:
                    break
            for place in passed:
                self._whole(place, "cumulative")
        if bits == NO_BITS:
            subscription.move(at)
            self.acknowledged.append(at)
        else:
            subscription.move((at[0], at[1] - 1))
            self._part(at, bits, "cumulative")
        if at > subscription.read_position:
            subscription.read_position = at

    def in_transaction(
        self, txn: tuple[int, int], consumer: AttachedConsumer, ids: list[Id], *, cumulative: bool
    ) -> None:
        """Record ids that a commit of the transaction will acknowledge."""
        subscription = self.subscription
        transaction_acks = subscription.transaction_acks.setdefault(txn, [])
        for at, bits in ids:
            ack = Ack(self.frame, self.now, "transaction", effective=False)
            self.acks.append(ack)
            lifecycle, messages = subscription.topic.lifecycles.get(at), 1
            if lifecycle is not None:
                deliveries = lifecycle.deliveries.get(subscription.record.name)
                if deliveries:
                    deliveries[-1].acks += (ack,)
                messages = (
                    lifecycle.messages if bits == NO_BITS else lifecycle.messages - left_of(bits, lifecycle.messages)
                )
            counts = subscription.individual and not cumulative
            released = self._release_in_transaction(at, bits, messages) if counts else 0
            before = subscription.pending_sets.get(at)
            if counts and bits != NO_BITS:
                self._record_in_transaction(at, bits)
            transaction_acks.append(TransactionAck(at, bits, cumulative, ack, consumer, messages, released, before))

    def _release_in_transaction(self, at: Position, bits: int, messages: int) -> int:
        """Reduce the unacknowledged messages of the consumer that holds an entry (rule 6); return by how many."""
        subscription = self.subscription
        delivery = subscription.pending_acks.get(at)
        if delivery is None:
            return 0
        released = messages if bits != NO_BITS else delivery.held
        release_messages(subscription, delivery, released)
        if bits == NO_BITS and subscription.keys is not None:
            subscription.keys.released(subscription.topic.lifecycles.get(at), delivery, self.now, self.frame)
        return released

    def _record_in_transaction(self, at: Position, bits: int) -> None:
        """Remove messages from the pending set of a batch (rule 7)."""
        subscription = self.subscription
        delivery, lifecycle = subscription.pending_acks.get(at), subscription.topic.lifecycles.get(at)
        if delivery is None or lifecycle is None:
            return
        pending = subscription.pending_sets.get(at, subscription.ack_sets.get(at, NO_BITS))
        if pending == NO_BITS or left_of(pending | bits, lifecycle.messages) == lifecycle.messages:
            subscription.pending_sets[at] = pending
            self._reduce_pending_set(at, delivery, bits)

    def _reduce_pending_set(self, at: Position, delivery: Delivery, bits: int) -> None:
        """Remove messages from the pending set of a batch, and the pending ack if no message is left."""
        subscription = self.subscription
        subscription.pending_sets[at] &= bits
        if not subscription.pending_sets[at]:
            remove_pending_ack(subscription, at, delivery, self.now, self.frame)

    def _whole(self, at: Position, kind: str, bits: int = 0) -> None:
        subscription = self.subscription
        lifecycle = subscription.topic.lifecycles.get(at)
        delivery = subscription.pending_acks.pop(at, None)
        if subscription.pending_sets:
            subscription.pending_sets.pop(at, None)
        known, left = subscription.is_acked(at), 0
        self._note(lifecycle, kind, 0, delivery, bits, effective=not known)
        if delivery is not None:
            left = delivery.held
            release_messages(subscription, delivery, left)
            if subscription.keys is not None and (left or self.recorded_ack is None):
                subscription.keys.released(lifecycle, delivery, self.now, self.frame)
        if known:
            self.repeated += self._was_requested(at)
        else:
            self.messages += left
            subscription.ack(at)
            subscription.note_done(at, self.frame)
            self.acknowledged.append(at)

    def _was_requested(self, at: Position) -> bool:
        topic = self.subscription.topic
        lifecycle = topic.lifecycles.get(at) or topic.complete.get(at)
        deliveries = lifecycle.deliveries.get(self.subscription.record.name) if lifecycle is not None else None
        return bool(deliveries and deliveries[-1].why in ("requested", "ack_timeout"))

    def _part(self, at: Position, bits: int, kind: str) -> None:
        subscription = self.subscription
        delivery, lifecycle = subscription.pending_acks.get(at), subscription.topic.lifecycles.get(at)
        messages = lifecycle.messages if lifecycle is not None else delivery.messages if delivery is not None else 1
        old = subscription.ack_sets.get(at)
        new = bits if old is None else old & bits
        left, known = left_of(new, messages), subscription.is_acked(at)
        cleared = 0 if known else (messages if old is None else left_of(old, messages)) - left
        if not left and at not in subscription.pending_sets:
            self._whole(at, kind, bits)
            return
        if not known and delivery is not None and self.recorded_ack is None:
            self._count_part(at, delivery, bits, (delivery.held if old is None else left_of(old, messages)) - left)
        if not left:
            self.messages += cleared
            self._whole(at, kind, bits)
            return
        if known:
            self._note(lifecycle, kind, 0, delivery, bits, effective=False)
            return
        subscription.ack_sets[at] = new
        self.messages += cleared
        self._note(lifecycle, kind, left, delivery, bits, effective=True)

    def _count_part(self, at: Position, delivery: Delivery, bits: int, messages: int) -> None:
        """Reduce the messages that the consumer of a batch holds (rule 5)."""
        subscription = self.subscription
        pending = subscription.pending_sets.get(at)
        if messages > 0 and (delivery.held or pending is not None):
            release_messages(subscription, delivery, messages if pending is not None else min(messages, delivery.held))
        if pending is not None:
            self._reduce_pending_set(at, delivery, bits)

    def _note(
        self,
        lifecycle: Lifecycle | None,
        kind: str,
        left: int,
        delivery: Delivery | None,
        bits: int,
        *,
        effective: bool,
    ) -> None:
        """Add the ACK to the lifecycle of an entry and to its delivery."""
        name = self.subscription.record.name
        past = lifecycle.deliveries.get(name) if lifecycle is not None else None
        if delivery is None:
            if not past:
                return
            delivery = past[-1]
        processed = delivery if past is None or len(past) < 2 else _processed(past, delivery)
        if processed.frame > self.latest:
            self.latest = processed.frame
        if self.recorded_ack is None:
            ack = Ack(self.frame, self.now, kind, left, bits, effective=effective)
            delivery.acks += (ack,)
            self.acks.append(ack)
        if lifecycle is not None and name in lifecycle.unacked:
            lifecycle.unacked[name] = left if not lifecycle.chunks else lifecycle.unacked[name] - 1
        if effective and not left:
            self.entries += 1
            age = self.now - delivery.time_ns
            self.age += age
            if self.on_latency is not None:
                topic = self.subscription.topic.record
                self.on_latency("acknowledge", lifecycle, topic, name, max(0, age))
            if age > self.oldest:
                self.oldest = age


def _processed(past: list[Delivery], delivery: Delivery) -> Delivery:
    """Return the delivery that an application has processed when it acknowledges an entry with several deliveries.

    The first ACK belongs to the first delivery, even if the entry was redelivered in the meantime.
    """
    if len(past) > _MAX_REDELIVERIES:
        return delivery
    acks = sum(len(one.acks) for one in past)
    return past[acks] if acks < len(past) else delivery
