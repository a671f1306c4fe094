"""Messages that were redelivered because the consumer that held them left, or the topic was unloaded.

## What it means

Delivered, unacknowledged messages are assigned to a consumer only while it is attached. When the client closes the
consumer, when its connection breaks, when the broker closes the consumer (unload, restart, load balancing), or when
another consumer of a Failover subscription becomes active, these messages are redelivered to the attached consumers.
Messages that were processed but whose ACK was not yet sent are processed twice. This is the most frequent source of
duplicates and is not a fault.

## On the wire

The end of a consumer or connection (CLOSE_CONSUMER, FIN, RST, ACTIVE_CONSUMER_CHANGE), then MESSAGE with the
unacknowledged ids, often with redelivery count 0: a disconnect does not increase the count.

## What would disprove it

If the message was acknowledged before the consumer left, the ACK was lost: see ack-lost.

## What to do

Applications must tolerate these duplicates. A smaller receiver queue and a shorter grouping time for acknowledgements
reduce the number of affected messages. If such duplicates are frequent, find out which side closes the connection: see
reconnect-loop and the broker's load balancer.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.redelivery_rule_factory import Redelivery, redelivery_rule

__all__ = ["RULE"]

_REDELIVERIES: Final = {
    "left": Redelivery(
        Cause("application"),
        "after the consumer that held them was closed",
        "An ACK before the consumer was closed would disprove the finding.",
        "Acknowledge processed messages before closing the consumer. The remaining messages are delivered to "
        "other consumers.",
    ),
    "lost": Redelivery(
        None,
        "after the connection of the consumer that held them broke",
        "An ACK before the connection broke would disprove the finding.",
        "Make the application tolerate duplicates. Find out why the connection broke.",
    ),
    "unload": Redelivery(
        Cause("broker"),
        "after the broker closed their consumer and the consumer resubscribed (unload, restart, deletion)",
        "An ACK before the CLOSE_CONSUMER would disprove the finding.",
        "Make the application tolerate duplicates. If topics are moved often, check the load balancer of the brokers.",
    ),
    "takeover": Redelivery(
        Cause("broker"),
        "after another consumer became the active one",
        "An ACK from the previous consumer would disprove the finding.",
        "Make the application tolerate duplicates: the new active consumer starts at the first unacknowledged message.",
    ),
    "reopened": Redelivery(
        Cause("application"),
        "after the subscription had no consumer and a consumer subscribed again",
        "An ACK from the previous consumer would disprove the finding.",
        "Acknowledge processed messages before the last consumer leaves.",
    ),
}

RULE = redelivery_rule(
    "redelivered-after-reconnect",
    "messages redelivered because the consumer that held them left, or the topic was unloaded",
    "apache/pulsar#23056",
    _REDELIVERIES,
    because_of=(
        "broker-unavailable",
        "keep-alive-missed",
        "auth-expired",
    ),
)
