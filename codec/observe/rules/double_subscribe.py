"""A second SUBSCRIBE for a consumer that is already open on the same connection.

## What it means

The client sent SUBSCRIBE with a consumer id that is already open on the same connection. Usually two code paths of the
client subscribe after a reconnect, one triggered by the lost connection and one by a timer. If the first SUBSCRIBE is
complete, the broker responds to the second SUBSCRIBE with success. Afterwards both sides may disagree on permits and on
messages in transit.

## On the wire

SUBSCRIBE, SUCCESS, and SUBSCRIBE with the same `consumer_id` on the same connection, without a CLOSE_CONSUMER from
either side in between. Often two FLOWs follow: see permits-doubled.

## What would disprove it

A CLOSE_CONSUMER from the client or the broker between the two SUBSCRIBEs, possibly in a gap in the capture.

## What to do

Report the problem to the developers of the client library. State its version and attach this capture. If messages were
lost or duplicated, look for the loss or duplication directly after the second SUBSCRIBE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import about_consumer, consumer_subject, count_of, frames_text
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord

_TWICE: Final = Cause(
    "client", "likely", ("an application that writes the protocol itself",), "The debug log of the client library."
)


@rule(
    "consumer",
    facts=("double_subscribe",),
    title="a SUBSCRIBE for a consumer that is already open on the same connection",
    issue="apache/pulsar#20737",
)
def evaluate(consumer: ConsumerRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if there was a second SUBSCRIBE."""
    seen = consumer.double_subscribe
    if not seen.count:
        return
    yield Finding(
        "warning",
        "certain",
        _TWICE,
        consumer_subject(consumer),
        f"{about_consumer(consumer)} was subscribed {count_of(seen.count, 'more time')} on a connection on which it "
        f"was already open ({frames_text(seen.frames)}).",
        opposite="A CLOSE_CONSUMER in between would disprove the finding; there is none.",
        advice="Report the problem and the version of the client library to its developers.",
        seen=seen,
        doubts=consumer.doubts - EDGES,
    )
