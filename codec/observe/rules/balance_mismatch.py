"""Messages that were stored for a subscription, but that it never received, although it received later messages.

## What it means

The message balance of the subscription does not add up: *stored* is greater than the sum of the messages that were
delivered, dropped or removed, or that remain. The cursor passed the missing messages without a delivery. Nothing on the
wire moves a cursor forward in this way. The possible causes are

- an administrator who skipped messages, cleared the backlog, expired messages or reset the cursor,
- the time to live of the namespace or topic (messageTTL), or a backlog quota that evicts the oldest messages,
- an entry filter of the broker that rejects messages, or the compaction of the topic,
- a fault of the broker.

## On the wire

SENDs with receipts while the subscription exists; MESSAGEs with later entries in the order of the topic; no MESSAGE for
the entries in between. `pcli stats balances` shows the balance.

## What would disprove it

A delivery of the messages to a consumer of the subscription on a connection that is not in the capture. Messages of
aborted transactions and skipped messages after a SEEK do not count.

## What to do

Compare the time with the log of the broker and with the calls of the admin API. `totalMsgExpired` and
`filterRejectedMsgCount` in the statistics of the subscription show whether messages expired or were rejected. Increase
the time to live if consumers need the messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.observe.rules.finding import EDGES, GAPS, Cause, Finding, Moment, rule, why_unsure
from pcli.codec.observe.rules.finding_text import (
    about_subscription,
    count_of,
    first_of,
    frames_text,
    subscription_subject,
)
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord

_NOT_DELIVERED: Final = Cause(
    "broker",
    "likely",
    (
        "an administrator that skipped, cleared or expired them or reset the cursor",
        "messages whose time to live ended",
        "an entry filter that rejected them",
    ),
    "The statistics of the subscription, and the calls in the broker's log.",
)


@rule(
    "subscription",
    facts=("passed_over", "topic.doubts"),
    title="messages that a subscription never received, although it received later messages",
    issue="apache/pulsar#6027",
    effect=("message was never delivered", "messages were never delivered"),
)
def evaluate(subscription: SubscriptionRecord, moment: Moment) -> Iterator[Finding]:
    """Return a finding if messages were passed over."""
    passed = subscription.passed_over
    doubts = subscription.doubts | subscription.topic.doubts
    if not passed.count or GAPS & doubts:
        return
    yield Finding(
        "warning",
        "likely",
        _NOT_DELIVERED,
        subscription_subject(subscription),
        f"{count_of(passed.count, 'message')} {'was' if passed.count == 1 else 'were'} stored while "
        f"{about_subscription(subscription)} existed, but never delivered, although later messages were"
        f"{first_of(passed)} ({frames_text(passed.frames)}).",
        opposite="A delivery on a connection that is not in the capture would disprove the finding."
        + why_unsure(doubts - EDGES),
        advice="Compare the time with the broker's log and the calls of the admin API, and check totalMsgExpired and "
        "filterRejectedMsgCount in the statistics of the subscription.",
        seen=passed,
    )
