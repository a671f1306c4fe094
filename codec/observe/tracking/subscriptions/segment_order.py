"""Order per key across the segments of a scalable topic.

Rules of this file
1. A segment is sealed before its children store messages, so all its messages are older than those of its children. The
   range of a segment overlaps those of its ancestors and descendants only. The segment of a key with a higher id is
   therefore the descendant.
2. Only first deliveries are compared, because redeliveries are out of order. The position of the entry is above all
   earlier deliveries of the subscription on the segment: otherwise a seek may have caused the delivery.
3. The key of a batch is that of its first message.

Source: traffic of V5 clients 5.0.1 at splits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.lifecycle import Delivery
from pcli.codec.observe.tracking.records.scalable_records import SegmentRecord
from pcli.codec.observe.tracking.subscriptions.topic_state import Position

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.subscriptions.subscription_state import SubscriptionState


def check_order(
    subscription: SubscriptionState, segment: SegmentRecord, at: Position, key: str, delivery: Delivery
) -> None:
    """Process an entry with a key that a subscription receives for the first time in the capture."""
    if delivery.redelivery_count or at <= subscription.read_position:
        return
    topic, place = segment.topic, (subscription.record.name, key)
    newest, frame = topic.newest_of_key.get(place, (segment.id, 0))
    if segment.id < newest:
        overtaken = topic.overtaken.setdefault(subscription.record.name, Occurrences())
        overtaken.add(delivery.time_ns, delivery.frame, frame, sample=key, count=delivery.messages)
    elif segment.segment is None or segment.segment.parents:
        topic.newest_of_key[place] = segment.id, delivery.frame
