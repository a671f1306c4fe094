"""The events of a ``send`` span: resends, attempts on sealed segments, and the result."""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.telemetry.spans import Event
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle


def send_events(lifecycle: Lifecycle) -> list[Event]:
    """Return the events of a lifecycle's SENDs in chronological order."""
    return sorted(_events(lifecycle), key=lambda event: event.time_ns)


def segment_sealed(lifecycle: Lifecycle, start_ns: int, end_ns: int) -> Iterator[Event]:
    """Yield the event that a split or a merge sealed the message's segment, if it is in this period."""
    segment = lifecycle.topic.segment if lifecycle.topic is not None else None
    if segment is None or not start_ns <= segment.sealed_ns <= end_ns:
        return
    yield Event(
        "segment_sealed",
        segment.sealed_ns,
        {
            "pcli.frame": segment.sealed_frame,
            "messaging.pulsar.sealed_segment": segment.name,
            "messaging.pulsar.segment.children": segment.segment.children if segment.segment is not None else (),
        },
    )


def _events(lifecycle: Lifecycle) -> Iterator[Event]:
    for attempt in lifecycle.earlier:
        if attempt.sent_ns >= 0 and attempt.topic is not None:
            yield Event(
                "sent_to_sealed_segment",
                attempt.sent_ns,
                {"pcli.frame": attempt.sent_frame, "messaging.pulsar.sealed_segment": attempt.topic.name},
            )
    for _, frame, time_ns in lifecycle.resent:
        yield Event("resent", time_ns, {"pcli.frame": frame})
    yield from segment_sealed(lifecycle, lifecycle.sent_ns, lifecycle.receipt_ns)
    if lifecycle.error:
        name = "schema_refused" if lifecycle.error == "IncompatibleSchema" else "refused"
        yield Event(name, lifecycle.receipt_ns, {"pcli.frame": lifecycle.receipt_frame, "error.type": lifecycle.error})
    elif lifecycle.state == "duplicate":
        yield Event("duplicate", lifecycle.receipt_ns, {"pcli.frame": lifecycle.receipt_frame})
    elif lifecycle.state == "lost":
        yield Event("lost", lifecycle.sent_ns, {"pcli.frame": lifecycle.sent_frame})
