"""Messages that were redelivered because the cursor was moved back on purpose.

## What it means

The application (`seek`) or an administrator (`reset-cursor`) moved the cursor. All messages after the new position are
delivered again, including acknowledged messages. These are not faulty duplicates.

## On the wire

SEEK, CLOSE_CONSUMER from the broker, SUCCESS; then the client subscribes again with the same consumer id. After a reset
through the admin API the capture contains only the CLOSE_CONSUMER and messages with earlier ids. Messages that were in
transit at that moment can still arrive first.

## What would disprove it

If only unacknowledged messages are redelivered after the CLOSE_CONSUMER, the topic was unloaded: see
redelivered-after-reconnect.

## What to do

Nothing, if the seek was intended. Otherwise the broker's log and the connection of the SEEK show the address of the
client that requested the seek.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.redelivery_rule_factory import Cause, redelivery_rule

__all__ = ["RULE"]

_CAUSES: Final = {
    "seek": Cause(
        "application",
        "because the cursor was moved back (SEEK, or a reset through the admin API)",
        "After an unload only unacknowledged messages would be redelivered.",
        "Nothing, if the seek was intended. The connection of the SEEK shows which client sent it.",
    ),
}

RULE = redelivery_rule(
    "after-seek",
    "messages redelivered because the cursor was moved back",
    "apache/pulsar#11825",
    _CAUSES,
)
