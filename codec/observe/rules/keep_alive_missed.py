"""A connection that was given up because the other side no longer spoke.

## What it means

Both sides send a PING every 30 seconds (keepAliveIntervalSeconds). Whoever has heard nothing at all since its last PING
when the next one is due ends the connection: so an idle, dead peer is cut 30 to 60 seconds after its last byte.

## On the wire

PING, and until the FIN or RST of the side that sent it not one frame of the other side.

## What speaks for the opposite

Any frame of the silent side behind the PING: it need not be a PONG. Look at its TCP packets: if they still acknowledge
data, the machine lives and the process hangs; if there are none, the network has lost them. With holes in the capture
the silence may be the capture's; with one direction only nothing is said.

## What to do

Of a client: long garbage collection pauses, a frozen container, an application that blocks the client's threads in a
listener. Of a broker: its own pauses; a broker that throttles a connection does not read it, PINGs included, but does
not end it either. Of the network: firewalls and balancers that forget idle connections; shorten the interval.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.observe.rules.finding import Finding, Moment, Rule
from pcli.codec.observe.rules.link_words import about_connection, connection_subject
from pcli.codec.observe.rules.wording import HOLES, at, certainty, span, why_unsure
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

__all__ = ["RULE", "look"]


def look(record: ConnectionRecord, _moment: Moment) -> Iterator[Finding]:
    """The side that ended it is the one whose PING waits."""
    if record.end != "keep_alive" or "one_way" in record.doubts:
        return
    by_client = max(record.ping_open, key=lambda side: record.ping_open[side][1])
    frame, time_ns = record.ping_open[by_client]
    asker, silent = ("client", "broker") if by_client else ("broker", "client")
    in_hole = HOLES.intersection(record.doubts)
    yield Finding(
        "keep-alive-missed",
        "note" if in_hole else "error",
        "capture" if in_hole else silent,
        certainty(record.doubts - {"start"}, "likely"),
        connection_subject(record),
        f"The {asker} ended {about_connection(record)} {span(record.ended_ns - time_ns)} after its PING in "
        f"{at(frame)}: the {silent} had sent nothing since.",
        time_ns,
        [frame, record.last_frame],
        f"Any frame of the {silent} behind the PING: there is none. If its packets still acknowledge data, its process "
        "hangs; if not, the network lost it." + why_unsure(record.doubts),
        f"Look at the {silent} at that time: a long garbage collection pause, a frozen container, a network that "
        "drops idle connections.",
    )


RULE = Rule(
    name="keep-alive-missed",
    group="connection",
    facts=("end", "ping_open", "ended_ns", "doubts"),
    title="a connection ended because a PING stayed without answer",
    issue="apache/pulsar#3300",
    look=look,
)
