"""Names and states of segments and their consumers in findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pcli.codec.observe.rules.finding_text import count_of
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.client_records import ConsumerRecord, ProducerRecord
from pcli.codec.observe.tracking.records.scalable_records import (
    ControlledConsumerRecord,
    ScalableTopicRecord,
    SegmentRecord,
)
from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord
from pcli.codec.scalable.segment_name import name_on_segment

_SEAL_NS: Final = 10_000_000_000
"""Maximum time from the first effect of a seal on a producer to the layout that shows it."""


def topic_text(topic: ScalableTopicRecord) -> str:
    """Return ``scalable topic orders``."""
    return f"scalable topic {printable(topic.name.removeprefix('topic://').removeprefix('public/default/'))}"


def segments_text(numbers: Iterable[int]) -> str:
    """Return ``segment 3`` or ``segments 0, 2``."""
    listed = sorted(numbers)
    return f"segment{'s' if len(listed) > 1 else ''} {', '.join(map(str, listed))}"


def about_controlled(consumer: ControlledConsumerRecord) -> str:
    """Return ``consumer s1 (subscription billing on scalable topic orders)``."""
    return (
        f"consumer {printable(consumer.name)} (subscription {printable(consumer.subscription)} on "
        f"{topic_text(consumer.topic)})"
    )


def subscription_of(topic: ScalableTopicRecord, subscription: str, consumer: str) -> dict[str, Any]:
    """Return the subject of a finding about a registered consumer."""
    return {"topic": topic.name, "subscription": subscription, "consumer": consumer}


def backlog_on(topic: ScalableTopicRecord, subscription: str, segments: Iterable[int]) -> str:
    """Return the entries that a subscription has not acknowledged on some segments: ``5 entries``; empty if none."""
    total, exact = 0, True
    for number in segments:
        segment = topic.segments.get(number)
        record = segment.subscription(subscription) if segment is not None else None
        if record is not None:
            total += record.backlog_least if record.backlog is None else record.backlog
        exact = exact and record is not None and record.backlog is not None
    return f"{'' if exact else 'at least '}{count_of(total, 'entry', 'entries')}" if total else ""


def is_controlled(consumer: ConsumerRecord) -> bool:
    """Return whether the controller has assigned the segment to its consumer, which the old consumer can delay.

    If the capture does not contain the registration of the consumer, its name decides.
    """
    segment = consumer.subscription.topic.segment if consumer.subscription is not None else None
    suffix = name_on_segment("", segment.id) if segment is not None else ""
    if segment is None or not consumer.name.endswith(suffix):
        return False
    name = consumer.name.removesuffix(suffix)
    registered = [
        one
        for one in segment.topic.consumers
        if one.name == name and one.subscription == consumer.subscription_name and one.assignments
    ]
    assigned = any(segment.id in assignment.segments for one in registered for assignment in one.assignments)
    return assigned or (not registered and consumer.type in ("Exclusive", "Key_Shared"))


def is_handed_over(subscription: SubscriptionRecord) -> bool:
    """Return whether the controller took the segment of a subscription from a consumer that remained registered."""
    segment = subscription.topic.segment
    if segment is None:
        return False
    return any(
        one.segment == segment.id
        and one.subscription == subscription.name
        and any(
            consumer.name == one.before and (not consumer.end or consumer.ended_ns > one.time_ns)
            for consumer in segment.topic.consumers
            if consumer.subscription == one.subscription
        )
        for one in segment.topic.hand_overs
    )


def is_classic_client(producer: ProducerRecord) -> bool:
    """Return whether the topic of a producer was migrated, and its client does not read the layout that replaced it."""
    segment = producer.topic_record.segment if producer.topic_record is not None else None
    if segment is None or segment.segment is None or not segment.segment.legacy_topic or producer.session is None:
        return False
    return producer.session.stream not in {one.stream for one in segment.topic.sessions}


def sealed_segment(producer: ProducerRecord, time_ns: int) -> SegmentRecord | None:
    """Return the segment of a producer if it was sealed at about a time, or None."""
    segment = producer.topic_record.segment if producer.topic_record is not None else None
    if segment is None or not segment.sealed or segment.sealed_ns - time_ns > _SEAL_NS:
        return None
    return segment
