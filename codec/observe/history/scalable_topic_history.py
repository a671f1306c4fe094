"""The histories of a scalable topic and of a consumer that is registered with its controller.

Their events are the changes, assignments and hand-overs in the record of the topic, so they are added at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pcli.codec.observe.history.event_log import Event, Log
from pcli.codec.observe.history.object_history import ObjectHistory, State, end_kind
from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.rules.finding import Finding
from pcli.codec.observe.rules.finding_text import at, count_of, span, times
from pcli.codec.observe.rules.segment_text import backlog_on, segments_text, topic_text
from pcli.codec.observe.text_format import printable
from pcli.codec.observe.tracking.records.connection_records import ENDS
from pcli.codec.observe.tracking.records.scalable_records import (
    Assignment,
    ControlledConsumerRecord,
    HandOver,
    ScalableTopicRecord,
    SegmentRecord,
    UnattendedSegment,
)
from pcli.codec.scalable.segment_name import name_on_segment

_SLOW_NS = 5_000_000_000
"""Minimum duration in ns of a hand-over that is as important as a refused consumer."""


class _ScalableHistory(ObjectHistory):
    """What both histories share: the topic."""

    record: ScalableTopicRecord

    @property
    def topic(self) -> str:
        """The full name of the topic."""
        return self.record.name

    def see(self, facts: Facts) -> None:
        """Process nothing: the record contains all events."""

    def doubts(self) -> set[str]:
        """Return why the history may be incomplete."""
        return self.record.doubts


class ScalableTopicHistory(_ScalableHistory):
    """The history of a scalable topic."""

    kind = "topic"

    def __init__(self, record: ScalableTopicRecord, log: Log) -> None:
        super().__init__(log)
        self.record = record

    @property
    def name(self) -> str:
        """The full name of the topic."""
        return self.record.name

    def title(self) -> str:
        """Return the topic."""
        return topic_text(self.record)

    def finish(self, now_ns: int) -> State:
        """Add all events, and return the state at a time."""
        record = self.record
        for change in record.changes:
            text = f"The layout changed: {change.change} (epoch {change.change.epoch})."
            self.log.add(Event("layout", change.time_ns, change.frame, text, variety=change.change.kind))
        for consumer in record.consumers:
            text = f"{_title(consumer)} was registered: {_assigned(consumer.assignments[:1])}."
            self.log.add(Event("opened", consumer.began_ns, consumer.frame, text))
            if consumer.end:
                text = f"{_title(consumer)} left with {_assigned(consumer.assignments[-1:])}: {ENDS[consumer.end]}."
                self.log.add(Event(end_kind(consumer.end), consumer.ended_ns, consumer.ended_frame, text))
        for hand_over in record.hand_overs:
            self.log.add(_hand_over(hand_over))
        for period in record.unattended:
            self.log.add(_unattended(period))
        return State(*_state(record))

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a record concerns the topic."""
        if record is self.record:
            return ""
        topic = {"consumer": "subscription", "subscription": "", "key": "subscription"}.get(group)
        if group == "producer":
            segment = record.topic_record.segment if record.topic_record is not None else None
        elif topic is None:
            return None
        else:
            subscription = getattr(record, topic) if topic else record
            segment = subscription.topic.segment if subscription is not None else None
        return f"segment {segment.id}" if segment is not None and segment.topic is self.record else None


class ControlledConsumerHistory(_ScalableHistory):
    """The history of a stream or checkpoint consumer, over all its registrations."""

    kind = "consumer"

    def __init__(self, registrations: list[ControlledConsumerRecord], log: Log) -> None:
        super().__init__(log)
        self.record = registrations[-1].topic
        self._registrations = registrations

    @property
    def name(self) -> str:
        """The name that the consumer registered with."""
        return self._registrations[-1].name

    @property
    def subscription(self) -> str:
        """The name of its subscription."""
        return self._registrations[-1].subscription

    def title(self) -> str:
        """Return the consumer with its topic and subscription."""
        last = self._registrations[-1]
        return (
            f"consumer {printable(last.name)} (subscription {printable(last.subscription)} on {topic_text(last.topic)})"
        )

    def finish(self, now_ns: int) -> State:
        """Add all events, and return the state at a time."""
        for one in self._registrations:
            text = f"Registered with the controller ({one.type}): {_assigned(one.assignments[:1])}."
            if one.error:
                text = f"The controller refused the registration: {printable(one.error)}."
            self.log.add(Event("refused" if one.error else "opened", one.began_ns, one.frame, text))
            for before, after in zip(one.assignments, one.assignments[1:], strict=False):
                if before.segments != after.segments:
                    text = f"The controller assigned {_assigned([after])} (epoch {after.epoch})."
                    self.log.add(Event("assignment", after.time_ns, after.frame, text))
            if one.end:
                kind = end_kind(one.end)
                self.log.add(Event(kind, one.ended_ns, one.ended_frame, f"It left: {ENDS[one.end]}."))
        for hand_over in self.record.hand_overs:
            if hand_over.subscription == self.subscription and self.name in (hand_over.before, hand_over.after):
                self.log.add(_hand_over(hand_over))
        for period in self.record.unattended:
            if period.consumer in self._registrations:
                self.log.add(_unattended(period))
        last = self._registrations[-1]
        if last.end:
            return State(f"Not registered: {ENDS[last.end]}.", {"registered": False, "segments": []})
        if not last.assignments:
            return State("Registered; the capture contains no assignment.", {"registered": True, "segments": None})
        left = backlog_on(self.record, self.subscription, last.segments)
        text = f"Registered, with {_assigned(last.assignments[-1:])}; {left or 'no entries'} in the backlog of them."
        return State(text, {"registered": True, "segments": sorted(last.segments)})

    def relation(self, group: str, record: Any, finding: Finding) -> str | None:
        """Return how a record concerns the consumer: its registrations, and its consumers of segments."""
        if record is self.record and finding.subject.get("consumer") == self.name:
            return ""
        if group != "consumer" or record.subscription is None or record.subscription.topic.segment is None:
            return None
        segment = record.subscription.topic.segment
        own = record.subscription_name == self.subscription and record.name == name_on_segment(self.name, segment.id)
        return f"segment {segment.id}" if own and segment.topic is self.record else None


def segment_events(segment: SegmentRecord, backlogs: Mapping[str, int | None]) -> Iterator[Event]:
    """Yield what happened to a segment: its seal, when subscriptions had drained it, its removal, and hand-overs.

    ``backlogs`` contains the current backlogs of its subscriptions.
    """
    topic = segment.topic
    for change in topic.changes:
        if segment.id in change.change.before:
            text = f"The segment was {'removed' if change.change.kind == 'prune' else 'sealed'}: {change.change}."
            yield Event("layout", change.time_ns, change.frame, text, variety=change.change.kind)
    for name, backlog in backlogs.items():
        time_ns, frame = segment.drained(name, backlog)
        if time_ns >= 0:
            text = f"Subscription {printable(name)} had acknowledged all messages of the sealed segment."
            yield Event("drained", time_ns, frame, text, variety=name)
    yield from (_hand_over(one) for one in topic.hand_overs if one.segment == segment.id)
    yield from (_unattended(one) for one in topic.unattended if one.segment == segment.id)


def _hand_over(one: HandOver) -> Event:
    over_ns = max(one.ready_ns, one.withdrawn_ns)
    refused = f", refused {times(one.busy.count)} with ConsumerBusy" if one.busy.count else ""
    text = (
        f"The controller assigned segment {one.segment} of subscription {printable(one.subscription)} from "
        f"{printable(one.before)} to {printable(one.after)}"
    )
    if one.ready_ns >= 0:
        text += f", which had it after {span(one.ready_ns - one.time_ns)} ({at(one.ready_frame)}{refused})."
    elif one.withdrawn_ns >= 0:
        text += f", which left or lost it again after {span(one.withdrawn_ns - one.time_ns)}{refused}."
    else:
        text += f", which has not received it so far{refused}."
    lasted = over_ns - one.time_ns if over_ns >= 0 else _SLOW_NS
    kind = "refused" if lasted >= _SLOW_NS and one.busy.count else "hand-over"
    return Event(kind, one.time_ns, one.frame, text, over_ns, one.ready_frame, lasted, one.subscription)


def _unattended(one: UnattendedSegment) -> Event:
    lasted = one.until_ns - one.since_ns if one.until_ns >= 0 else 0
    text = f"Segment {one.segment} had no consumer of subscription {printable(one.subscription)}"
    text += f" for {span(lasted)}" if one.until_ns >= 0 else " from then on"
    text += f": {printable(one.consumer.name)} was lost."
    return Event("no consumer", one.since_ns, one.since_frame, text, one.until_ns, one.until_frame, lasted)


def _title(consumer: ControlledConsumerRecord) -> str:
    return f"Consumer {printable(consumer.subscription)}/{printable(consumer.name)}"


def _assigned(assignments: list[Assignment]) -> str:
    if not assignments or not assignments[0].segments:
        return "no segments"
    shared = sorted(number for number, buckets in assignments[0].segments.items() if buckets)
    return segments_text(assignments[0].segments) + (f", shared {', '.join(map(str, shared))}" if shared else "")


def _state(record: ScalableTopicRecord) -> tuple[str, dict[str, Any]]:
    layout = record.layout
    if layout is None:
        return "The capture contains no layout of the topic.", {"epoch": None}
    registered = [one for one in record.consumers if not one.end]
    subscriptions = sorted({name for segment in record.segments.values() for name in _subscriptions(segment)})
    text = (
        f"Epoch {layout.epoch}: {count_of(len(layout.active), 'active segment')}, {len(layout.sealed)} sealed; "
        f"controller {printable(record.controller) or 'none'}; {count_of(len(registered), 'registered consumer')}."
    )
    for name in subscriptions[:5]:
        left = backlog_on(record, name, record.segments) or "none"
        text += f" Backlog of subscription {printable(name)}: {left}."
    return text, {"epoch": layout.epoch, "active": len(layout.active), "sealed": len(layout.sealed)}


def _subscriptions(segment: Any) -> Iterator[str]:
    yield from segment.topic_record.subscriptions if segment.topic_record is not None else ()
