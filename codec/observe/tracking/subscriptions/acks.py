"""ACK and its answer. What an ack does to a subscription is in settling.py.

Rules of this file
1. A cumulative ACK needs exactly one id; else it does nothing (ServerCnx.handleAck).
2. An ACK of a transaction is a promise until that commits.
3. An entry whose ACK wants an answer leaves memory only when that has come.
"""

from __future__ import annotations

from typing import Any, Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Ack
from pcli.codec.observe.tracking.subscriptions.ack_effects import NO_BITS, AckEffects, Id
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import take_back
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.message_id import signed

__all__ = ["MAX_OPEN_ACKS", "Acks"]

MAX_OPEN_ACKS: Final = 50_000
"""ACKs that wait for an answer; the oldest go first."""


class Acks:
    """The acknowledgements of all consumers."""

    def __init__(self, shelf: OpenLifecycles) -> None:
        self._shelf = shelf
        self._open: dict[int, tuple[AttachedConsumer, list[Ack], list[Position], int]] = {}

    def see(self, member: AttachedConsumer, facts: Facts) -> None:
        """An ACK."""
        frame, record = facts.frame, member.record
        hot = facts.hot
        if hot is not None:
            _, kind, places, request = hot
            ids: list[Id] = [((one[0], one[1]), NO_BITS) for one in places]
        else:
            kind, ids, request = _slow(member, facts)
        record.last_ack_ns, record.last_ack_frame = frame.time_ns, frame.number
        work = AckEffects(member.book, frame.number, frame.time_ns)
        if hot is None and "pulsar.ack.txnid_most_bits" in facts.command:
            work.wait(_transaction(facts.command), member, ids, cumulative=kind == 1)
        elif kind != 1:
            work.individual(ids)
        elif len(ids) == 1 and not member.book.individual:
            (ledger, entry), bits = ids[0]
            work.cumulative((ledger, signed(entry)), bits)  # C++: ledger:-1, what is before its first entry
        _credit(record, work)
        if request >= 0:
            self._open[frame.number] = (member, work.acks, work.settled, frame.time_ns)
            if len(self._open) > MAX_OPEN_ACKS:
                self._forget(next(iter(self._open)))
        else:
            for at in work.settled:
                self._shelf.settle(member.book.topic, at)

    def answer(self, facts: Facts) -> None:
        """An ACK_RESPONSE."""
        waiting = self._open.pop(facts.request_number, None)
        if waiting is None:
            return
        member, acks, settled, _ = waiting
        frame, error = facts.frame, facts.command.get("pulsar.ackResponse.error", "")
        if error:
            text = facts.command.get("pulsar.ackResponse.message", "")
            member.record.acks_failed.setdefault(error, Occurrences()).add(frame.time_ns, frame.number, sample=text)
            _refuse(member.book, facts.request_number)
        for ack in acks:
            ack.answer_frame, ack.answer_ns, ack.error = frame.number, frame.time_ns, error
            ack.effective = ack.effective and not error
        for at in settled:
            self._shelf.settle(member.book.topic, at)

    def left(self, member: AttachedConsumer) -> None:
        """The consumer is gone: its open ACKs stay without answer."""
        self._unanswered([number for number, one in self._open.items() if one[0] is member])

    def finish(self) -> None:
        """No more will come."""
        self._unanswered(list(self._open))

    def _unanswered(self, numbers: list[int]) -> None:
        for number in numbers:
            member, _, _, asked_ns = self._open[number]
            member.record.acks_unanswered.add(asked_ns, number)
            self._forget(number)

    def transaction(
        self, book: SubscriptionState, txn: tuple[int, int], time_ns: int, frame: int, *, commit: bool
    ) -> None:
        """A transaction has ended for a subscription."""
        for one in book.txns.pop(txn, ()):
            record, delivery = one.member.record, book.open.get(one.at)
            before, one.ack.effective = record.unacked, commit
            if commit:
                work = AckEffects(book, frame, time_ns)
                work.given = one.ack
                (work.cumulative if one.cumulative else work.one)(one.at, one.bits)
                _credit(record, work)
                for at in work.settled:
                    self._shelf.settle(book.topic, at)
            elif not one.cumulative and delivery is not None:
                take_back(book, one.at, delivery, "aborted", time_ns, frame)
            if book.individual:
                one.member.drift += before - record.unacked

    def _forget(self, number: int) -> None:
        member, _, settled, _ = self._open.pop(number)
        for at in settled:
            self._shelf.settle(member.book.topic, at)


def _credit(record: ConsumerRecord, work: AckEffects) -> None:
    """What was settled counts for a consumer."""
    if work.entries or work.messages:
        record.acked += work.messages
        record.ack_ages.add(work.now, work.frame, count=work.entries)
        record.ack_age_total_ns += work.age
        record.ack_age_max_ns = max(record.ack_age_max_ns, work.oldest)


def _refuse(book: SubscriptionState, frame: int) -> None:
    """An ACK of a transaction was refused."""
    for promises in book.txns.values():
        for one in promises:
            if one.ack.frame == frame and book.individual and not one.cumulative:
                one.member.drift += one.messages
        promises[:] = [one for one in promises if one.ack.frame != frame]


def _transaction(values: dict[str, Any]) -> tuple[int, int]:
    return values["pulsar.ack.txnid_most_bits"], values.get("pulsar.ack.txnid_least_bits", 0)


def _slow(member: AttachedConsumer, facts: Facts) -> tuple[int, list[Id], int]:
    values = facts.command
    ids = []
    for one in values.get("pulsar.ack.message_id", ()):
        words = one.get("ack_set")
        ids.append(((one.get("ledgerId", -1), one.get("entryId", -1)), set_of(words) if words else NO_BITS))
    parts = [at for at, bits in ids if bits != NO_BITS]
    member.book.repeats = member.book.repeats or len(set(parts)) < len(parts)
    error = values.get("pulsar.ack.validation_error", "")
    if error:
        frame = facts.frame
        member.record.validation.setdefault(error, Occurrences()).add(frame.time_ns, frame.number)
    kind = 1 if values.get("pulsar.ack.ack_type") == "Cumulative" else 0
    return kind, ids, values.get("pulsar.ack.request_id", -1)
