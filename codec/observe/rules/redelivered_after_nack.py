"""Messages that were redelivered because the consumer rejected them.

## What it means

The application called `negativeAcknowledge` (or the client did, before it moved a message to the retry or dead letter
topic). After a delay the client requests redelivery of those messages by their ids. One or two such requests are
normal. If most deliveries are redeliveries, a downstream system may be unavailable, and the consumer makes no progress.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES with ids, then MESSAGE with these ids and a redelivery count that is higher by one. On
Exclusive and Failover subscriptions brokers redeliver all unacknowledged messages, regardless of the ids.

## What would disprove it

If all messages have a similar age at the redelivery request, an acknowledgement timeout expired: see
redelivered-after-ack-timeout. An exception are ages from 60 s on, the default delay of negative acknowledgements; a
client that checks at intervals (Go, older Java and C++ clients) adds up to 20 s.

## What to do

Check the application's log for the reason. Configure a dead letter policy for messages that can never be processed
(poison-message). A redelivery back-off gives an unavailable dependency time to recover.

docs/clients.md lists the delay and the form of the requests of each client.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.redelivery_rule_factory import Redelivery, redelivery_rule

__all__ = ["RULE"]

_REDELIVERIES: Final = {
    "nack": Redelivery(
        Cause(
            "application",
            "likely",
            ("an acknowledgement timeout",),
            "The configuration of the consumer: ackTimeout and negativeAckRedeliveryDelay.",
        ),
        "because the consumer requested redelivery (negative acknowledgement)",
        "An acknowledgement timeout requests all messages of the same age, at least 1 s old (10 s with C++ and "
        "Python; Go has none); these requests differ, or their age is the default delay of negative "
        "acknowledgements.",
        "Check the application's log for the reason. A back-off and a dead letter policy limit the redeliveries.",
        "likely",
        "",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-nack",
    "messages redelivered because the consumer rejected them",
    "apache/pulsar#23436",
    _REDELIVERIES,
    because_of=("poison-message",),
)
