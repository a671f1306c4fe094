"""The lifecycle of a message as steps with time, frame and duration.

Rules of this file
1. Steps are in chronological order. Each contains the duration since an earlier step: a receipt since the SEND, a
   delivery since the receipt, an acknowledgement since its delivery, and so on.
2. Names in a step come from the wire. This module escapes them with `printable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pcli.codec.observe.text_format import printable, short_topic
from pcli.codec.observe.tracking.records.lifecycle import Ack, Delivery, Lifecycle
from pcli.codec.observe.tracking.records.topic_records import AGAIN

BROKER: Final = ""
"""Name of the broker as a party."""

_ACK_KINDS: Final[dict[str, str]] = {"individual": "", "batch": "part of the batch", "transaction": "in a transaction"}
"""Descriptions of some kinds of acknowledgements; for other kinds the key itself is used."""


@dataclass(slots=True)
class Step:
    """An event in the lifecycle of a message."""

    what: str
    """The kind: sent, receipt, refused, delivered, asked again, taken back, acked, ack answer, dead letter."""
    time_ns: int
    """Nanoseconds since 1970; -1 if unknown."""
    frame: int
    """``pulsar.number``; 0 if unknown."""
    sender: str
    """The acting party: a producer, or ``subscription/consumer``, or BROKER."""
    receiver: str
    """The other party, in the same form."""
    text: str = ""
    """Details as text."""
    after_ns: int = -1
    """Time in ns since an earlier step (rule 1), or -1 if unknown."""


def steps_of(lifecycle: Lifecycle) -> list[Step]:
    """Return all steps in chronological order."""
    found = [*_published(lifecycle)]
    stored = lifecycle.receipt_ns if lifecycle.receipt_ns >= 0 else lifecycle.sent_ns
    for deliveries in lifecycle.deliveries.values():
        requested = stored
        for delivery in deliveries:
            found += _delivered(lifecycle, delivery, requested if delivery.why else stored)
            requested = max(requested, delivery.again[1])
    given = max((one.time_ns for deliveries in lifecycle.deliveries.values() for one in deliveries), default=-1)
    for topic, frame, time_ns in lifecycle.dead_letters:
        text = f"sent to {short_topic(topic)}"
        found.append(Step("dead letter", time_ns, frame, "a client", BROKER, text, since(time_ns, given)))
    # Steps without a time are sorted by frame. One frame acknowledges all chunks of a message.
    different = {(step.frame, step.what, step.sender, step.receiver, step.text): step for step in found}
    return sorted(different.values(), key=lambda step: step.frame)


def _published(lifecycle: Lifecycle) -> Iterator[Step]:
    for attempt in lifecycle.earlier:
        segment = short_topic(attempt.topic.name) if attempt.topic is not None else "an unknown topic"
        for step in _attempt(attempt, "sent"):
            step.text = _list(step.text, f"on {segment}")
            yield step
    if lifecycle.earlier:
        yield from _attempt(lifecycle, "sent again", lifecycle.earlier[-1].sent_ns)
    else:
        yield from _attempt(lifecycle, "sent")


def _attempt(lifecycle: Lifecycle, what: str, before: int = -1) -> Iterator[Step]:
    sender = (
        printable(lifecycle.producer_name or (lifecycle.producer.name if lifecycle.producer is not None else ""))
        or "a producer"
    )
    if lifecycle.sent_frame:
        after, sequence = since(lifecycle.sent_ns, before), f"sequence {_sequence(lifecycle)}"
        yield Step(what, lifecycle.sent_ns, lifecycle.sent_frame, sender, BROKER, sequence, after)
    for _, frame, time_ns in lifecycle.resent:
        yield Step("sent again", time_ns, frame, sender, BROKER, "", since(time_ns, lifecycle.sent_ns))
    if lifecycle.receipt_frame:
        outcome = "refused" if lifecycle.error else "receipt"
        place = printable(lifecycle.error) or (
            "a duplicate, dropped" if lifecycle.state == "duplicate" else lifecycle.id
        )
        last = max(
            [lifecycle.sent_ns, *(time_ns for _, _, time_ns in lifecycle.resent if time_ns <= lifecycle.receipt_ns)]
        )
        yield Step(
            outcome,
            lifecycle.receipt_ns,
            lifecycle.receipt_frame,
            BROKER,
            sender,
            place,
            since(lifecycle.receipt_ns, last),
        )


def _sequence(lifecycle: Lifecycle) -> str:
    low, high = lifecycle.sequence_id, lifecycle.highest_sequence_id
    return f"{low} to {high}" if high > low else str(low)


def holder_of(delivery: Delivery) -> str:
    """Return the consumer of a delivery: ``subscription/consumer``, or its id if SUBSCRIBE is missing."""
    consumer = delivery.consumer
    session = consumer.session
    number = f"#{session.id} of stream {session.stream}" if session is not None else "a consumer"
    if not consumer.topic:
        return number
    return f"{printable(consumer.subscription_name)}/{printable(consumer.name) or number}"


def _delivered(lifecycle: Lifecycle, delivery: Delivery, before: int) -> Iterator[Step]:
    sender = holder_of(delivery)
    count = f"redelivered {delivery.redelivery_count}" if delivery.redelivery_count else ""
    brings = f"{delivery.messages} of {lifecycle.messages} messages" if delivery.messages != lifecycle.messages else ""
    chunk = f"chunk {max(0, delivery.chunk)}" if lifecycle.num_chunks > 1 else ""
    why = f"again: {_reason(delivery.why, delivery.why_frame)}" if delivery.why else ""
    after = since(delivery.time_ns, before)
    yield Step("delivered", delivery.time_ns, delivery.frame, BROKER, sender, _list(count, chunk, brings, why), after)
    for ack in delivery.acks:
        yield from _acked(delivery, ack, sender)
    frame, time_ns = delivery.again
    if frame:
        yield Step("asked again", time_ns, frame, sender, BROKER, "", since(time_ns, delivery.time_ns))
    reason, frame = delivery.taken
    if reason and frame and frame != delivery.again[0]:
        yield Step("taken back", -1, frame, BROKER, sender, AGAIN.get(reason, reason))


def _acked(delivery: Delivery, ack: Ack, sender: str) -> Iterator[Step]:
    left = f"{ack.left} left" if ack.left else ""
    idle = "" if ack.effective else "to no effect"
    text = _list(_ACK_KINDS.get(ack.kind, ack.kind), left, printable(ack.validation_error), idle)
    yield Step("acked", ack.time_ns, ack.frame, sender, BROKER, text, since(ack.time_ns, delivery.time_ns))
    if ack.answer_frame:
        after = since(ack.answer_ns, ack.time_ns)
        yield Step("ack answer", ack.answer_ns, ack.answer_frame, BROKER, sender, printable(ack.error), after)


def _reason(why: str, frame: int) -> str:
    return AGAIN.get(why, why) + (f", frame {frame}" if frame else "")


def since(time_ns: int, before: int) -> int:
    """Return a duration, or -1 if a time is unknown or the times are reversed."""
    return time_ns - before if 0 <= before <= time_ns else -1


def _list(*words: str) -> str:
    return ", ".join(filter(None, words))


def duration_ns(lifecycle: Lifecycle) -> int:
    """Return the time from the first step to the last, or -1 if no step has a time."""
    times = [step.time_ns for step in steps_of(lifecycle) if step.time_ns >= 0]
    return max(times) - min(times) if times else -1
