"""Messages that came again because they were not acknowledged within the time-out that the consumer has set.

## What it means

With `ackTimeout` a client watches every message that it has received; those not acknowledged in time it asks for
again. It is the client that does so: the broker has no such clock. The message is worked on a second time, perhaps
while the first time goes on at another consumer.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES with ids, always about the same time after their MESSAGE (the client looks in steps,
so a bit more than the time-out), in bursts. A negative acknowledgement looks the same but for that: its delay counts
from the moment of the call. The two are told apart by the ages, so this is likely and never certain.

## What speaks for the opposite

Ages that differ much: then the application rejects messages, see redelivered-after-nack.

## What to do

If the work takes longer than the time-out, raise it, see ack-timeout-too-short. If messages are forgotten, find them:
never-acked. Negative acknowledgements say more clearly what is meant, and a redelivery back-off keeps it from storming.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.again import Cause, redelivery_rule

__all__ = ["RULE"]

_CAUSES: Final = {
    "ack_timeout": Cause(
        "application",
        "because they were not acknowledged within the consumer's time-out",
        "Ages at the REDELIVER that differ much would show negative acknowledgements instead; they are alike.",
        "Raise the acknowledgement time-out above the time that the work takes, or find what forgets to acknowledge.",
        "likely",
        "",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-ack-timeout",
    "messages that the client asked for again when its acknowledgement time-out had passed",
    "apache/pulsar#3185",
    _CAUSES,
)
