"""The frames of scalable topics without the values that differ between runs.

Rules of this file
1. Times of segments are compared by presence, and addresses not at all.
2. The order of ``segment_brokers`` and of the names of a namespace's topics is that of a hash map of the broker.
3. A broker sends a layout to its sessions for each write of the topic's metadata, and reads the layout afterwards. So
   the number of updates depends on timing, and so do the layouts between the first and the last of several changes.
   Only the last layout of each session in a step is compared, and only if it differs from that of an earlier step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from scenarios.recording import Event, Recording

from pcli.codec.capture.frames import START, CapturedFrame
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame
from pcli.codec.wire.commands import BY_NAME

__all__ = ["comparable"]

_UPDATE = BY_NAME["SCALABLE_TOPIC_UPDATE"].number
_NAMES = BY_NAME["WATCH_SCALABLE_TOPICS_UPDATE"].number
_TIMES = ("created_at_ms", "sealed_at_ms")
_ADDRESSES = ("broker_url", "controller_broker_url", "broker_url_tls", "controller_broker_url_tls")


def comparable(recording: Recording) -> Recording:
    """Return a recording without what is not compared. Other frames are unchanged."""
    events: list[Event] = []
    last: dict[tuple[int, int], bytes] = {}
    following: set[tuple[int, int, int]] = set()
    changed = {
        index: _neutral(event.frame)
        for index, event in enumerate(recording.events)
        if event.frame is not None and event.frame.type == _UPDATE and event.frame.body.HasField("dag")
    }
    superseded = set()
    for index in reversed(changed):
        event, body = recording.events[index], changed[index].body
        key = event.stream, body.session_id, event.step
        if key in following:
            superseded.add(index)
        following.add(key)
    for index, event in enumerate(recording.events):
        frame = changed.get(index)
        if event.frame is not None and event.frame.type == _NAMES:
            events.append(replace(event, frame=_sorted_names(event.frame)))
        elif frame is None:
            events.append(event)
        elif index not in superseded:
            session = event.stream, frame.body.session_id
            if last.get(session) != frame.data:
                events.append(replace(event, frame=frame))
            last[session] = frame.data
    return replace(recording, events=events)


def _neutral(frame: CapturedFrame) -> CapturedFrame:
    command = pb.BaseCommand()
    command.CopyFrom(frame.command)
    dag = command.scalableTopicUpdate.dag
    brokers = sorted(dag.segment_brokers, key=lambda one: one.segment_id)
    dag.ClearField("segment_brokers")
    dag.segment_brokers.extend(brokers)
    for one in (dag, *dag.segments, *dag.segment_brokers):
        _neutralize(one)
    return _with(frame, command)


def _sorted_names(frame: CapturedFrame) -> CapturedFrame:
    command = pb.BaseCommand()
    command.CopyFrom(frame.command)
    if command.watchScalableTopicsUpdate.HasField("snapshot"):
        command.watchScalableTopicsUpdate.snapshot.topics.sort()
    return _with(frame, command)


def _with(frame: CapturedFrame, command: pb.BaseCommand) -> CapturedFrame:
    """Return a frame of the broker with another command."""
    data = join_frame(command.SerializePartialToString(), b"")
    return CapturedFrame(
        data, frame.type, frame.number, frame.packet, frame.time_ns, frame.stream, frame.from_client, 0, START
    )


def _neutralize(message: Any) -> None:
    for one, value in message.ListFields():
        if one.name in _TIMES:
            setattr(message, one.name, min(value, 1))
        elif one.name in _ADDRESSES:
            setattr(message, one.name, "URL")
