"""Scalable topics: layouts, sessions, assignments and hand-overs.

Rules of this file
1. The layout of a topic is that of the highest epoch in any session. With the same epoch, a layout with a new segment
   is later: a migration does not increase the epoch. Sessions of other connections can receive an older layout later.
2. A segment's name contains its topic, range and id, so a segment is known without a layout.
3. The controller assigns a segment to one consumer of a subscription, or to several that share its entry buckets. If a
   consumer receives a segment that another one has, or begins or ends to share it, the hand-over ends when its
   SUBSCRIBE on the segment succeeds. Until the old consumer has closed its own, the broker refuses the SUBSCRIBE with
   ConsumerBusy.
4. The consumer of a segment has the name of the registered consumer, ``-seg-`` and the id of the segment, on the same
   connection as the registration.
5. If a stream consumer loses its connection, the controller keeps its share of the segments for a grace period, and can
   assign other segments to it in that time. The capture does not contain such assignments. A segment is unattended if
   a consumer was lost, no registered consumer has the segment or one of its ancestors, and a known consumer had the
   segment or its parents before. The grace period is over when an assignment leaves no segment unattended.
6. A broker refuses the partition metadata of ``persistent://tenant/namespace/name`` with TopicNotFound if ``name`` is a
   scalable topic: clients before 5.0 cannot use it. If the capture contains its layout only later, the segments show
   when it was created.
7. Memory is bounded by the constants below; the oldest objects are dropped first.

Source: traffic of a broker and a client 5.0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.observer_state import Consumer, Facts, LayoutUpdate
from pcli.codec.observe.tracking.records.connection_records import LOST, MAX_CONNECTIONS
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.observe.tracking.records.scalable_records import (
    MAX_SESSIONS,
    Assignment,
    ControlledConsumerRecord,
    HandOver,
    LayoutChange,
    LayoutSessionRecord,
    ScalableTopicRecord,
    SegmentRecord,
    UnattendedSegment,
)
from pcli.codec.proto import pb
from pcli.codec.scalable.layout import Layout, Segment, changes, contradictions
from pcli.codec.scalable.segment_name import SegmentName, name_on_segment, scalable_namesake
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.texts import as_text
from pcli.codec.wire.topic_name import full_name

MAX_TOPICS: Final = 10_000
"""Maximum number of scalable topics."""

MAX_SEGMENTS: Final = 10_000
"""Maximum number of segments of a topic; pruned segments are dropped first."""

MAX_OPEN: Final = 50_000
"""Maximum number of open sessions, of registered consumers, and of assigned segments."""

MAX_CHANGES: Final = 1_000
MAX_CONSUMERS: Final = 1_000
MAX_HAND_OVERS: Final = 1_000
MAX_ASSIGNMENTS: Final = 64

_MAX_EPOCHS: Final = 16
_MAX_CONTRADICTIONS: Final = 64

T = TypeVar("T")


class ScalableTopicTracker:
    """The scalable topics of a capture."""

    def __init__(self) -> None:
        self.topics: BoundedDict[str, ScalableTopicRecord] = BoundedDict(MAX_TOPICS)
        self._doubts: BoundedDict[int, set[str]] = BoundedDict(MAX_CONNECTIONS)
        """The doubts of connections, for topics that they name later."""
        self._sessions: BoundedDict[tuple[int, int], tuple[ScalableTopicRecord | None, LayoutSessionRecord]] = (
            BoundedDict(MAX_OPEN)
        )
        """Open sessions by connection and session id."""
        self._consumers: BoundedDict[tuple[int, int], ControlledConsumerRecord] = BoundedDict(MAX_OPEN)
        """Registered consumers by connection and consumer id."""
        self._open: BoundedDict[tuple[str, str, int], HandOver] = BoundedDict(MAX_OPEN)
        """Hand-overs that have not ended, by topic, subscription and segment."""
        self._owners: BoundedDict[tuple[str, str, int], dict[str, bool]] = BoundedDict(MAX_OPEN)
        """Names of the consumers that have a segment, and whether they share its entry buckets, by topic, subscription
        and segment."""
        self._not_found: BoundedDict[str, BoundedDict[int, Occurrences]] = BoundedDict(MAX_TOPICS)
        """Refused requests about topics of which there is no layout, by the name of a scalable topic and connection."""
        steps: dict[str, Callable[[Facts], None]] = {
            "SCALABLE_TOPIC_LOOKUP": self._lookup,
            "SCALABLE_TOPIC_UPDATE": self._update,
            "SCALABLE_TOPIC_CLOSE": self._close,
            "SCALABLE_TOPIC_SUBSCRIBE": self._subscribe,
            "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE": self._subscribe_response,
            "SCALABLE_TOPIC_ASSIGNMENT_UPDATE": self._assignment_update,
            "SCALABLE_TOPIC_UNSUBSCRIBE": self._unsubscribe,
            "PARTITIONED_METADATA_RESPONSE": self._metadata,
            "SUCCESS": self._response,
            "ERROR": self._response,
        }
        self._steps = {BY_NAME[name].number: step for name, step in steps.items()}

    def see(self, facts: Facts) -> None:
        """Process a frame."""
        step = self._steps.get(facts.frame.type)
        if step is not None:
            step(facts)

    def end(self, stream: int, end: str, time_ns: int, frame: int) -> None:
        """End the sessions and registrations of a connection; ``end`` is a key of ENDS."""
        for key in [key for key in self._sessions if key[0] == stream]:
            self._sessions.pop(key)[1].ended_ns = time_ns
        for key in [key for key in self._consumers if key[0] == stream]:
            self._end_consumer(self._consumers.pop(key), end, time_ns, frame)

    def add_doubts(self, stream: int, doubts: set[str]) -> None:
        """Add doubts (keys of DOUBTS) to the scalable topics of a connection."""
        self._doubts[stream] = set(doubts)
        for record in self.topics.values():
            streams = {one.stream for one in record.sessions} | {one.stream for one in record.consumers}
            if stream in streams:
                record.doubts |= doubts

    def segment(self, name: str) -> SegmentRecord | None:
        """Return the record of a segment by its name ``segment://…``; None if it is not such a name."""
        parts = SegmentName.parse(name)
        if parts is None:
            return None
        return _segment(self._topic(parts.topic), parts.id, parts.start, parts.end)

    def records(self) -> Iterator[tuple[str, Any]]:
        """Yield every scalable topic with the name of its group."""
        for record in list(self.topics.values()):
            yield "scalable_topic", record

    def _topic(self, name: str) -> ScalableTopicRecord:
        record = self.topics.get(name)
        if record is None:
            record = self.topics[name] = ScalableTopicRecord(name)
        return record

    # -- sessions and layouts

    def _lookup(self, facts: Facts) -> None:
        frame, lookup = facts.frame, facts.frame.command.scalableTopicLookup
        self._open_session(facts, lookup.session_id, frame.time_ns, frame.number)

    def _open_session(self, facts: Facts, number: int, time_ns: int, frame: int) -> LayoutSessionRecord:
        stream = facts.frame.stream.number
        session = LayoutSessionRecord(stream, number, time_ns, frame)
        self._sessions[stream, number] = None, session
        return session

    def _update(self, facts: Facts) -> None:
        frame, update = facts.frame, facts.frame.command.scalableTopicUpdate
        key = frame.stream.number, update.session_id
        topic, session = self._sessions.get(key) or (None, None)
        if session is None:
            session = self._open_session(facts, update.session_id, frame.time_ns, 0)
        if update.HasField("error"):
            error = pb.ServerError.Name(update.error)
            session.error = f"{error}: {as_text(update.message)}"
        layout = facts.layout
        if layout is None:
            return
        if topic is None:
            topic = self._topic(layout.topic)
            self._sessions[key] = topic, session
            topic.doubts |= self._doubts.get(key[0], set())
            _append(topic.sessions, session, MAX_SESSIONS)
        session.updates += 1
        session.repeated += layout.before == layout.after
        if not session.epochs or session.epochs[-1][0] != layout.after.epoch:
            _append(session.epochs, (layout.after.epoch, frame.time_ns, frame.number), _MAX_EPOCHS)
        self._apply(topic, layout, frame.time_ns, frame.number)

    def _apply(self, topic: ScalableTopicRecord, update: LayoutUpdate, time_ns: int, frame: int) -> None:
        """Apply a layout to its topic, unless it is older than the topic's layout (rule 1)."""
        topic.updates += 1
        before, after = topic.layout, update.after
        for text in contradictions(after):
            if len(topic.contradictions) < _MAX_CONTRADICTIONS:
                topic.contradictions.setdefault(text, frame)
        if before is not None and after.order < before.order:
            return
        if topic.first_ns < 0:
            topic.first_ns = time_ns
        topic.layout, topic.controller = after, after.controller
        if before is not None and before.segments == after.segments:
            return
        if not after.classic and topic.name in self._not_found:
            created_ns = min((one.created_ms for one in after.segments.values()), default=0) * 1_000_000
            refused = self._not_found.pop(topic.name)
            topic.refused.update((stream, seen) for stream, seen in refused.items() if seen.first_ns >= created_ns)
        for change in changes(before, after):
            _append(topic.changes, LayoutChange(change, time_ns, frame), MAX_CHANGES)
        for one in islice(after.segments.values(), MAX_SEGMENTS):
            _update_segment(_segment(topic, one.id, one.start, one.end), one, after, time_ns, frame)
        for number in before.segments.keys() - after.segments.keys() if before is not None else ():
            gone = topic.segments.get(number)
            if gone is not None:
                gone.pruned_ns, gone.pruned_frame = time_ns, frame
        for subscription in {one.subscription for one in topic.consumers}:
            self._cover(topic, subscription, time_ns, frame)

    def _close(self, facts: Facts) -> None:
        close = facts.frame.command.scalableTopicClose
        _, session = self._sessions.pop((facts.frame.stream.number, close.session_id), (None, None))
        if session is not None:
            session.ended_ns = facts.frame.time_ns

    def _metadata(self, facts: Facts) -> None:
        """Process the response to a request of a classic client (rule 6)."""
        request, (error, _) = facts.request, facts.error
        name = scalable_namesake(full_name(str(request.topic))) if request is not None else ""
        if request is None or error != "TopicNotFound" or not name:
            return
        topic = self.topics.get(name)
        if topic is not None and topic.layout is not None and not topic.layout.classic:
            refused = topic.refused
        else:
            refused = self._not_found.setdefault(name, BoundedDict(MAX_SESSIONS))
        seen = refused.setdefault(facts.frame.stream.number, Occurrences())
        seen.add(facts.frame.time_ns, request.number, facts.frame.number)

    # -- registrations and assignments

    def _subscribe(self, facts: Facts) -> None:
        frame, subscribe = facts.frame, facts.frame.command.scalableTopicSubscribe
        peer = facts.peer
        if not isinstance(peer, Consumer):
            return  # truncated
        topic = self._topic(full_name(as_text(subscribe.topic)))
        key = frame.stream.number, peer.id
        older = self._consumers.get(key)
        if older is not None:
            self._end_consumer(older, "replaced", frame.time_ns, frame.number)
        record = self._consumers[key] = ControlledConsumerRecord(
            topic, peer.subscription, peer.name, peer.type, *key, frame.time_ns, frame.number
        )
        topic.doubts |= self._doubts.get(key[0], set())
        _append(topic.consumers, record, MAX_CONSUMERS)

    def _subscribe_response(self, facts: Facts) -> None:
        response = facts.frame.command.scalableTopicSubscribeResponse
        peer = facts.peer
        record = self._consumers.get((facts.frame.stream.number, peer.id)) if isinstance(peer, Consumer) else None
        if record is None:
            return
        if response.HasField("error"):
            record.error = ": ".join(facts.error)
        if response.HasField("assignment"):
            self._assign(record, response.assignment, facts)

    def _assignment_update(self, facts: Facts) -> None:
        update = facts.frame.command.scalableTopicAssignmentUpdate
        record = self._consumers.get((facts.frame.stream.number, update.consumer_id))
        if record is not None:
            self._assign(record, update.assignment, facts)

    def _unsubscribe(self, facts: Facts) -> None:
        frame = facts.frame
        record = self._consumers.pop((frame.stream.number, frame.command.scalableTopicUnsubscribe.consumer_id), None)
        if record is not None:
            self._end_consumer(record, "closed", frame.time_ns, frame.number)

    def _end_consumer(self, record: ControlledConsumerRecord, end: str, time_ns: int, frame: int) -> None:
        record.end, record.ended_ns, record.ended_frame = end, time_ns, frame
        for number in record.segments:
            key = record.topic.name, record.subscription, number
            hand_over = self._open.get(key)
            if hand_over is not None and hand_over.after == record.name:
                hand_over.withdrawn_ns = time_ns
                del self._open[key]
        self._cover(record.topic, record.subscription, time_ns, frame)

    def _cover(self, topic: ScalableTopicRecord, subscription: str, time_ns: int, frame: int) -> None:
        """Begin and end the periods in which segments of a subscription are unattended (rule 5)."""
        consumers = [one for one in topic.consumers if one.subscription == subscription and one.type == "STREAM"]
        names = {one.name for one in consumers if not one.end}
        lost = [one for one in consumers if one.end in _GRACE_ENDS and one.name not in names and not one.given_up]
        covered = {number for one in consumers if not one.end for number in one.segments}
        open_now = {
            one.segment: one for one in topic.unattended if one.subscription == subscription and one.until_ns < 0
        }
        missing = _uncovered(topic, consumers, covered) if lost and names else set()
        if lost and not names:
            missing = set(open_now)
            if lost[-1].ended_ns == time_ns:  # otherwise the last consumer has left in order, and none is missing
                missing |= {number for number in lost[-1].segments if not _was_closed(lost[-1], number)}
        for number, period in open_now.items():
            if number not in missing:
                period.until_ns, period.until_frame = time_ns, frame
        for number in sorted(missing - open_now.keys()):
            holder = next((one for one in reversed(lost) if number in one.segments), lost[-1])
            period = UnattendedSegment(number, subscription, holder, time_ns, frame)
            _append(topic.unattended, period, MAX_HAND_OVERS)

    def _assign(self, record: ControlledConsumerRecord, message: pb.ScalableConsumerAssignment, facts: Facts) -> None:
        """Add an assignment, and begin and withdraw hand-overs (rule 3)."""
        now, frame = facts.frame.time_ns, facts.frame.number
        segments: dict[int, tuple[tuple[int, int], ...]] = {}
        for one in message.segments:
            segments[one.segment_id] = tuple((part.start, part.end) for part in one.bucket_ranges)
            _segment(record.topic, one.segment_id, one.hash_start, one.hash_end)
        _append(record.assignments, Assignment(message.layout_epoch, now, frame, segments), MAX_ASSIGNMENTS)
        self._cover(record.topic, record.subscription, now, frame)
        _give_up(record.topic, record.subscription)
        if record.type == "CHECKPOINT":
            return  # checkpoint consumers have cursors of their own
        for number, buckets in segments.items():
            key = record.topic.name, record.subscription, number
            owners = self._owners.get(key, {})
            others = {name: shares for name, shares in owners.items() if name != record.name}
            in_the_way = [name for name, shares in others.items() if not (shares and buckets)]
            if in_the_way and owners.get(record.name) is not bool(buckets):
                self._begin_hand_over(key, in_the_way[-1], record, now, frame)
            self._owners[key] = {**(others if buckets else {}), record.name: bool(buckets)}

    def _begin_hand_over(
        self, key: tuple[str, str, int], before: str, record: ControlledConsumerRecord, time_ns: int, frame: int
    ) -> None:
        older = self._open.pop(key, None)
        if older is not None:
            older.withdrawn_ns = time_ns
        self._open[key] = hand_over = HandOver(key[2], key[1], before, record.name, time_ns, frame)
        _append(record.topic.hand_overs, hand_over, MAX_HAND_OVERS)

    def _response(self, facts: Facts) -> None:
        """Process the response to a SUBSCRIBE on a segment (rule 4)."""
        request, peer = facts.request, facts.peer
        if request is None or request.type != _SUBSCRIBE or not isinstance(peer, Consumer):
            return
        parts = SegmentName.parse(peer.topic)
        if parts is None:
            return
        key = parts.topic, peer.subscription, parts.id
        hand_over = self._open.get(key)
        if hand_over is None or peer.name != name_on_segment(hand_over.after, parts.id):
            return
        error, _ = facts.error
        hand_over.waited_ns = max(hand_over.waited_ns, facts.frame.time_ns - request.time_ns)
        if not error:
            hand_over.ready_ns, hand_over.ready_frame = facts.frame.time_ns, facts.frame.number
            del self._open[key]
        elif error == "ConsumerBusy":
            hand_over.busy.add(facts.frame.time_ns, facts.frame.number)


_SUBSCRIBE: Final = BY_NAME["SUBSCRIBE"].number


_GRACE_ENDS: Final = LOST | {"fin_client", "reset_client", "silence"}
"""Ends of connections after which the controller waits for a consumer."""


def _give_up(topic: ScalableTopicRecord, subscription: str) -> None:
    """Forget the lost consumers of a subscription after an assignment, if all its segments are attended (rule 5)."""
    if any(one.until_ns < 0 and one.subscription == subscription for one in topic.unattended):
        return
    for one in topic.consumers:
        if one.subscription == subscription and one.end in _GRACE_ENDS:
            one.given_up = True


def _uncovered(topic: ScalableTopicRecord, consumers: list[ControlledConsumerRecord], covered: set[int]) -> set[int]:
    """Return the segments that no registered consumer has, although a known consumer had them or their parents."""
    had = {number for one in consumers for assignment in one.assignments for number in assignment.segments}
    found = set()
    for number, record in topic.segments.items():
        parents = record.segment.parents if record.segment is not None else ()
        known = number in had or (parents and had.issuperset(parents))
        if (
            record.state in ("active", "unknown")
            and known
            and not covered.intersection((number, *_ancestors(topic, number)))
        ):
            found.add(number)
    return found


def _was_closed(consumer: ControlledConsumerRecord, number: int) -> bool:
    """Return whether a consumer has closed its consumer of a segment, as when the whole client is closed."""
    segment = consumer.topic.segments.get(number)
    subscription = segment.subscription(consumer.subscription) if segment is not None else None
    name = name_on_segment(consumer.name, number)
    found = subscription.consumers.get(name) if subscription is not None else None
    return found is not None and found.session is not None and found.session.end == "closed"


def _ancestors(topic: ScalableTopicRecord, number: int) -> set[int]:
    found: set[int] = set()
    left = [number]
    while left:
        record = topic.segments.get(left.pop())
        parents = record.segment.parents if record is not None and record.segment is not None else ()
        left += [one for one in parents if one not in found]
        found.update(parents)
    return found


def _update_segment(record: SegmentRecord, segment: Segment, layout: Layout, time_ns: int, frame: int) -> None:
    record.segment, record.owner = segment, layout.brokers.get(segment.id, "")
    if record.first_ns < 0:
        record.first_ns = time_ns
    if not segment.active and not record.sealed:
        record.sealed_ns, record.sealed_frame = time_ns, frame


def _segment(topic: ScalableTopicRecord, number: int, start: int, end: int) -> SegmentRecord:
    record = topic.segments.get(number)
    if record is None:
        if len(topic.segments) >= MAX_SEGMENTS:
            pruned = next((one.id for one in topic.segments.values() if one.pruned_ns >= 0), next(iter(topic.segments)))
            del topic.segments[pruned]
        record = topic.segments[number] = SegmentRecord(topic, number, start, end)
    return record


def _append(items: list[T], item: T, most: int) -> None:
    """Append an item; drop the oldest items above the maximum, many at once."""
    items.append(item)
    if len(items) > most + most // 8:
        del items[: len(items) - most]
