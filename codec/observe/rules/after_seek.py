"""Messages that came again because the subscription was set back on purpose.

## What it means

Somebody moved the cursor: the application with `seek`, or an administrator with `reset-cursor`. Everything behind the
new position comes again, acknowledged or not. These are no duplicates in the sense of a fault.

## On the wire

SEEK, CLOSE_CONSUMER from the broker, SUCCESS, then the client subscribes again with the same consumer id. A reset by
the admin interface shows only the CLOSE_CONSUMER, and that earlier ids come after it. Messages that were on their way
at that moment may still arrive before.

## What speaks for the opposite

A CLOSE_CONSUMER after which only unacknowledged messages come again is an unload: redelivered-after-reconnect.

## What to do

Nothing, if it was meant. If nobody knows of it: the broker's log names the address that called, and so does the
connection of the SEEK.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.again import Cause, redelivery_rule

__all__ = ["RULE"]

_CAUSES: Final = {
    "seek": Cause(
        "application",
        "because the cursor was set back (SEEK, or a reset by the admin interface)",
        "An unload would bring back only what was not acknowledged.",
        "Nothing, if it was meant. The connection of the SEEK tells who asked for it.",
    ),
}

RULE = redelivery_rule(
    "after-seek",
    "messages that came again because the cursor was set back",
    "apache/pulsar#11825",
    _CAUSES,
)
