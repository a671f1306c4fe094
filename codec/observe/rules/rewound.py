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
be redelivered, or find out why the application rejects the message or does not acknowledge it in time.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.observe.rules.finding import Cause
from pcli.codec.observe.rules.finding_text import span
from pcli.codec.observe.rules.redelivery_rule_factory import Redelivery, redelivery_rule
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

__all__ = ["RULE"]

_NACK_DELAY_NS: Final = 60_000_000_000
_LATE_NS: Final = 1_000_000_000


def _ages(subscription: SubscriptionRecord) -> str:
    """Return the ages of the messages at the requests, and what they indicate."""
    ages = [age for consumer in subscription.consumers.values() for age in consumer.asked_all_ages]
    if not ages:
        return ""
    text = f" The youngest unacknowledged message was {span(min(ages))}"
    text += " old" if max(ages) - min(ages) < _LATE_NS // 10 else f" to {span(max(ages))} old"
    if all(0 <= age - _NACK_DELAY_NS < _LATE_NS for age in ages):
        return f"{text}: 60 s is the default delay of negative acknowledgements."
    return f"{text}."


_REDELIVERIES: Final = {
    "rewind": Redelivery(
        Cause("application"),
        "because the consumer requested all its unacknowledged messages",
        "A SEEK or a new SUBSCRIBE in between would be another cause; there is none.",
        "On Exclusive and Failover subscriptions, clients send this request for an expired acknowledgement timeout and "
        "for a negative acknowledgement. Check which of them the application uses. With Shared, only the message "
        "is redelivered.",
        severity="",
        more=_ages,
    ),
}

RULE = redelivery_rule(
    "rewound",
    "redelivery of all unacknowledged messages at the consumer's request",
    "apache/pulsar#4118",
    _REDELIVERIES,
    facts=("consumers.asked_all_ages",),
)
