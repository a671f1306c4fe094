"""A connection that was closed because the other side no longer sent anything.

## What it means

Both sides send a PING every 30 seconds (keepAliveIntervalSeconds); the Rust and Node clients send one every 60 seconds.
If a side has received nothing since its last PING when its next PING is due, it closes the connection. An unresponsive
peer is therefore disconnected one to two intervals after its last byte.

## On the wire

A PING, and no frame from the other side before the side that sent the PING sends FIN or RST.

## What would disprove it

Any frame from the silent side after the PING, not only a PONG. If TCP acknowledged the PING, it reached the host: the
process hangs, or the network lost its packets. If the PING was retransmitted and never acknowledged, the network lost
it. If the capture has gaps, frames from the silent side may be missing. If the capture has only one direction, nothing
is reported.

## What to do

- On the client, check for long garbage collection pauses, a frozen container, or a listener that blocks the client's
  threads.
- On the broker, check for long pauses of the process. A broker that throttles a connection reads nothing from it, not
  even PINGs, but does not close it.
- In the network, check for firewalls and load balancers that drop idle connections. If there are any, shorten the
  keep-alive interval.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.connection_text import about_connection, connection_subject
from pcli.codec.observe.rules.finding import GAPS, Cause, Finding, Moment, certainty, rule, why_unsure
from pcli.codec.observe.rules.finding_text import at, span
from pcli.codec.observe.rules.network_losses import ADVICE, loss_of
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord


def _cause(silent: str, *, in_gap: bool) -> Cause:
    """Return the cause of the missing response to a PING that arrived: the silent side, or a gap in the capture."""
    if in_gap:
        return Cause("capture", "possible", (f"a {silent} that sent nothing",), "A capture without gaps.")
    return Cause(
        silent,
        "likely",
        (f"a network that lost the packets of the {silent}",),
        f"A capture on the host of the {silent}.",
    )


@rule(
    "connection",
    facts=("end", "ping_open", "ended_ns", "doubts"),
    title="a connection closed because a PING was not answered",
    issue="apache/pulsar#3300",
    because_of=("broker-unavailable", "paused-client"),
)
def evaluate(record: ConnectionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding against the silent side if the side with an unanswered PING closed the connection."""
    if record.end != "keep_alive" or "one_way" in record.doubts:
        return
    by_client = max(record.ping_open, key=lambda side: record.ping_open[side][1])
    frame, time_ns = record.ping_open[by_client]
    asker, silent = ("client", "broker") if by_client else ("broker", "client")
    in_gap = GAPS.intersection(record.doubts)
    loss = loss_of(moment, record.stream, frame, from_client=by_client)
    cause, delivered = loss or (_cause(silent, in_gap=bool(in_gap)), "")
    yield Finding(
        "note" if in_gap else "error",
        certainty(record.doubts - {"start"}),
        cause,
        connection_subject(record),
        f"The {asker} closed {about_connection(record)} {span(record.ended_ns - time_ns)} after its PING in "
        f"{at(frame)}, because the {silent} had sent nothing since.{delivered}",
        time_ns,
        [frame, record.last_frame],
        f"Any frame from the {silent} after the PING would disprove the finding; there is none."
        + why_unsure(record.doubts),
        ADVICE
        if loss
        else f"Check the {silent} at that time for a long garbage collection pause or a frozen container, and "
        "check whether the network drops idle connections.",
    )
