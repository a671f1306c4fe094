"""Periods in which the controller of a scalable topic assigns a segment to a registered consumer.

Rules of this file
1. A period begins with the assignment that contains the segment. It ends with the next assignment of the same
   registration that lacks the segment or has other entry buckets of it, or with the registration.
2. An assignment that begins a hand-over begins a period, also if the consumer had the segment before.
3. A registration that received no segment has one period without a segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pcli.codec.observe.tracking.records.scalable_records import ControlledConsumerRecord, HandOver, ScalableTopicRecord

_REMOVED: Final = "removed"
"""The end of a period: the consumer's next assignment lacks the segment."""

_CHANGED: Final = "changed"
"""The end of a period: the consumer's next assignment has other entry buckets of the segment, or a hand-over began."""


@dataclass(slots=True)
class AssignmentPeriod:
    """A period in which a registered consumer has a segment. Times are ns since 1970, -1 if unknown."""

    record: ControlledConsumerRecord
    """The registration."""
    since_ns: int
    since_frame: int
    segment: int | None = None
    """None if the registration received no segment."""
    epoch: int | None = None
    """Epoch of the layout in the assignment."""
    buckets: tuple[tuple[int, int], ...] = ()
    """Ranges of the entry buckets; empty if the consumer has the whole segment."""
    until_ns: int = -1
    end: str = ""
    """``removed``, ``changed``, or the end of the registration; empty if the period has not ended."""
    hand_over: HandOver | None = None
    """The hand-over that the assignment began; None if no other consumer had the segment."""


def assignment_periods(topic: ScalableTopicRecord) -> Iterator[AssignmentPeriod]:
    """Yield the periods of a topic, by registration and beginning."""
    hand_overs = {(one.frame, one.subscription, one.after, one.segment): one for one in topic.hand_overs}
    for consumer in topic.consumers:
        yield from _of_consumer(consumer, hand_overs)


def _of_consumer(
    consumer: ControlledConsumerRecord, hand_overs: dict[tuple[int, str, str, int], HandOver]
) -> list[AssignmentPeriod]:
    open_now: dict[int, AssignmentPeriod] = {}
    periods: list[AssignmentPeriod] = []
    for one in consumer.assignments:
        for number in [number for number in open_now if number not in one.segments]:
            _end(open_now.pop(number), one.time_ns, _REMOVED)
        for number, buckets in one.segments.items():
            hand_over = hand_overs.get((one.frame, consumer.subscription, consumer.name, number))
            older = open_now.get(number)
            if older is not None:
                if older.buckets == buckets and hand_over is None:
                    continue
                _end(older, one.time_ns, _CHANGED)
            times = one.time_ns, one.frame
            open_now[number] = AssignmentPeriod(consumer, *times, number, one.epoch, buckets, hand_over=hand_over)
            periods.append(open_now[number])
    if not periods:
        periods.append(AssignmentPeriod(consumer, consumer.began_ns, consumer.frame))
    for period in periods:
        if consumer.end and not period.end:
            _end(period, consumer.ended_ns, consumer.end)
    return periods


def _end(period: AssignmentPeriod, time_ns: int, end: str) -> None:
    period.until_ns, period.end = time_ns, end
