"""A client and a broker that count permits differently because of a batch, or of a FLOW that only one side processed.

## What it means

Permits are counted in messages, including each message of a batch. A batch with an `ack_set` (part of it is already
acknowledged) uses permits only for the remaining messages. Known client libraries have returned too few or too many
permits. There are three cases, the third of which is not caused by the client:

- *batch as one*: the client returns one permit per entry. If every batch has ten messages, a queue of 1000 is used up
  after about 1000 messages, because nine of ten permits are not returned.
- *too many*: the client returns more permits than were used, for example for a whole batch although it received only
  part of the batch. The broker then sends more than the queue can hold.
- *unasked*: more single messages arrived than the FLOWs requested. Brokers exceed the permits by a batch, never by
  single messages, so an intermediary repeated a FLOW or a MESSAGE, or the broker's count is wrong.

## On the wire

Compare the sum of FLOW permits with the number of messages and the number of entries: here the sum equals the number of
entries, or exceeds the number of messages by less than the queue size.

## What would disprove it

A client whose FLOW is only late (clients collect permits for up to half of the queue), or whose queue grows on purpose.

## What to do

Report the problem to the developers of the client library. State its version and attach this capture. Until the library
is fixed, do not use batches for this topic. For *too many*, you can disable batch index acknowledgements instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.consumer_state import FACTS, counts_batches_as_one
from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_consumer, at, consumer_subject, count_of, frames_text
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_REPORT: Final = (
    "Report the problem to the developers of the client library. State its version and attach this capture."
)
_SUM: Final = "Later FLOWs that make the total equal to the number of messages would disprove the finding."

_ONE_PER_BATCH: Final = Cause(
    "client",
    "likely",
    ("an application that has taken only a part of the messages",),
    "The client's statistics: the number of messages in its receiver queue.",
)
_TOO_MANY: Final = Cause(
    "client", "likely", ("a receiver queue that grows on purpose",), "The configuration of the consumer."
)
_NOT_REQUESTED: Final = Cause(
    "broker",
    "likely",
    ("a FLOW that a proxy added", "a FLOW that is missing from the capture"),
    "A capture on the broker's host: it shows which FLOWs arrive there.",
)
_VARIANTS: Final = {
    "batch-as-one": ("error", _ONE_PER_BATCH, _SUM, _REPORT),
    "too-many": ("warning", _TOO_MANY, _SUM, _REPORT),
    "unasked": (
        "warning",
        _NOT_REQUESTED,
        "A FLOW that is missing from the capture would disprove the finding.",
        "Capture on the broker's host, and compare the FLOWs.",
    ),
}
"""Severity, cause, what would disprove it, what to do."""


@rule(
    "consumer",
    facts=("permits.flowed", "permits.lowest", "permits.delivered", "permits.doubled", "permits.surplus", *FACTS),
    title="a client and a broker that count permits differently",
    issue="apache/pulsar#22091",
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return findings for all three cases."""
    permits = consumer.permits
    if not permits.known:
        return
    if counts_batches_as_one(consumer):
        yield _finding(
            consumer,
            "batch-as-one",
            f"{about_consumer(consumer)} received {count_of(permits.delivered, 'message')} in "
            f"{count_of(consumer.received_entries, 'entry', 'entries')} and returned "
            f"{count_of(permits.flowed - permits.queue, 'permit')}: its client counts a batch as one message.",
            permits.last_flow_ns,
            [permits.last_flow_frame, consumer.last_message_frame, permits.lowest_frame],
        )
    if permits.doubled.count and 0 < permits.surplus * 2 <= permits.queue:
        yield _finding(
            consumer,
            "too-many",
            f"{about_consumer(consumer)} requested {count_of(permits.surplus, 'message')} more than its queue of "
            f"{permits.queue} and the permits that it used ({frames_text(permits.doubled.frames)}).",
            permits.doubled.first_ns,
            permits.doubled.frames,
        )
    if permits.lowest < 0 and consumer.received == consumer.received_entries:
        yield _finding(
            consumer,
            "unasked",
            f"{about_consumer(consumer)} received up to {count_of(-permits.lowest, 'message')} that it had not "
            "requested, "
            f"none of them in a batch ({at(permits.lowest_frame)}).",
            consumer.last_message_ns,
            [permits.lowest_frame, permits.last_flow_frame],
        )


def _finding(consumer: ConsumerRecord, variant: str, what: str, since_ns: int, frames: list[int]) -> Finding:
    severity, cause, opposite, advice = _VARIANTS[variant]
    return Finding(
        severity,
        "likely",
        cause,
        consumer_subject(consumer),
        what,
        since_ns,
        frames,
        opposite,
        advice,
        variant,
        doubts=consumer.doubts - EDGES,
    )
