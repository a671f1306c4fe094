"""Translation between the captured and the live segments of scalable topics: ids, names and epochs.

Rules of this file
1. The first live layout of a topic is compared with the first captured one. If their active segments have the same
   ranges, these segments correspond to each other, and the difference of the epochs remains the same for all later
   layouts. A live topic that already had another history is translated in this way too.
2. Other segments correspond to each other if they have the same range and their parents correspond to each other.
3. A live segment without a captured counterpart gets an id from `LIVE_ONLY` on.
4. Responses are translated to captured ids before they are matched and compared. Names of segments in requests get live
   ids. Nothing changes if the ids and the epochs are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout, Segment, SegmentName, selected_topic
from pcli.codec.wire.build import join_frame
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.replay.player.script.script import Script

_UPDATE: Final = BY_NAME["SCALABLE_TOPIC_UPDATE"].number
_RESPONSE: Final = BY_NAME["SCALABLE_TOPIC_SUBSCRIBE_RESPONSE"].number
_ASSIGNMENT: Final = BY_NAME["SCALABLE_TOPIC_ASSIGNMENT_UPDATE"].number
LIVE_ONLY: Final = 1 << 32
"""Added to the id of a live segment without a captured counterpart."""


@dataclass(slots=True)
class _Topic:
    """One scalable topic. The ids of its segments are mapped in both directions."""

    layouts: list[Layout] = field(default_factory=list)
    """The captured layouts in order."""
    live: dict[int, int] = field(default_factory=dict)
    captured: dict[int, int] = field(default_factory=dict)
    epoch_shift: int | None = None
    """What is added to a captured epoch; None before the first live layout."""

    @property
    def unchanged(self) -> bool:
        """Whether all ids and epochs are the same."""
        return not self.epoch_shift and all(captured == live for captured, live in self.live.items())

    def map_layout(self, layout: Layout) -> None:
        """Map the segments of a live layout."""
        if self.epoch_shift is None:
            ours, theirs = _by_range(self.layouts[0].active), _by_range(layout.active)
            self.epoch_shift = layout.epoch - self.layouts[0].epoch if ours.keys() == theirs.keys() else 0
            for place in ours if ours.keys() == theirs.keys() else ():
                self._map(ours[place], theirs[place])
        known = {one.id: one for captured in self.layouts for one in captured.segments.values()}
        for one in sorted(layout.segments.values()):
            if one.id not in self.captured and all(parent in self.captured for parent in one.parents):
                parents = {self.captured[parent] for parent in one.parents}
                found = next((other for other in known.values() if self._is_alike(other, one, parents)), None)
                if found is not None:
                    self._map(found, one)

    def _is_alike(self, captured: Segment, live: Segment, parents: set[int]) -> bool:
        alike = (captured.start, captured.end) == (live.start, live.end) and set(captured.parents) == parents
        return alike and captured.id not in self.live

    def _map(self, captured: Segment, live: Segment) -> None:
        self.live[captured.id], self.captured[live.id] = live.id, captured.id

    def id_of(self, live: int) -> int:
        """Return the captured id of a live segment."""
        return self.captured.get(live, live + LIVE_ONLY)

    def epoch_of(self, live: int) -> int:
        """Return the captured epoch; 0 if it is before the first one."""
        return max(0, live - (self.epoch_shift or 0))


class SegmentIds:
    """The mappings of one replay."""

    def __init__(self, script: Script | None = None) -> None:
        """``script`` contains the captured layouts."""
        self._topics: dict[str, _Topic] = {}
        self._names: dict[tuple[int, str, int], str] = {}
        """The topic of each session, consumer and request, by connection and id."""
        for step in script.steps if script is not None else ():
            if step.layout is not None:
                self._topics.setdefault(selected_topic(step.layout.topic), _Topic()).layouts.append(step.layout.after)
            elif step.name == "SCALABLE_TOPIC_LOOKUP" and step.frame is not None:
                lookup = step.frame.command.scalableTopicLookup
                self._names[step.stream, "session", lookup.session_id] = selected_topic(str(lookup.topic))
            elif step.name == "SCALABLE_TOPIC_SUBSCRIBE" and step.frame is not None:
                subscribe = step.frame.command.scalableTopicSubscribe
                topic = selected_topic(str(subscribe.topic))
                self._names[step.stream, "consumer", subscribe.consumer_id] = topic
                self._names[step.stream, "request", subscribe.request_id] = topic

    @property
    def unchanged(self) -> bool:
        """Whether all ids and epochs are the same so far."""
        return all(topic.unchanged for topic in self._topics.values())

    def live_name(self, name: str) -> str:
        """Return the live name of a captured segment. Other names are returned unchanged."""
        parts = SegmentName.parse(name) if name.startswith("segment://") else None
        topic = self._topics.get(parts.topic) if parts is not None else None
        if parts is None or topic is None:
            return name
        return str(parts._replace(id=topic.live.get(parts.id, parts.id)))

    def captured_frame(self, stream: int, frame: Frame) -> Frame:
        """Return a live frame with captured ids and epochs. If it contains a layout, map its segments first."""
        command = pb.BaseCommand()
        if frame.type == _UPDATE:
            topic = self._topic(stream, "session", frame.command.scalableTopicUpdate.session_id)
            if topic is not None and frame.command.scalableTopicUpdate.HasField("dag"):
                topic.map_layout(Layout.of(frame.command.scalableTopicUpdate.dag))
        elif frame.type == _RESPONSE:
            topic = self._topic(stream, "request", frame.command.scalableTopicSubscribeResponse.request_id)
        elif frame.type == _ASSIGNMENT:
            topic = self._topic(stream, "consumer", frame.command.scalableTopicAssignmentUpdate.consumer_id)
        else:
            return frame
        if topic is None or topic.unchanged:
            return frame
        command.CopyFrom(frame.command)
        if frame.type == _UPDATE:
            _translate_layout(command.scalableTopicUpdate.dag, topic)
        elif frame.type == _RESPONSE:
            _translate_assignment(command.scalableTopicSubscribeResponse.assignment, topic)
        else:
            _translate_assignment(command.scalableTopicAssignmentUpdate.assignment, topic)
        return Frame.of(join_frame(command.SerializePartialToString()))

    def _topic(self, stream: int, kind: str, number: int) -> _Topic | None:
        return self._topics.get(self._names.get((stream, kind, number), ""))


def _by_range(segments: Iterable[Segment]) -> dict[tuple[int, int], Segment]:
    return {(one.start, one.end): one for one in segments}


def _translate_layout(dag: pb.ScalableTopicDAG, topic: _Topic) -> None:
    dag.epoch = topic.epoch_of(dag.epoch)
    for one in dag.segments:
        one.segment_id = topic.id_of(one.segment_id)
        one.parent_ids[:] = map(topic.id_of, one.parent_ids)
        one.child_ids[:] = map(topic.id_of, one.child_ids)
        one.created_at_epoch = topic.epoch_of(one.created_at_epoch)
        if one.HasField("sealed_at_epoch"):
            one.sealed_at_epoch = topic.epoch_of(one.sealed_at_epoch)
    for address in dag.segment_brokers:
        address.segment_id = topic.id_of(address.segment_id)


def _translate_assignment(assignment: pb.ScalableConsumerAssignment, topic: _Topic) -> None:
    assignment.layout_epoch = topic.epoch_of(assignment.layout_epoch)
    for one in assignment.segments:
        one.segment_id = topic.id_of(one.segment_id)
