"""All unacknowledged messages were redelivered because the consumer requested redelivery.

## What it means

REDELIVER_UNACKNOWLEDGED_MESSAGES without ids requests redelivery of all unacknowledged messages. On Shared
subscriptions the broker redelivers everything that this consumer holds. On Exclusive and Failover subscriptions it
restarts at the first unacknowledged message: individually acknowledged messages are skipped, but all other messages are
redelivered, including those that are being processed. Clients send this command for
`redeliverUnacknowledgedMessages()`, and on Exclusive and Failover subscriptions also for an acknowledgement timeout or
a negative acknowledgement of a single message.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES without ids (newer clients add a `consumer_epoch`), then MESSAGEs starting at an
earlier id.

## What would disprove it

A SEEK (see after-seek) or a new SUBSCRIBE (see redelivered-after-reconnect).

## What to do

If one late message causes hundreds of redeliveries, use a Shared or Key_Shared subscription, where single messages can
be redelivered, or set a timeout that is longer than the processing time.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.redelivery_rule_factory import Redelivery, redelivery_rule

__all__ = ["RULE"]

_REDELIVERIES: Final = {
    "rewind": Redelivery(
        Cause("application"),
        "because the consumer requested all its unacknowledged messages",
        "A SEEK or a new SUBSCRIBE in between would be another cause; there is none.",
        "On Exclusive and Failover subscriptions one late message causes redelivery of all messages: raise the "
        "timeout, or use Shared.",
        severity="",
    ),
}

RULE = redelivery_rule(
    "rewound",
    "redelivery of all unacknowledged messages at the consumer's request",
    "apache/pulsar#4118",
    _REDELIVERIES,
)
