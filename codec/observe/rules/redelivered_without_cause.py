"""Messages that the same consumer got twice with nothing between that asks for it.

## What it means

No negative acknowledgement, no time-out, no reconnect, no seek, no other consumer: the broker sent an entry again that
its consumer still held, or had acknowledged. That should not happen. Races in the broker have done it: a rewind while
a replay was being read, delayed messages tracked twice, two reads of the same entry.

## On the wire

MESSAGE, MESSAGE with the same ledger and entry to the same consumer id, on one connection, without a
REDELIVER_UNACKNOWLEDGED_MESSAGES between them.

## What speaks for the opposite

Whatever the capture does not show: another consumer on a connection that was not recorded may have joined and left, an
administrator may have reset the cursor or unloaded the topic. So it is likely, never certain.

## What to do

Look in the broker's log around that time. Note the broker's version and report it with the capture.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.again import Cause, redelivery_rule

__all__ = ["RULE"]

_CAUSES: Final = {
    "twice": Cause(
        "broker",
        "to the same consumer, with nothing between that asks for it",
        "A REDELIVER, a SEEK, a reconnect or another consumer would explain it; the last two may not be captured.",
        "Look in the broker's log around that time, and report it with the broker's version.",
        "likely",
        "warning",
    ),
}

RULE = redelivery_rule(
    "redelivered-without-cause",
    "messages that came twice with nothing between that asks for it",
    "apache/pulsar#150",
    _CAUSES,
)
