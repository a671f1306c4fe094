"""Messages that came again because the consumer rejected them.

## What it means

The application called `negativeAcknowledge` (or the client did, before it moves a message to the retry or dead letter
topic). After a delay the client asks for those messages again, by their ids. One or two are ordinary; when most of the
deliveries are repetitions something downstream is broken and the consumer works for nothing.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES with ids, then MESSAGE with these ids and a redelivery count that is one higher. On
Exclusive and Failover subscriptions brokers send everything that is not acknowledged again, whatever the ids.

## What speaks for the opposite

When the ages of the messages at that moment are all alike it was an acknowledgement time-out:
redelivered-after-ack-timeout.

## What to do

The application's log says why it rejects. For messages that never succeed set a dead letter policy (poison-message); a
redelivery back-off gives what is broken time to mend.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.again import Cause, redelivery_rule

__all__ = ["RULE"]

_CAUSES: Final = {
    "nack": Cause(
        "application",
        "because the consumer asked for them (negative acknowledgement)",
        "Ages at the REDELIVER that are all alike would point to an acknowledgement time-out: they differ.",
        "See in the application's log why it rejects them. A back-off and a dead letter policy keep it in bounds.",
        "likely",
        "",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-nack",
    "messages that the consumer rejected and asked for again",
    "apache/pulsar#23436",
    _CAUSES,
)
