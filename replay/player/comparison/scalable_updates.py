"""The captured and live layouts and assignments of segments that each session and each consumer received.

Rules of this file
1. A broker sends a layout again when a controller is elected, when a consumer registers or leaves, and when the loads
   of segments are reported. A repetition contains nothing new for the client.
2. A broker can skip a layout or an assignment if the next one follows soon. A client that receives the next one has
   missed nothing. Such a layout or assignment is possible only if the capture has its segments and its epoch.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout, contradictions, selected_topic
from pcli.codec.wire.commands import name_of
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import EXTRA, MISSING, Outcome
from pcli.replay.player.response_matching import ResponseMatcher, has_controller, key_of
from pcli.replay.player.script.script import Script
from pcli.replay.player.segment_translation import LIVE_ONLY

_LAYOUT: Final = "SCALABLE_TOPIC_UPDATE"
_ASSIGNMENT: Final = "SCALABLE_TOPIC_ASSIGNMENT_UPDATE"


class ScalableUpdates:
    """The layouts and assignments of one finished replay."""

    def __init__(self, script: Script, matcher: ResponseMatcher) -> None:
        self._captured: set[Hashable] = set()
        self._live: set[Hashable] = set()
        self._last_captured: dict[Hashable, int] = {}
        """The index of each receiver's last captured update that also arrived in the replay."""
        self._last_live: dict[Hashable, int] = {}
        """The number of each receiver's last live update that was also captured."""
        self.segments: set[str] = set()
        """The names of all captured segments."""
        self._ranges: set[tuple[int, int, int]] = set()
        """Id and range of all captured segments."""
        self._epochs: set[int] = set()
        self._controlled: tuple[set[str], set[str]] = (set(), set())
        """The topics with a controller, in the capture and in the replay."""
        self._older = False
        """Whether a live topic had segments that the captured topic did not have."""
        for step in script.steps:
            if step.frame is not None and step.name in (_LAYOUT, _ASSIGNMENT):
                self._captured.add(_key(step.stream, step.frame))
                epoch, segments = _content(step.frame)
                self._epochs.add(epoch)
                self._ranges.update(segments)
            if step.layout is not None:
                topic = selected_topic(step.layout.topic)
                self.segments.update(one.name(topic) for one in step.layout.after.segments.values())
                if step.layout.after.controller:
                    self._controlled[0].add(step.layout.topic)
        for pair in matcher.pairs:
            if pair.frame is None or name_of(pair.frame.type) not in (_LAYOUT, _ASSIGNMENT):
                continue
            self._live.add(_key(pair.stream, pair.frame))
            self._older |= any(number >= LIVE_ONLY for number, *_ in _content(pair.frame)[1])
            if has_controller(pair.frame) and pair.step is not None and pair.step.layout is not None:
                self._controlled[1].add(pair.step.layout.topic)
            if pair.step is not None:
                receiver = _receiver(pair.stream, pair.frame)
                self._last_captured[receiver] = max(pair.step.index, self._last_captured.get(receiver, -1))
                self._last_live[receiver] = pair.order

    def is_repeated(self, outcome: Outcome) -> bool:
        """Return whether the session received the same layout in the capture and in the replay.

        Consumers receive an assignment again if the broker finds out that a segment from before the replay is drained.
        """
        found = _update(outcome)
        if found is None or (outcome.name == _ASSIGNMENT and not self._older):
            return False
        return _key(*found) in self._captured & self._live

    def is_between(self, outcome: Outcome) -> bool:
        """Return whether a later update of the same receiver was sent in the capture and in the replay."""
        found = _update(outcome)
        if found is None:
            return False
        receiver = _receiver(*found)
        if outcome.step is not None:
            return outcome.step.index < self._last_captured.get(receiver, -1)
        epoch, segments = _content(found[1])
        known = {one for one in segments if one[0] < LIVE_ONLY}
        possible = epoch in self._epochs and known <= self._ranges
        return possible and outcome.pair.order < self._last_live.get(receiver, -1)

    def was_controlled(self, outcome: Outcome) -> bool:
        """Return whether the topic of a layout had a controller in the capture and in the replay."""
        layout = outcome.step.layout if outcome.step is not None else None
        return layout is not None and all(layout.topic in topics for topics in self._controlled)


def _update(outcome: Outcome) -> tuple[int, Frame] | None:
    """Return the connection and the frame of a layout or assignment that only one of the brokers sent."""
    if outcome.name not in (_LAYOUT, _ASSIGNMENT) or not any(
        one.field in (EXTRA, MISSING) for one in outcome.differences
    ):
        return None
    frame = outcome.frame if outcome.step is None else outcome.step.frame
    return None if frame is None else (outcome.stream, frame)


def _key(stream: int, frame: Frame) -> Hashable:
    return key_of(stream, frame), has_controller(frame)


def _receiver(stream: int, frame: Frame) -> Hashable:
    body = frame.body
    return stream, frame.type, getattr(body, "session_id", None), getattr(body, "consumer_id", None)


def _content(frame: Frame) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the epoch, and the id and range of each segment. A layout that contradicts itself has the epoch -1."""
    body: Any = frame.body
    if isinstance(body, pb.CommandScalableTopicUpdate):
        wrong = any(contradictions(Layout.of(body.dag)))
        epoch, segments = -1 if wrong else body.dag.epoch, body.dag.segments
    else:
        epoch, segments = body.assignment.layout_epoch, body.assignment.segments
    return epoch, [(one.segment_id, one.hash_start, one.hash_end) for one in segments]
