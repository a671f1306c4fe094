"""Messages that were redelivered because the cursor was moved back on purpose.

## What it means

The application (`seek`) or an administrator (`reset-cursor`) moved the cursor. All messages after the new position are
delivered again, including acknowledged messages. These are not faulty duplicates.

## On the wire

SEEK, CLOSE_CONSUMER from the broker, SUCCESS; then the client subscribes again with the same consumer id. After a reset
through the admin API the capture contains only the CLOSE_CONSUMER of this subscription's consumers and messages with
earlier ids; producers and other subscriptions stay connected. Messages that were in transit at that moment can still
arrive first.

## What would disprove it

For a SEEK, nothing. For a reset, an unload of the topic, which closes all its producers and consumers: see
redelivered-after-reconnect. If an administrator deletes a subscription with connected consumers, which then subscribe
at the earliest message, the frames are the same as after a reset. A reset is therefore never certain.

## What to do

Nothing, if the seek was intended. Otherwise the broker's log and the connection of the SEEK show the address of the
client that requested the seek.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.redelivery_rule_factory import Redelivery, redelivery_rule

__all__ = ["RULE"]

_REDELIVERIES: Final = {
    "seek": Redelivery(
        Cause("application"),
        "because a SEEK moved the cursor back",
        "Nothing: the broker confirmed the SEEK.",
        "Nothing, if the seek was intended. The connection of the SEEK shows which client sent it.",
    ),
    "reset": Redelivery(
        Cause(
            "broker",
            "likely",
            ("an unload of the topic whose other CLOSE frames were not captured",),
            "The broker's log: it contains the request.",
        ),
        "because an administrator reset the cursor or deleted the subscription: the broker closed the consumers of "
        "this subscription only",
        "A producer or another subscription that the broker closed at the same time would indicate an unload.",
        "Nothing, if this was intended. The broker's log shows the request.",
        "likely",
    ),
}

RULE = redelivery_rule(
    "after-seek",
    "messages redelivered because the cursor was moved back",
    "apache/pulsar#11825",
    _REDELIVERIES,
)
