"""Everything that was not acknowledged came again, because the consumer asked for all of it.

## What it means

REDELIVER_UNACKNOWLEDGED_MESSAGES without ids means: all. On Shared subscriptions all that this consumer holds; on
Exclusive and Failover the broker goes back to the first message that is not acknowledged and begins there, so that
messages acknowledged individually stay away but all others come, also those in the middle of being worked on. Clients
do so for `redeliverUnacknowledgedMessages()`, and on these two types also for an acknowledgement time-out or a
negative acknowledgement of a single message.

## On the wire

REDELIVER_UNACKNOWLEDGED_MESSAGES with no ids (newer clients add a `consumer_epoch`), then MESSAGEs from an earlier
id on.

## What speaks for the opposite

A SEEK: see after-seek. A new SUBSCRIBE: see redelivered-after-reconnect.

## What to do

If one late message brings hundreds back use a Shared or Key_Shared subscription, where single messages can come again,
or a time-out that is longer than the work.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.again import Cause, redelivery_rule

__all__ = ["RULE"]

_CAUSES: Final = {
    "rewind": Cause(
        "application",
        "because the consumer asked for everything that it had not acknowledged",
        "A SEEK or a new SUBSCRIBE between would be another cause: there is none.",
        "On Exclusive and Failover one late message brings all back: raise the time-out, or use Shared.",
        severity="",
    ),
}

RULE = redelivery_rule(
    "rewound",
    "everything unacknowledged came again because the consumer asked for all",
    "apache/pulsar#4118",
    _CAUSES,
)
