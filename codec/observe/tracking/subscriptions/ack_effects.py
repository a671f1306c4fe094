"""What one ACK settles: one by one, up to a position, bits of a batch, or later, when its transaction commits.

Rules of this file (broker: ServerCnx.handleAck, Consumer.messageAcked, PersistentSubscription)
1. An ack counts for whichever consumer of the subscription holds the entry, not for the one that sent it.
2. A cumulative ack needs a subscription that is not Shared or Key_Shared; else it does nothing.
3. An ack with a bit set leaves the bits that are set; the sets of several acks are combined, and an empty one
   acknowledges the entry. That is so with acknowledgmentAtBatchIndexLevelEnabled, the default since 4.1.
4. The ids in front of one that does not exist count, those behind it do not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pcli.codec.observe.tracking.records.lifecycle import Ack, Delivery
from pcli.codec.observe.tracking.subscriptions.redelivery import let_go
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.wire.bits import left_of

__all__ = ["NO_BITS", "AckEffects", "Id", "TransactionAck"]

NO_BITS: Final = -1
"""In the place of a bit set: the whole entry."""

Id = tuple[Position, int]
"""A position, and what is left of the batch there as bits."""


class TransactionAck(NamedTuple):
    """An id that was acknowledged in a transaction which is open."""

    at: Position
    bits: int
    """What is left of the batch; NO_BITS: the whole entry."""
    cumulative: bool
    ack: Ack
    member: AttachedConsumer
    """Whose ACK it was."""
    messages: int
    """So many count no more as unacknowledged from the ACK on (Consumer.individualAckWithTransaction)."""


class AckEffects:
    """What one ACK does to a subscription."""

    __slots__ = (
        "acks", "age", "book", "entries", "frame", "given", "messages", "now", "oldest", "settled",
    )  # fmt: skip

    def __init__(self, book: SubscriptionState, frame: int, now: int) -> None:
        self.book = book
        self.frame = frame
        self.now = now
        self.acks: list[Ack] = []
        self.settled: list[Position] = []
        self.entries = self.messages = self.age = self.oldest = 0
        self.given: Ack | None = None
        """Of a transaction: the ack that was noted when it was sent."""

    def individual(self, ids: list[Id]) -> None:
        """An ACK of single ids."""
        last = self.book.topic.last
        for at, bits in ids:
            if at > last and at not in self.book.open and self.book.mark is not None:
                return
            self.one(at, bits)

    def one(self, at: Position, bits: int) -> None:
        """One of them."""
        if bits == NO_BITS:
            self._whole(at, "individual")
        else:
            self._part(at, bits, "batch")

    def cumulative(self, at: Position, bits: int) -> None:
        """An ACK of everything up to a position."""
        book = self.book
        if book.mark is not None and at <= book.mark:
            return
        if book.open:
            passed = []
            for place in book.open:
                if place < at or (place == at and bits == NO_BITS):
                    passed.append(place)
                elif book.sorted:
                    break
            for place in passed:
                self._whole(place, "cumulative")
        if bits == NO_BITS:
            book.move(at)
            self.settled.append(at)
        else:
            book.move((at[0], at[1] - 1))
            self._part(at, bits, "cumulative")
        if at > book.read:
            book.read = at

    def wait(self, txn: tuple[int, int], member: AttachedConsumer, ids: list[Id], *, cumulative: bool) -> None:
        """Note what is to be acknowledged when the transaction commits."""
        book = self.book
        promises = book.txns.setdefault(txn, [])
        for at, bits in ids:
            ack = Ack(self.frame, self.now, "transaction", effective=False)
            self.acks.append(ack)
            life, messages = book.topic.lives.get(at), 1
            if life is not None:
                deliveries = life.deliveries.get(book.record.name)
                if deliveries:
                    deliveries[-1].acks += (ack,)
                messages = life.messages if bits == NO_BITS else life.messages - left_of(bits, life.messages)
            if book.individual and not cumulative:
                member.drift -= messages
            promises.append(TransactionAck(at, bits, cumulative, ack, member, messages))

    def _whole(self, at: Position, kind: str) -> None:
        book = self.book
        delivery = book.open.pop(at, None)
        known = book.is_acked(at)
        left = delivery.held if delivery is not None else 0
        self._note(at, kind, 0, delivery, effective=not known)
        if delivery is not None:
            let_go(book, delivery)
            if book.keys is not None:
                book.keys.released(book.topic.lives.get(at), delivery, self.now, self.frame)
        if not known:
            self.messages += left
            book.ack(at)
            book.note_done(at, self.frame)
            self.settled.append(at)

    def _part(self, at: Position, bits: int, kind: str) -> None:
        book = self.book
        delivery, life = book.open.get(at), book.topic.lives.get(at)
        messages = life.messages if life is not None else delivery.messages if delivery is not None else 1
        old = book.sets.get(at)
        new = bits if old is None else old & bits
        left, known = left_of(new, messages), book.is_acked(at)
        cleared = 0 if known else (messages if old is None else left_of(old, messages)) - left
        if not left:
            self._whole(at, kind)
            return
        if known:
            self._note(at, kind, 0, delivery, effective=False)
            return
        book.sets[at] = new
        self.messages += cleared
        if delivery is not None and delivery.held:
            cleared = min(cleared, delivery.held)
            delivery.held -= cleared
            if book.individual:
                delivery.consumer.unacked -= cleared
                book.record.unacked -= cleared
        self._note(at, kind, left, delivery, effective=True)

    def _note(self, at: Position, kind: str, left: int, delivery: Delivery | None, *, effective: bool) -> None:
        """Write the ack into the life of the entry."""
        name = self.book.record.name
        life = self.book.topic.lives.get(at)
        if delivery is None and life is not None:
            past = life.deliveries.get(name)
            delivery = past[-1] if past else None
        if delivery is None:
            return
        if self.given is None:
            ack = Ack(self.frame, self.now, kind, left, effective=effective)
            delivery.acks += (ack,)
            self.acks.append(ack)
        if life is not None and name in life.unacked:
            life.unacked[name] = left if not life.chunks else life.unacked[name] - 1
        if effective and not left:
            self.entries += 1
            age = self.now - delivery.time_ns
            self.age += age
            self.oldest = max(self.oldest, age)
