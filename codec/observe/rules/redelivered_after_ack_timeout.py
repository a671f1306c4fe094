"""Messages that were redelivered because they were not acknowledged within the consumer's acknowledgement timeout.

## What it means

If `ackTimeout` is set, a client tracks every message that it receives and requests redelivery of messages that are not
acknowledged in time. The timer runs in the client; the broker has none. The message is processed a second time,
possibly while another consumer is still processing it.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES with ids, always about the same time after their MESSAGE (slightly more than the
timeout, because the client checks at intervals), in bursts. A negative acknowledgement looks the same, except that its
delay starts when the application calls `negativeAcknowledge`. Only the ages distinguish the two, so the finding is
likely but never certain.

## What would disprove it

If the ages differ widely, the application rejects messages: see redelivered-after-nack.

## What to do

If processing takes longer than the timeout, raise the timeout: see ack-timeout-too-short. If messages are never
acknowledged, find them with never-acked. Negative acknowledgements are more explicit, and a redelivery back-off
prevents storms.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.redelivery_rule_factory import Redelivery, redelivery_rule

__all__ = ["RULE"]

_REDELIVERIES: Final = {
    "ack_timeout": Redelivery(
        Cause(
            "application",
            "likely",
            ("negative acknowledgements with a constant delay",),
            "The configuration of the consumer: ackTimeout and negativeAckRedeliveryDelay.",
        ),
        "because they were not acknowledged within the consumer's acknowledgement timeout",
        "Widely differing ages at the redelivery requests would indicate negative acknowledgements; the ages are "
        "similar.",
        "Raise the acknowledgement timeout above the processing time, or find out which messages are not acknowledged.",
        "likely",
        "",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-ack-timeout",
    "messages redelivered because the consumer's acknowledgement timeout expired",
    "apache/pulsar#3185",
    _REDELIVERIES,
    because_of=(
        "ack-timeout-too-short",
        "poison-message",
    ),
)
