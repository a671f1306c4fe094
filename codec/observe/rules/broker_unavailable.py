"""A broker that was not available: connections were lost, and new connections failed.

## What it means

The broker's process has stopped, is starting, or cannot be reached. The clients try to connect again, with increasing
intervals. Requests, messages and acknowledgements that were in transit when the connections were lost may have no
effect: ack-lost and resend-stored report them. After the restart of a broker its statistics counters begin at 0.

## On the wire

Often LOOKUPs that are refused with MetadataError or ServiceNotReady; then FIN or RST from the broker on its
connections; SYNs that are answered with RST, or CONNECTs without a response; then a CONNECTED, if the broker became
available again.

## What would disprove it

A connection of another client to the same address and port that works in this time. A firewall or a load balancer may
refuse connections instead of the broker.

## What to do

Check the log of the broker, and whether its process was restarted (out of memory, deployment, node failure). If several
brokers exist, give the clients the addresses of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.connection_text import host_subject, place
from pcli.codec.observe.rules.finding import Cause, Finding, Moment, rule
from pcli.codec.observe.rules.finding_text import at, count_of, error_message, span
from pcli.codec.observe.tracking.records.connection_records import HostRecord, Outage
from pcli.codec.wire.constants import DEFAULT_PORT, DEFAULT_TLS_PORT

_BROKER: Final = Cause(
    "broker",
    "likely",
    ("a firewall or a load balancer that closes and refuses connections", "a network failure"),
    "The broker's log, and whether its process was restarted.",
)

_MUTE: Final = Cause(
    "broker",
    "likely",
    ("another program, or a load balancer, that accepts the connections",),
    "Which process listens on the port, and its log.",
)


@rule(
    "host",
    facts=("attempts", "outages", "outage", "doubts"),
    title="a broker that lost its connections and refused new ones",
    issue="apache/pulsar#22709",
    because_of=("broker-unavailable",),
)
def evaluate(host: HostRecord, moment: Moment) -> Iterator[Finding]:
    """Return one finding for each outage of a host with CONNECTs or with a port of Pulsar."""
    if not (host.attempts.count or host.server[1] in (DEFAULT_PORT, DEFAULT_TLS_PORT)):
        return
    open_outage = [host.outage] if host.outage is not None and host.outage.certain else []
    for number, outage in enumerate(host.outages + open_outage):
        yield _finding(host, outage, number, moment)


def _finding(host: HostRecord, outage: Outage, number: int, moment: Moment) -> Finding:
    over = outage.until_ns >= 0
    events = [
        f"{count_of(seen.count, noun)} {'was' if seen.count == 1 else 'were'} {what}"
        for seen, noun, what in (
            (outage.not_ready, "lookup", f"refused ({error_message(outage.not_ready.sample).rstrip('.')})"),
            (outage.lost, "connection", "lost"),
            (outage.refused, "connection", f"refused (first in {outage.refused.sample})"),
            (outage.unanswered, "connection", "closed because CONNECT had no response"),
        )
        if seen.count
    ]
    now_ns = max(moment.now_ns, outage.lost.last_ns, outage.refused.last_ns, outage.unanswered.last_ns)
    lasted = span((outage.until_ns if over else now_ns) - outage.since_ns)
    until = at(outage.until_frame) if over else "the end" if moment.over else "now"
    return Finding(
        "warning" if over else "error",
        "certain",
        _BROKER if outage.lost.count or outage.refused.count or outage.not_ready.count else _MUTE,
        host_subject(host),
        f"Server {place(host.server)} was not available to client {host.client} for {lasted}, until {until}: "
        f"{', '.join(events)}.",
        outage.since_ns,
        [*outage.not_ready.frames[:2], *outage.lost.frames, *outage.unanswered.frames, outage.until_frame],
        "A connection of another client that works in this time would disprove the finding.",
        "Check the log of the broker, and whether its process was restarted.",
        str(number) if number else "",
        count=outage.attempts,
        until_ns=max(0, outage.until_ns),
        doubts=host.doubts - {"start", "end"},
    )
