"""ACK and ACK_RESPONSE. Their effects on a subscription are in ack_effects.py.

Rules of this file
1. A cumulative ACK without exactly one id has no effect (ServerCnx.handleAck).
2. An ACK in a transaction takes effect when the transaction commits.
3. If an ACK requests a response, its entries stay in memory until the response arrives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pcli.codec.observe.observer_state import Facts, ObservedFrame
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Ack
from pcli.codec.observe.tracking.subscriptions.ack_effects import NO_BITS, AckEffects, Id
from pcli.codec.observe.tracking.subscriptions.index_acks import note_index_ack
from pcli.codec.observe.tracking.subscriptions.open_lifecycles import OpenLifecycles
from pcli.codec.observe.tracking.subscriptions.redelivery import (
    abort_acks,
    explain_by_acks,
    release_messages,
    remove_pending_ack,
)
from pcli.codec.observe.tracking.subscriptions.subscription_state import AttachedConsumer, SubscriptionState
from pcli.codec.observe.tracking.subscriptions.topic_state import Position
from pcli.codec.proto import pb
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.message_id import position

MAX_OPEN_ACKS: Final = 50_000
"""Maximum number of ACKs that wait for a response; the oldest are evicted first."""

_CUMULATIVE: Final = pb.CommandAck.Cumulative


class Acks:
    """The acknowledgements of all consumers."""

    def __init__(self, lifecycles: OpenLifecycles) -> None:
        self._lifecycles = lifecycles
        self._open: dict[int, tuple[AttachedConsumer, list[Ack], list[Position], int]] = {}

    def see(self, consumer: AttachedConsumer, facts: Facts) -> None:
        """Process an ACK."""
        frame, record = facts.frame, consumer.record
        ack = frame.body
        cumulative, each, ids = ack.ack_type == _CUMULATIVE, consumer.acks_each_message, []
        for one in ack.message_id:
            at, words = position(one), one.ack_set
            ids.append((at, set_of(words) if words else NO_BITS))
            if not (words or cumulative) and (one.batch_index >= 0 or each):
                note_index_ack(consumer, at, one.batch_index, frame.time_ns, frame.number)
        _note_ack_sets(consumer, ids)
        record.last_ack_ns, record.last_ack_frame = frame.time_ns, frame.number
        effects = AckEffects(consumer.subscription, frame.number, frame.time_ns, self._lifecycles.on_latency)
        if ack.HasField("txnid_most_bits"):
            txn = ack.txnid_most_bits, ack.txnid_least_bits
            effects.in_transaction(txn, consumer, ids, cumulative=cumulative)
        elif not cumulative:
            effects.individual(ids)
        elif len(ids) == 1 and not consumer.subscription.individual:
            effects.cumulative(*ids[0])  # C++ sends ledger:-1, before the first entry
        _credit(consumer.subscription, record, effects)
        if effects.latest > consumer.acked_frame:
            consumer.acked_frame = effects.latest
        if ack.HasField("validation_error"):
            discarded = record.validation.setdefault(ack.ValidationError.Name(ack.validation_error), Occurrences())
            discarded.add(frame.time_ns, frame.number, count=max(effects.messages, len(ids)))
        if ack.HasField("request_id"):
            self._open[frame.number] = (consumer, effects.acks, effects.acknowledged, frame.time_ns)
            if len(self._open) > MAX_OPEN_ACKS:
                self._forget(next(iter(self._open)))
        else:
            for at in effects.acknowledged:
                self._lifecycles.remove_if_acknowledged(consumer.subscription.topic, at)

    def response(self, facts: Facts) -> None:
        """Process an ACK_RESPONSE."""
        pending = self._open.pop(facts.request_number, None)
        if pending is None:
            return
        consumer, acks, settled, _ = pending
        frame, (error, text) = facts.frame, facts.error
        if error:
            consumer.record.acks_failed.setdefault(error, Occurrences()).add(frame.time_ns, frame.number, sample=text)
            _refuse(consumer.subscription, facts.request_number, frame, error)
        for ack in acks:
            ack.answer_frame, ack.answer_ns, ack.error = frame.number, frame.time_ns, error
            ack.effective = ack.effective and not error
        for at in settled:
            self._lifecycles.remove_if_acknowledged(consumer.subscription.topic, at)

    def consumer_left(self, consumer: AttachedConsumer) -> None:
        """Mark the open ACKs of a consumer that has left as unanswered."""
        self._unanswered([number for number, one in self._open.items() if one[0] is consumer])

    def finish(self) -> None:
        """Mark all open ACKs as unanswered at the end of the capture."""
        self._unanswered(list(self._open))

    def _unanswered(self, numbers: list[int]) -> None:
        for number in numbers:
            consumer, _, _, asked_ns = self._open[number]
            consumer.record.acks_unanswered.add(asked_ns, number)
            self._forget(number)

    def transaction(
        self, subscription: SubscriptionState, txn: tuple[int, int], time_ns: int, frame: int, *, commit: bool
    ) -> None:
        """Apply the end of a transaction to a subscription."""
        if not commit:
            abort_acks(subscription, txn, time_ns, frame)
            return
        for one in subscription.transaction_acks.pop(txn, ()):
            one.ack.effective = True
            effects = AckEffects(subscription, frame, time_ns, self._lifecycles.on_latency)
            effects.recorded_ack = one.ack
            (effects.cumulative if one.cumulative else effects.one)(one.at, one.bits)
            if subscription.individual and (effects.entries or effects.messages):
                effects.messages = one.messages
            _credit(subscription, one.consumer.record, effects)
            for at in effects.acknowledged:
                self._lifecycles.remove_if_acknowledged(subscription.topic, at)

    def _forget(self, number: int) -> None:
        consumer, _, settled, _ = self._open.pop(number)
        for at in settled:
            self._lifecycles.remove_if_acknowledged(consumer.subscription.topic, at)


def _credit(subscription: SubscriptionState, record: ConsumerRecord, effects: AckEffects) -> None:
    """Add the acknowledged messages to a consumer's counts."""
    if effects.repeated:
        record.acked_twice.add(effects.now, effects.frame, count=effects.repeated)
        explain_by_acks(subscription, record)
    if effects.entries or effects.messages:
        record.acked += effects.messages
        record.ack_ages.add(effects.now, effects.frame, count=effects.entries)
        record.ack_age_total_ns += effects.age
        if effects.oldest > record.ack_age_max_ns:
            record.ack_age_max_ns = effects.oldest


def _refuse(subscription: SubscriptionState, request: int, frame: ObservedFrame, error: str) -> None:
    """Cancel the acknowledgements of a refused ACK in a transaction. The messages of a conflict remain uncounted."""
    for transaction_acks in subscription.transaction_acks.values():
        for one in transaction_acks:
            delivery = subscription.pending_acks.get(one.at)
            if one.ack.frame != request or delivery is None:
                continue
            subscription.pending_sets.pop(one.at, None)
            if one.before is not None:
                subscription.pending_sets[one.at] = one.before
            if error != "TransactionConflict":
                release_messages(subscription, delivery, -one.released)
            elif one.bits != NO_BITS and one.before is None and one.at not in subscription.ack_sets:
                remove_pending_ack(subscription, one.at, delivery, frame.time_ns, frame.number)
        transaction_acks[:] = [one for one in transaction_acks if one.ack.frame != request]


def _note_ack_sets(consumer: AttachedConsumer, ids: Iterable[Id]) -> None:
    parts = [at for at, bits in ids if bits != NO_BITS]
    if parts:
        consumer.record.ack_sets = True
        subscription = consumer.subscription
        subscription.ambiguous_acks = subscription.ambiguous_acks or len(set(parts)) < len(parts)
