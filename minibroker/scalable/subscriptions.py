"""The operations of the REST API on a subscription of a scalable topic, which exists on its segments.

Rules of this file (measured on 5.0.1)
1. A subscription is created on the active segments, at their ends. Its type is that of the first request.
2. All other operations apply to the segments, active or sealed, that have the subscription. None of them fails if there
   is none.
3. A deletion leaves the subscription on segments where consumers are connected, and removes registered consumers
   without telling them. A seek closes the consumers.
4. A seek to a time skips a segment that was sealed up to this time. It starts a segment that was created from this time
   on at its first message, whatever the publish times of its messages are. The partitions of a migrated topic do not
   count as created (ScalableTopicController.seekSubscriptionOnSegment).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.codec.scalable import Segment
    from pcli.minibroker.scalable.scalable_topic import ScalableTopic
    from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService
    from pcli.minibroker.topics.subscription import Subscription


def _each(service: ScalableTopicService, topic: ScalableTopic, name: str) -> Iterator[tuple[Segment, Subscription]]:
    for segment in topic.layout.segments.values():
        stored = service.segment_topic(topic, segment)
        if stored is not None and name in stored.subscriptions:
            yield segment, stored.subscriptions[name]


def create_subscription(service: ScalableTopicService, topic: ScalableTopic, name: str, kind: str) -> None:
    """Create a subscription. ``kind`` is STREAM or QUEUE."""
    topic.subscription_types.setdefault(name, kind)
    for segment in topic.layout.active:
        service.open_segment(topic.segment_name(segment), [name])
    service.publish(topic)


def delete_subscription(service: ScalableTopicService, topic: ScalableTopic, name: str) -> None:
    """Delete a subscription."""
    topic.subscription_types.pop(name, None)
    service.unregister_all(topic, name)
    for _, one in _each(service, topic, name):
        if not one.consumers:
            one.topic.remove_subscription(one)
    service.publish(topic)


def seek(service: ScalableTopicService, topic: ScalableTopic, name: str, timestamp: int) -> None:
    """Move a subscription to the first messages that were published at or after a time (ms since 1970; rule 4)."""
    for segment, one in _each(service, topic, name):
        if 0 < segment.sealed_ms <= timestamp:
            one.skip_all()
        else:
            starts = not segment.legacy_topic and 0 < segment.created_ms >= timestamp
            one.reset(one.offset_at(0 if starts else timestamp))


def skip_all(service: ScalableTopicService, topic: ScalableTopic, name: str) -> None:
    """Acknowledge all messages on a subscription."""
    for _, one in _each(service, topic, name):
        one.skip_all()
