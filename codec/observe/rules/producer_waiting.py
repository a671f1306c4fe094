"""A producer that waits for exclusive access, or that another producer fenced.

## What it means

A producer with the access mode WaitForExclusive is opened, but may not send messages before all other producers of the
topic are closed. This is how applications select a leader. A producer with ExclusiveWithFencing takes the access away
from the producer that has it: the broker fences the old producer, closes its connection when it sends again, and does
not store its messages. The old producer then waits for access, and its application receives timeouts.

## On the wire

PRODUCER, PRODUCER_SUCCESS with `producer_ready: false`, and later a second PRODUCER_SUCCESS with `producer_ready: true`
for the same request. The `topic_epoch` increases with each new owner. A fenced producer receives no frame when it loses
access; its next SEND ends the connection.

## What would disprove it

A SEND_RECEIPT for the producer in that time.

## What to do

Nothing, if the application intends to wait. If a producer was fenced by mistake, find out why two applications request
exclusive access to the topic at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, Threshold, rule
from pcli.codec.observe.rules.finding_text import at, span
from pcli.codec.observe.rules.producer_text import about_producer, producer_subject
from pcli.codec.observe.tracking.records.client_records import ProducerRecord

_DURATION: Final = Threshold("producer-waiting.duration", 1_000_000_000, "minimum wait for exclusive access")

_FENCED: Final = Cause(
    "application",
    "likely",
    ("a producer with ExclusiveWithFencing on a connection that was not captured",),
    "The publishers in `topics stats`.",
)

FENCING: Final = ("first_ns", "access_mode", "topic_record.producers")
"""The fields that `fenced_by` reads."""


@rule(
    "producer",
    facts=("waiting", *FENCING),
    title="a producer that waits for exclusive access, or that another producer fenced",
    issue="PIP-68",
    thresholds=(_DURATION,),
)
def evaluate(producer: ProducerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding for the current or the longest wait."""
    wait, doubts = producer.waiting, producer.doubts - EDGES
    now = wait.since_ns >= 0
    since_ns = wait.since_ns if now else wait.longest_from_ns
    lasted = moment.now_ns - since_ns if now else wait.longest_ns
    if not wait.count or lasted < moment.value(_DURATION):
        return
    first, last = (wait.since_frame, 0) if now else wait.longest_frames
    fencing = fenced_by(producer, since_ns)
    because = f" because {about_producer(fencing)} fenced it (ExclusiveWithFencing)" if fencing is not None else ""
    yield Finding(
        "note" if fencing is None else "error" if now else "warning",
        "certain",
        Cause("application") if fencing is None else _FENCED,
        producer_subject(producer),
        f"{about_producer(producer)} {'has waited' if now else 'waited'} {span(lasted)} for exclusive access{because}, "
        f"from {at(first)}{'' if now else f' to {at(last)}'}.",
        since_ns,
        [first, last, *([fencing.session.number] if fencing is not None and fencing.session is not None else [])],
        "A PRODUCER_SUCCESS with producer_ready in that time would disprove the finding; there is none.",
        "Nothing, if the application intends to wait. Otherwise find out which application has exclusive access.",
        "fenced" if fencing is not None else "",
        until_ns=0 if now else since_ns + lasted,
        doubts=doubts,
    )


def fenced_by(producer: ProducerRecord, until_ns: int) -> ProducerRecord | None:
    """Return the producer that fenced this producer before a time in ns, or None."""
    topic = producer.topic_record
    others = topic.producers.values() if topic is not None else ()
    for other in others:
        fences = other.access_mode == "ExclusiveWithFencing" and other is not producer
        if fences and producer.first_ns < other.first_ns <= until_ns:
            return other
    return None
