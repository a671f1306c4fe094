"""Consumers across reconnects: who is attached to which subscription, and how that ends.

Rules of this file
1. A consumer is attached from the answer to its SUBSCRIBE, or from its first FLOW or MESSAGE when that answer is
   missing. A SUBSCRIBE with the id of a consumer that lives on the connection changes nothing (ServerCnx).
2. A consumer that leaves gives back what it holds. When it is the last one, the next starts at the oldest
   unacknowledged entry; a subscription that is not durable is gone then, but for the time of a SEEK.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.observer_state import Consumer, Facts
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.subscriptions.ack_effects import NO_BITS
from pcli.codec.observe.tracking.subscriptions.acks import Acks
from pcli.codec.observe.tracking.subscriptions.consumer_registration import count_held, joining, newcomer, stranger
from pcli.codec.observe.tracking.subscriptions.cursor_positions import closed_by_broker, lived_on, open_cursor, seek
from pcli.codec.observe.tracking.subscriptions.dispatch_stalls import look
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import LEAST, TICK_NS, take_back
from pcli.codec.observe.tracking.subscriptions.subscription_state import INDIVIDUAL, AttachedConsumer, SubscriptionState
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.commands import BY_NAME

__all__ = ["ConsumerSessions"]

_WHY: Final = {"closed": "left", "broker": "unload", "replaced": "left"}
"""How a session ended to why its messages come again; every other end is a lost connection."""

_SUBSCRIBE: Final = BY_NAME["SUBSCRIBE"].number


class ConsumerSessions:
    """Every consumer on every connection."""

    def __init__(self, shelf: OpenLifecycles, acks: Acks) -> None:
        self._shelf = shelf
        self._acks = acks
        self._members: dict[tuple[int, int], AttachedConsumer] = {}
        self._least: dict[int, int] = {}
        self._doubts: dict[int, set[str]] = {}
        self._seeks: dict[int, AttachedConsumer] = {}

    def member(self, facts: Facts, consumer_id: int) -> AttachedConsumer:
        """The consumer that a frame speaks of, perhaps one that is closed; without a SUBSCRIBE it begins here."""
        peer = facts.peer
        member: AttachedConsumer | None = peer.record if isinstance(peer, Consumer) else None
        if member is None:
            key = (facts.frame.stream.number, consumer_id)
            member = self._members.get(key)
            if member is None:
                member = self._members[key] = stranger(self._shelf, facts, *key)
                self._equip(member)
            if isinstance(peer, Consumer):
                peer.record = member
        if not member.ready and not member.ended:
            self._attach(member, facts.frame.time_ns, facts.frame.number, answered=False)
        return member

    def connect(self, facts: Facts) -> None:
        """A CONNECT."""
        version = facts.command.get("pulsar.connect.client_version", "")
        least = next((least for name, least in LEAST.items() if version.startswith(name)), TICK_NS)
        self._least[facts.frame.stream.number] = least

    def subscribe(self, facts: Facts) -> None:
        """A SUBSCRIBE."""
        peer, frame = facts.peer, facts.frame
        if not isinstance(peer, Consumer):
            return
        key = (frame.stream.number, peer.id)
        living = self._members.get(key)
        if living is not None and living.book.stranger:
            self._leave(living, "replaced", frame.time_ns, frame.number)
        elif living is not None and living.ready:
            living.record.double_subscribe.add(frame.time_ns, frame.number)
            peer.record = living
            return
        book = self._shelf.subscription(self._shelf.topic(peer.topic), peer.subscription)
        record = newcomer(book, facts, peer, key[0])
        member = joining(record, book, key, frame.time_ns, frame.number)
        self._equip(member)
        self._members[key] = peer.record = member

    def answered(self, facts: Facts) -> None:
        """SUCCESS or ERROR to a request of a consumer."""
        request, frame = facts.request, facts.frame
        peer = facts.peer
        if request is None:
            return
        error = facts.command.get("pulsar.error.error", "")
        if request.number in self._seeks:
            book = self._seeks.pop(request.number).book
            target = book.seeking.pop(request.number)
            if not error:
                seek(self._shelf, book, target, request.number, frame)
            return
        member: AttachedConsumer | None = peer.record if isinstance(peer, Consumer) else None
        if member is None:
            return
        if request.type == _SUBSCRIBE:
            if not error:
                self._attach(member, frame.time_ns, frame.number, answered=True, request=request.number)
            elif not member.ready:
                text = facts.command.get("pulsar.error.message", "")
                member.record.refused.setdefault(error, Occurrences()).add(frame.time_ns, frame.number, sample=text)
                self._leave(member, "refused", frame.time_ns, frame.number)
        elif not error and request.type == BY_NAME["UNSUBSCRIBE"].number:
            self._leave(member, "closed", frame.time_ns, frame.number)
            self._gone(member.book)

    def asked_seek(self, facts: Facts) -> None:
        """A SEEK."""
        member = self.member(facts, facts.command.get("pulsar.seek.consumer_id", -1))
        values, number = facts.command, facts.frame.number
        self._seeks[number] = member
        if "pulsar.seek.message_id.ledgerId" in values:
            at = (values["pulsar.seek.message_id.ledgerId"], values.get("pulsar.seek.message_id.entryId", -1))
            words = values.get("pulsar.seek.message_id.ack_set")
            member.book.seeking[number] = (at, set_of(words) if words else NO_BITS)
        else:
            member.book.seeking[number] = None
        member.book.record.seeks.add(facts.frame.time_ns, number)

    def told_mark(self, facts: Facts) -> None:
        """GET_LAST_MESSAGE_ID_RESPONSE: how far a topic reaches, and where the subscription stands."""
        peer, values = facts.peer, facts.command
        member: AttachedConsumer | None = peer.record if isinstance(peer, Consumer) else None
        if member is None:
            return
        place = "pulsar.getLastMessageIdResponse"
        book = member.book
        last = values.get(f"{place}.last_message_id.ledgerId", -1), values.get(f"{place}.last_message_id.entryId", -1)
        if min(last) >= 0:
            book.topic.grow(last, written=True)
        ledger_id = values.get(f"{place}.consumer_mark_delete_position.ledgerId", -1)
        if book.mark is None and ledger_id >= 0:
            book.mark = (ledger_id, values.get(f"{place}.consumer_mark_delete_position.entryId", -1))
            book.read = max(book.read, book.mark)
            book.advance()

    def close(self, facts: Facts) -> None:
        """CLOSE_CONSUMER, from either side."""
        frame = facts.frame
        key = (frame.stream.number, facts.command.get("pulsar.close_consumer.consumer_id", -1))
        member = self._members.get(key)
        if member is None:
            return
        if not frame.from_client and not member.book.seeking:
            session = member.record.session
            began = -1 if session is None else session.began_ns
            closed_by_broker(member.book.topic, member.book.record.name, frame.time_ns, frame.number, began)
        self._leave(member, "closed" if frame.from_client else "broker", frame.time_ns, frame.number)

    def active(self, facts: Facts) -> None:
        """ACTIVE_CONSUMER_CHANGE."""
        frame, values = facts.frame, facts.command
        peer = facts.peer
        member: AttachedConsumer | None = peer.record if isinstance(peer, Consumer) else None
        if member is None:
            return
        record, now = member.record, values.get("pulsar.active_consumer_change.is_active", False)
        record.active, record.active_frame, record.active_ns = now, frame.number, frame.time_ns
        book = member.book
        if now:
            for at, delivery in book.open.items():
                if delivery.consumer is not record:
                    take_back(book, at, delivery, "takeover", frame.time_ns, frame.number)
            if book.mark is not None:
                book.read = book.mark
            book.last_ns = frame.time_ns

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """A connection has ended."""
        self._least.pop(stream, None)
        self._doubts.pop(stream, None)
        for number in [number for number, member in self._seeks.items() if member.stream == stream]:
            self._seeks.pop(number).book.seeking.pop(number)
        for key in [key for key in self._members if key[0] == stream]:
            member = self._members.pop(key)
            self._leave(member, end, time_ns, frame)

    def doubt(self, stream: int, doubts: set[str]) -> None:
        """Something of a connection is not in the capture."""
        self._doubts.setdefault(stream, set()).update(doubts)
        for key, member in self._members.items():
            if key[0] == stream:
                self._equip(member)

    def _equip(self, member: AttachedConsumer) -> None:
        """What is known of its connection."""
        member.least_timeout = self._least.get(member.stream, TICK_NS)
        doubts = self._doubts.get(member.stream)
        if doubts:
            member.record.doubts |= doubts
            member.book.record.doubts |= doubts

    def finish(self, now_ns: int) -> None:
        """No more will come."""
        for member in self._members.values():
            if member.ready:
                count_held(member)
                member.record.doubts.add("end")

    # -- how they come and go

    def _attach(self, member: AttachedConsumer, time_ns: int, frame: int, *, answered: bool, request: int = 0) -> None:
        if member.ready:
            return
        member.ready = True
        record, book, session = member.record, member.book, member.record.session
        if session is not None:
            session.ready_ns, session.ready_frame = time_ns, frame if answered else 0
        subscription = book.record
        subscription.type, subscription.durable = record.type, record.durable
        book.individual = record.type in INDIVIDUAL
        subscription.allow_out_of_order = record.allow_out_of_order
        if record.type == "Key_Shared":
            subscription.key_shared_mode = "STICKY" if record.key_ranges else "AUTO_SPLIT"
        book.picky = book.stranger or record.read_compacted or (bool(record.key_ranges) and not book.individual)
        if not book.opened:
            book.opened, book.since_ns, book.blind = True, time_ns, book.topic.last
        book.members.append(member)
        book.served = True
        book.last_ns = time_ns
        if len(book.members) == 1:
            open_cursor(book, record)

    def _leave(self, member: AttachedConsumer, end: str, time_ns: int, frame: int) -> None:
        record, book, session = member.record, member.book, member.record.session
        if session is None or member.ended:
            return
        member.ended = True
        session.end, session.ended_ns, session.ended_frame = end, time_ns, frame
        record.last_ns = time_ns
        record.ends.setdefault(end, Occurrences()).add(time_ns, frame)
        self._acks.left(member)
        if not member.ready:
            return
        look(book, time_ns)
        member.ready = False
        count_held(member)
        why = "seek" if end == "broker" and book.seeking else _WHY.get(end, "lost")
        for at, delivery in book.open.items():
            if delivery.consumer is record:
                take_back(book, at, delivery, why, time_ns, frame)
        for stretch in (record.permits.exhausted, record.blocked, record.silent):
            stretch.end(time_ns, frame)
        book.members.remove(member)
        if len(book.topic.closers) == 1 and lived_on(book.topic, session):
            book.topic.closers.clear()
        if not book.members:
            book.repeats = False
            if book.mark is not None:
                book.read = book.mark
            if not record.durable and book.topic.record.name:
                if book.seeking:
                    book.base = book.record.delivered
                else:
                    self._gone(book)

    def _gone(self, book: SubscriptionState) -> None:
        """The broker forgets a subscription."""
        book.record.gone = True
        book.topic.subscriptions.pop(book.record.name, None)
        self._shelf.settle_all(book.topic)
