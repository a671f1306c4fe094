"""The time for which a consumer holds a message: from MESSAGE to the ACK, or until the broker takes the message back.

Rules of this file
1. The chunks of a message are delivered one by one. A period contains all chunks of one delivery.
2. A consumer can acknowledge the messages of a batch one by one. The period ends when the messages that are considered
   are acknowledged; all messages are, unless positions in the batch are given.
3. The capture may lack the end: it is then the time of the last chunk, and the operation is ``receive``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from pcli.codec.observe.telemetry.send_events import segment_sealed
from pcli.codec.observe.telemetry.spans import Attributes, Event
from pcli.codec.observe.tracking.records.lifecycle import Ack, Delivery, Lifecycle

_FAILURES: Final = frozenset({"nack", "ack_timeout", "requested", "rewind", "lost", "aborted", "expired"})
"""Causes of redeliveries that show that the consumer did not process the message."""


@dataclass(slots=True)
class Period:
    """A delivery and its end."""

    first: Delivery
    """The delivery, or that of the first chunk."""
    last: Delivery
    end_ns: int
    end_frame: int = 0
    """0 if the capture contains no end."""
    operation: str = "receive"
    error: str = ""
    """The cause of the redelivery that follows, if the consumer failed to process the message."""
    events: list[Event] = field(default_factory=list)

    @property
    def start_ns(self) -> int:
        """Time of MESSAGE."""
        return self.first.time_ns

    @property
    def consumer_name(self) -> str:
        """The name of the consumer, or its id if the name is unknown."""
        session = self.first.consumer.session
        return self.first.consumer.name or (f"#{session.id}" if session is not None else "")


def periods_of(lifecycle: Lifecycle, subscription: str, indexes: tuple[int, ...] = ()) -> list[Period]:
    """Return the periods of a subscription in chronological order, for messages at these positions in the batch."""
    places = indexes or range(max(1, lifecycle.messages))
    wanted = sum(1 << place for place in places)
    found = [Period(one[0], one[-1], one[-1].time_ns) for one in _by_chunks(lifecycle.deliveries[subscription])]
    for period, after in pairwise([*found, None]):
        assert period is not None
        _end(period, after, wanted)
        period.events = [*_events(lifecycle, period)]
    for topic, frame, time_ns in lifecycle.dead_letters:
        before = [period for period in found if period.start_ns <= time_ns]
        if before:
            attributes: Attributes = {"pcli.frame": frame, "messaging.pulsar.dead_letter.topic": topic}
            before[-1].events.append(Event("dead_letter", time_ns, attributes))
            before[-1].events.sort(key=lambda event: event.time_ns)
    return found


def _by_chunks(deliveries: list[Delivery]) -> Iterator[list[Delivery]]:
    chunks: list[Delivery] = []
    for one in deliveries:
        if chunks and (one.chunk <= chunks[-1].chunk or one.consumer is not chunks[-1].consumer):
            yield chunks
            chunks = []
        chunks.append(one)
    yield chunks


def _end(period: Period, after: Period | None, wanted: int) -> None:
    """Find the end of a period. ``after`` is the next period of the subscription."""
    last = period.last
    ack = _last_ack(last.acks, wanted)
    frame, time_ns = last.again
    cause = last.taken[0] or (after.first.why if after is not None else "") or ("requested" if frame else "")
    if ack is not None:
        period.operation, period.end_ns, period.end_frame = "process", ack.time_ns, ack.frame
        period.error = ack.error or ack.validation_error
    elif frame:
        period.operation, period.end_ns, period.end_frame, period.error = "process", time_ns, frame, cause
    elif cause:
        # The frame of the cause has no time; the redelivery shows the latest end.
        period.operation, period.end_frame = "process", last.taken[1]
        period.end_ns = after.start_ns if after is not None else last.time_ns
        period.error = cause if cause in _FAILURES else ""


def _last_ack(acks: tuple[Ack, ...], wanted: int) -> Ack | None:
    """Return the ACK after which none of the wanted messages is unacknowledged, or None."""
    for ack in acks:
        if ack.effective:
            wanted &= ack.bits
            if not wanted:
                return ack
    return None


def _events(lifecycle: Lifecycle, period: Period) -> Iterator[Event]:
    first, last = period.first, period.last
    if first.why:
        attributes: Attributes = {"pcli.frame": first.why_frame} if first.why_frame else {}
        yield Event("redelivery", first.time_ns, {**attributes, "messaging.pulsar.redelivery.cause": first.why})
    yield from segment_sealed(lifecycle, period.start_ns, period.end_ns)
    for ack in last.acks:
        yield from _acknowledged(ack)
    frame, time_ns = last.again
    if frame:
        name = "negative_acknowledgement" if period.error == "nack" else "redelivery_request"
        cause = {"messaging.pulsar.redelivery.cause": period.error} if period.error else {}
        yield Event(name, time_ns, {"pcli.frame": frame, **cause})
    reason, taken = last.taken
    if reason and taken and taken != frame:
        yield Event("taken_back", period.end_ns, {"pcli.frame": taken, "messaging.pulsar.redelivery.cause": reason})


def _acknowledged(ack: Ack) -> Iterator[Event]:
    attributes: Attributes = {
        "pcli.frame": ack.frame,
        "messaging.pulsar.ack.type": ack.kind,
        "messaging.pulsar.ack.remaining": ack.left,
        "messaging.pulsar.ack.effective": ack.effective,
    }
    if ack.validation_error:
        attributes["messaging.pulsar.ack.validation_error"] = ack.validation_error
    yield Event("acknowledged", ack.time_ns, attributes)
    if ack.answer_frame:
        error: Attributes = {"error.type": ack.error} if ack.error else {}
        yield Event("acknowledgement_response", ack.answer_ns, {"pcli.frame": ack.answer_frame, **error})
