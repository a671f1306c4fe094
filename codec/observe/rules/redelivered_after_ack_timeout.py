"""Messages whose redelivery the consumer requested because its acknowledgement timeout expired, or may have expired.

## What it means

If `ackTimeout` is set, a client tracks every message that it receives and requests redelivery of messages that are not
acknowledged in time. The timer runs in the client; the broker has none. The message is processed a second time,
possibly while another consumer is still processing it.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES with ids, always about the same time after their MESSAGE (slightly more than the
timeout, because the client checks at intervals), in bursts. There are two cases:

- *ack_timeout*: the consumer acknowledged both deliveries of an entry, the first one after the request. An application
  does not acknowledge a message that it has rejected.
- *requested*: the request is certain, but the cause may also be a negative acknowledgement. The client sends the same
  frame after the delay of the negative acknowledgement (60 s by default) or after its back-off. If the application
  rejects all messages that it does not acknowledge, and without a delay, then the ages are similar too.

An acknowledgement timeout is excluded if the messages are younger than the minimum timeout of the client library (1 s,
and 10 s for C++ and Python), if the ages differ by more than a second in one round, or if an older unacknowledged
message is not in the request: see redelivered-after-nack.

## What would disprove it

If the ages differ widely, the application rejects messages: see redelivered-after-nack. For *requested*, the
configuration of the consumer decides.

## What to do

If processing takes longer than the timeout, raise the timeout: see ack-timeout-too-short. If messages are never
acknowledged, find them with never-acked. Negative acknowledgements are more explicit, and a redelivery back-off
prevents storms.

docs/clients.md lists which clients have an acknowledgement timeout, and the form of their requests.
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
            ("negative acknowledgements of messages that are acknowledged nevertheless",),
            "The configuration of the consumer: ackTimeout and negativeAckRedeliveryDelay.",
        ),
        "because they were not acknowledged within the consumer's acknowledgement timeout",
        "Widely differing ages at the redelivery requests would indicate negative acknowledgements; the ages are "
        "similar, and the consumer acknowledged both deliveries of an entry.",
        "Raise the acknowledgement timeout above the processing time, or find out which messages are not acknowledged.",
        "likely",
        "",
    ),
    "requested": Redelivery(
        Cause(
            "application",
            "possible",
            ("an acknowledgement timeout", "negative acknowledgements with a delay or a back-off"),
            "The configuration of the consumer (ackTimeout, negativeAckRedeliveryDelay), or the application's log.",
        ),
        "because the consumer requested it: its acknowledgement timeout expired, or its application rejected them",
        "Two ACKs of a redelivered entry would indicate an acknowledgement timeout; widely differing ages at the "
        "requests would indicate negative acknowledgements.",
        "Find out which of the two the consumer uses. Raise the timeout, or check why messages are rejected.",
        severity="",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-ack-timeout",
    "messages redelivered because the consumer's acknowledgement timeout expired, or may have expired",
    "apache/pulsar#3185",
    _REDELIVERIES,
    because_of=(
        "ack-timeout-too-short",
        "poison-message",
    ),
)
