"""Invariants of the assignments of segments to the stream and checkpoint consumers of a scalable topic.

The assignments are those that the broker sent. The state of a subscription is checked after each turn in which one was
sent, because the broker sends the assignments of all consumers in one turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from simulation.invariants.scalable_layouts import seen_layouts
from simulation.invariants.violation import Violation, at

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout

if TYPE_CHECKING:
    from simulation.execution import Run
    from simulation.history import History, WireFrame

_NOWHERE = -1, -1
_Ranges = tuple[tuple[int, int], ...]


@dataclass
class _Registered:
    """A registered consumer."""

    kind: int
    place: tuple[int, int]
    """Its connection and consumer id; (-1, -1) after a start of the broker."""
    places: set[tuple[int, int]]
    """``place``, and the earlier places of the name whose connections are open."""
    segments: dict[int, _Ranges] | None = None
    """The entry buckets of each assigned segment, empty for a whole segment; None if the assignment is not known."""
    lost_at: int | None = None
    """The time at which its connection ended, or None."""
    leaves: bool = False
    """Whether its departure was requested."""


@dataclass
class _Group:
    """The registered consumers of a subscription, by name."""

    consumers: dict[str, _Registered] = field(default_factory=dict)
    epoch: int = -1
    frame: WireFrame | None = None
    """The newest assignment."""

    def forget_disconnected(self) -> None:
        """Forget the assignments of consumers without connection: they can change without a frame."""
        for one in self.consumers.values():
            if one.lost_at is not None:
                one.segments = None

    def is_changed(self, name: str, segments: dict[int, _Ranges]) -> bool:
        """Return whether an assignment shows that all consumers may have got new ones.

        The consumer is new, it has lost a segment, or it has segments that no consumer had or other entry buckets.
        """
        former = self.consumers.get(name)
        own = former.segments or {} if former is not None else {}
        if any(own.get(segment, ranges) != ranges for segment, ranges in segments.items()):
            return True
        assigned = {segment for one in self.consumers.values() for segment in one.segments or {}}
        return former is None or not own.keys() <= segments.keys() <= assigned

    def expire(self, now: int, grace_ms: int) -> None:
        """Remove the consumers whose grace period has ended."""
        late = [
            name for name, one in self.consumers.items() if one.lost_at is not None and one.lost_at + grace_ms <= now
        ]
        for name in late:
            del self.consumers[name]
        if late:
            self.forget_disconnected()


class _Groups:
    """The subscriptions of all scalable topics."""

    def __init__(self, grace_ms: int) -> None:
        self._grace_ms = grace_ms
        self._groups: dict[tuple[str, str], _Group] = {}
        self._leaving: dict[tuple[int, int], int] = {}
        """The ids of the consumers that leave, by connection and request id."""
        self.lost: list[tuple[WireFrame, str, str, str]] = []
        """The consumers that a start has not restored: the start, and their topics, subscriptions and names."""

    def walk(self, history: History) -> Iterator[tuple[str, str, _Group]]:
        """Yield the topic, the name and the state of each subscription after each turn with an assignment."""
        for _, frames in groupby(history.frames, key=lambda frame: frame.turn):
            changed: dict[tuple[str, str], None] = {}
            for frame in frames:
                key = self._see(frame)
                if key is not None:
                    changed[key] = None
            for key in changed:
                yield *key, self._groups[key]

    def _see(self, frame: WireFrame) -> tuple[str, str] | None:
        if frame.name == "started":
            self._restore(frame)
        elif frame.name in ("closed", "restart"):
            self._see_end(frame)
        elif frame.name == "SCALABLE_TOPIC_UNSUBSCRIBE":
            self._leaving[frame.link, frame.body.request_id] = frame.body.consumer_id
            for _, _, one in self._with_id(frame.link, frame.body.consumer_id):
                one.leaves = True
        elif frame.name == "SUCCESS" and (frame.link, frame.body.request_id) in self._leaving:
            self._leave(frame.link, self._leaving.pop((frame.link, frame.body.request_id)))
        elif frame.registration is not None and frame.body.HasField("assignment"):
            key = frame.registration.topic, frame.registration.subscription
            self._assigned(self._groups.setdefault(key, _Group()), frame)
            return key
        return None

    def _restore(self, frame: WireFrame) -> None:
        """Replace the consumers with the restored ones, whose connections have ended."""
        for key, group in self._groups.items():
            group.expire(frame.time, self._grace_ms)
            left = {name for name, one in group.consumers.items() if not one.leaves}
            self.lost += [(frame, *key, name) for name in left - frame.body.consumers.get(key, {}).keys()]
            group.consumers.clear()
        self._leaving.clear()
        for key, kinds in frame.body.consumers.items():
            group = self._groups.setdefault(key, _Group())
            group.consumers = {
                name: _Registered(kind, _NOWHERE, set(), None, frame.time) for name, kind in kinds.items()
            }

    def _see_end(self, frame: WireFrame) -> None:
        for group in self._groups.values():
            group.expire(frame.time, self._grace_ms)
            for one in group.consumers.values():
                is_restart = frame.name == "restart"  # the broker closes all connections, which end later
                left = {place for place in one.places if not is_restart and place[0] != frame.link}
                if left != one.places:
                    one.places, one.lost_at = left, frame.time

    def _leave(self, link: int, number: int) -> None:
        """Remove the consumer that left. The broker compares only the id (measured on 5.0.1)."""
        for group, name, _ in self._with_id(link, number):
            del group.consumers[name]
            group.forget_disconnected()
        for group in self._groups.values():
            for one in group.consumers.values():
                one.places.discard((link, number))

    def _with_id(self, link: int, number: int) -> list[tuple[_Group, str, _Registered]]:
        """Return the consumers that a client can remove, with their groups and names."""
        return [
            (group, name, one)
            for group in self._groups.values()
            for name, one in group.consumers.items()
            if (link, number) in one.places and one.place[1] == number
        ]

    def _assigned(self, group: _Group, frame: WireFrame) -> None:
        group.expire(frame.time, self._grace_ms)
        request, assignment = frame.registration, frame.body.assignment
        segments = {
            one.segment_id: tuple((part.start, part.end) for part in one.bucket_ranges) for one in assignment.segments
        }
        if assignment.layout_epoch != group.epoch or group.is_changed(request.consumer_name, segments):
            group.forget_disconnected()
        group.epoch, group.frame = assignment.layout_epoch, frame
        former = group.consumers.get(request.consumer_name)
        place = frame.link, request.consumer_id
        places = {place} if former is None else former.places | {place}
        group.consumers[request.consumer_name] = _Registered(request.consumer_type, place, places, segments)


def _groups(run: Run) -> _Groups:
    return _Groups(run.network.broker.settings.scalableTopicConsumerSessionGracePeriodSeconds * 1000)


def registered_consumers_survive_restarts(run: Run) -> Iterator[Violation]:
    """A start of a killed broker restores the consumers with a response to their registration.

    A consumer whose departure was requested can be restored or not.
    """
    groups, name = _groups(run), "registered_consumers_survive_restarts"
    for _, _, group in groups.walk(run.history):
        run.checks[name] += len(group.consumers)
    for frame, topic, subscription, consumer in groups.lost[:1]:
        yield at(name, frame, f"{topic}, subscription {subscription}: consumer {consumer} is not registered any more")


def segments_have_one_owner(run: Run) -> Iterator[Violation]:
    """A segment is assigned to one consumer of a subscription, or is shared by at most as many as it has buckets.

    A consumer whose connection ended keeps its segments for the grace period, until another consumer joins or leaves,
    the layout changes or a segment is drained. The grace period also begins when an earlier connection of its name
    ends (measured on 5.0.1).
    """
    name = "segments_have_one_owner"
    for topic, subscription, group in _groups(run).walk(run.history):
        owners: dict[int, list[tuple[str, _Ranges]]] = {}
        for consumer, one in group.consumers.items():
            for segment, ranges in (one.segments or {}).items():
                owners.setdefault(segment, []).append((consumer, ranges))
        assert group.frame is not None
        for segment, found in owners.items():
            run.checks[name] += 1
            if len(found) > 1 and not all(1 < len(ranges) >= len(found) for _, ranges in found):
                names = ", ".join(consumer for consumer, _ in found)
                text = f"{topic}, subscription {subscription}: segment {segment} is assigned to {names}"
                yield at(name, group.frame, text)
                return


def _layouts(run: Run) -> dict[tuple[str, int], Layout]:
    return {(topic, layout.epoch): layout for _, topic, layout in seen_layouts(run.history)}


def _ancestors(layout: Layout, number: int) -> set[int]:
    found: set[int] = set()
    waiting = list(layout.segments[number].parents)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += layout.segments[one].parents
    return found


def assignments_cover_every_segment(run: Run) -> Iterator[Violation]:
    """Each segment of the layout is assigned, except drained ones, and those that wait for an assigned ancestor.

    Only stream consumers skip segments. Subscriptions with a consumer whose assignment is not known are exempt.
    """
    name, layouts = "assignments_cover_every_segment", _layouts(run)
    for topic, subscription, group in _groups(run).walk(run.history):
        layout = layouts.get((topic, group.epoch))
        assert group.frame is not None
        if layout is None or any(one.segments is None for one in group.consumers.values()):
            run.exempt[name] += 1
            continue
        assigned = {segment for one in group.consumers.values() for segment in one.segments or {}}
        run.checks[name] += len(layout.segments)
        for number in layout.segments.keys() - assigned:
            skips = any(one.kind == pb.STREAM for one in group.consumers.values())
            if not skips or not (number in group.frame.drained or _ancestors(layout, number) & assigned):
                text = f"{topic}, subscription {subscription}: segment {number} is assigned to no consumer"
                yield at(name, group.frame, text)
                return


def children_follow_drained_parents(run: Run) -> Iterator[Violation]:
    """A segment is assigned to stream consumers only when the subscription has acknowledged all of its ancestors."""
    name, layouts = "children_follow_drained_parents", _layouts(run)
    for topic, subscription, group in _groups(run).walk(run.history):
        layout, frame = layouts.get((topic, group.epoch)), group.frame
        assert frame is not None
        stream = any(one.kind == pb.STREAM for one in group.consumers.values())
        if layout is None or not stream or frame.registration.consumer_type != pb.STREAM:
            continue
        for one in frame.body.assignment.segments:
            ancestors = _ancestors(layout, one.segment_id)
            run.checks[name] += len(ancestors)
            if left := ancestors - frame.drained:
                text = f"{topic}, subscription {subscription}: segment {one.segment_id} is assigned before {min(left)}"
                yield at(name, frame, f"{text} is drained")
                return
