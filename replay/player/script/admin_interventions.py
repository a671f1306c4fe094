"""The administrative operations on the captured broker, inferred from the broker's unrequested commands.

Rules of this file
1. A CLOSE_PRODUCER or CLOSE_CONSUMER that no client command caused starts an operation. CLOSEs of one topic within two
   seconds belong to one operation. If a producer or consumer is closed again after it reconnected, a new operation
   starts.
2. An operation is a termination if the broker reports the end of the topic or refuses new producers with
   TopicTerminatedError. It is a deletion if a topic watcher is notified of the deletion, or if a subscription
   reconnects and receives none of its unacknowledged entries. If only the consumers of one subscription are closed, its
   cursor was reset to the first entry that it receives a second time. If there is no such entry, the subscription was
   deleted. If only producers are closed, the cause is a backlog quota and not an operation. Any other operation is an
   unload.
3. The broker was restarted if it ended all open connections within two seconds and no client's last command was the
   cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pcli.codec.observe import Consumer, Producer
from pcli.codec.proto import pb
from pcli.codec.scalable import scalable_topic
from pcli.codec.wire.frame import Frame
from pcli.replay.player.id_translation import Position, position_of
from pcli.replay.player.script.scalable_topic_changes import TopicChange
from pcli.replay.player.script.script import RESTART, TOGETHER_MS, Rename, RestCall, Script, Step, topic_path

_CLOSES: Final = ("CLOSE_PRODUCER", "CLOSE_CONSUMER")
_CLOSING_REQUESTS: Final = ("SEEK", "UNSUBSCRIBE")


@dataclass(frozen=True, slots=True)
class Intervention:
    """One operation, and the first captured step that shows it."""

    step: Step
    topic: str
    """The topic; empty for all topics."""
    call: RestCall
    keeps_acks: bool = False
    """Whether no ACK is lost: the topic is not loaded again, or its cursor changes."""


def find_interventions(script: Script, rename: Rename = str, changes: Sequence[TopicChange] = ()) -> list[Intervention]:
    """Return all operations. ``rename`` maps captured topic names to the names in the calls.

    ``changes`` are the changes of scalable topics, which also close producers and consumers.
    """
    interventions: list[Intervention] = []
    restart = _restart(script)
    sealed = {name: change.step.index for change in changes for name in change.replaced}
    for group in _groups(script, sealed):
        topic = group[0].topic
        call = _call_for_group(script, group, topic, topic_path(rename(topic)))
        if call is not None and call.path.startswith("segments/"):
            call = replace(call, segments=(topic,))
        if call is not None:
            interventions.append(Intervention(group[0], topic, call, _keeps_acks(call)))
    interventions += _unseen(script, {*sealed, *(intervention.topic for intervention in interventions)}, rename)
    interventions += [
        Intervention(change.step, name, change.call, keeps_acks=True)
        for change in changes
        for name in change.replaced or (change.topic,)
    ]
    if restart is not None:
        interventions.append(Intervention(restart, "", RESTART))
    return interventions


def _keeps_acks(call: RestCall) -> bool:
    return call.method == "DELETE" or call.position is not None or "/seek?" in call.path


def _groups(script: Script, sealed: Mapping[str, int]) -> Iterator[list[Step]]:
    """Yield the unrequested CLOSEs, grouped by operation, without those of segments that were sealed."""
    open_: dict[str, list[Step]] = {}
    for step in _unrequested(script):
        topic = step.topic
        if step.index >= sealed.get(topic, len(script.steps)):
            continue
        group = open_.get(topic)
        again = group is not None and any(_same_peer(step, one) for one in group)
        if group is not None and not again and step.time_ms - group[0].time_ms < TOGETHER_MS:
            group.append(step)
            continue
        if group is not None:
            yield group
        open_[topic] = [step]
    yield from open_.values()


def _same_peer(one: Step, other: Step) -> bool:
    """Return whether both steps close the same producer or consumer, which reconnected in between."""
    mine, theirs = one.peer, other.peer
    alike = one.stream == other.stream and type(mine) is type(theirs)
    return alike and mine is not None and theirs is not None and mine.id == theirs.id


def _unrequested(script: Script) -> Iterator[Step]:
    pending: dict[tuple[str, str], int] = {}
    requests: dict[int, tuple[str, str]] = {}
    for step in script.steps:
        key = _closes_allowed_by(step)
        if key is not None and step.frame is not None:
            requests[step.frame.number] = key
            pending[key] = pending.get(key, 0) + 1
        elif step.name in _CLOSES and not step.from_client and step.topic:
            subscription = step.peer.subscription if isinstance(step.peer, Consumer) else ""
            if not pending.get((step.topic, subscription)):
                yield step
        elif step.request is not None and step.request.number in requests:
            pending[requests.pop(step.request.number)] -= 1


def _closes_allowed_by(step: Step) -> tuple[str, str] | None:
    """Return the topic and subscription (empty for producers) that the broker may close because of a client's step."""
    if step.name in _CLOSING_REQUESTS and isinstance(step.peer, Consumer):
        return step.peer.topic, step.peer.subscription
    if step.name == "PRODUCER" and step.frame is not None:
        command = step.frame.command.producer
        if command.producer_access_mode == pb.ExclusiveWithFencing:
            return command.topic, ""
    return None


def _call_for_group(script: Script, group: list[Step], topic: str, path: str) -> RestCall | None:
    """Return the call that causes exactly the CLOSEs of this group, or None if there is none."""
    if _terminated(script, topic, group):
        return RestCall("POST", f"{path}/terminate")
    if _deleted(script, topic, group[0].index) or _lost_subscription(script, group):
        return RestCall("DELETE", f"{path}?force=true")
    subscriptions = {step.peer.subscription for step in group if isinstance(step.peer, Consumer)}
    if len(subscriptions) == 1 and all(isinstance(step.peer, Consumer) for step in group) and _others(script, group):
        return _reset(script, group, f"{path}/subscription/{next(iter(subscriptions))}")
    if all(isinstance(step.peer, Producer) for step in group) and _others(script, group):
        return None
    if scalable_topic(topic):  # no REST request unloads a single segment
        _, tenant, namespace, *_ = path.split("/")
        return RestCall("PUT", f"namespaces/{tenant}/{namespace}/unload")
    return RestCall("PUT", f"{path}/unload")


def _terminated(script: Script, topic: str, group: list[Step]) -> bool:
    if any(isinstance(step.peer, Consumer) for step in group):
        return False
    return any(_is_end_of_topic(step, topic) for step in script.steps[group[0].index :])


def _is_end_of_topic(step: Step, topic: str) -> bool:
    if step.name == "REACHED_END_OF_TOPIC":
        return step.topic == topic
    refused = step.name == "ERROR" and step.frame is not None and step.request is not None
    if not refused or step.frame is None or step.request is None:
        return False
    return step.frame.command.error.error == pb.TopicTerminatedError and step.request.topic == topic


def _deleted(script: Script, topic: str, index: int) -> bool:
    updates = (step.frame for step in script.steps[index:] if step.name == "WATCH_TOPIC_UPDATE")
    return any(frame is not None and topic in frame.command.watchTopicUpdate.deleted_topics for frame in updates)


def _lost_subscription(script: Script, group: list[Step]) -> bool:
    """Return whether a closed subscription reconnected and received none of its unacknowledged entries."""
    for peer in (step.peer for step in group):
        if not isinstance(peer, Consumer):
            continue
        history = [step for step in script.steps if _is_of(step, peer)]
        before = [step for step in history if step.index < group[0].index]
        after = [step for step in history if step.index > group[-1].index]
        left = set(_places(before, "MESSAGE")) - set(_places(before, "ACK"))
        back = any(step.name == "FLOW" for step in after)
        if back and left and not left & set(_places(after, "MESSAGE")) and not any(map(_is_cumulative, before)):
            return True
    return False


def _is_of(step: Step, peer: Consumer) -> bool:
    other = step.peer
    return isinstance(other, Consumer) and (other.topic, other.subscription) == (peer.topic, peer.subscription)


def _is_cumulative(step: Step) -> bool:
    frame = step.frame
    return step.name == "ACK" and frame is not None and frame.command.ack.ack_type == pb.CommandAck.Cumulative


def _places(steps: list[Step], name: str) -> Iterator[Position]:
    for step in steps:
        if step.frame is not None and step.name == name:
            command = step.frame.command
            ids = command.ack.message_id if name == "ACK" else [command.message.message_id]
            yield from map(position_of, ids)


def _others(script: Script, group: list[Step]) -> bool:
    """Return whether a producer or consumer that was not closed used the topic before and after the group."""
    topic, closed = group[0].topic, {step.peer for step in group}
    start, end = group[0].index, group[-1].index
    before = {step.peer for step in script.steps[:start] if step.peer is not None and step.peer.topic == topic}
    after = {step.peer for step in script.steps[end:] if step.peer is not None and step.peer.topic == topic}
    return any(peer not in closed for peer in before & after)


def _reset(script: Script, group: list[Step], path: str) -> RestCall:
    """Return a reset to the first entry that the subscription receives a second time, or else its deletion."""
    peer = group[0].peer
    assert isinstance(peer, Consumer)
    seen: set[Position] = set()
    for step in script.steps:
        if step.name != "MESSAGE" or step.frame is None or not isinstance(step.peer, Consumer):
            continue
        if (step.peer.topic, step.peer.subscription) == (peer.topic, peer.subscription):
            position = position_of(step.frame.command.message.message_id)
            if step.index > group[-1].index and position in seen:
                if scalable_topic(peer.topic):
                    return RestCall("POST", f"{path}/seek?timestamp={_publish_time(step.frame)}")
                return RestCall("POST", f"{path}/resetcursor", position=position)
            seen.add(position)
    return RestCall("DELETE", f"{path}?force=true")


def _publish_time(frame: Frame) -> int:
    return frame.metadata.publish_time if frame.metadata is not None else 0


def _unseen(script: Script, known: set[str], rename: Rename) -> Iterator[Intervention]:
    """Yield the terminations and deletions that were not preceded by a CLOSE."""
    for step in script.steps:
        topic = step.topic
        if step.name == "REACHED_END_OF_TOPIC" and topic not in known:
            known.add(topic)
            yield Intervention(step, topic, RestCall("POST", f"{topic_path(rename(topic))}/terminate"))
        elif step.name == "WATCH_TOPIC_UPDATE" and step.frame is not None:
            for name in step.frame.command.watchTopicUpdate.deleted_topics:
                if name not in known:
                    known.add(name)
                    yield Intervention(step, name, RestCall("DELETE", f"{topic_path(rename(name))}?force=true"))


def _restart(script: Script) -> Step | None:
    """Return the end of the first connection that the broker closed in a restart, or None if there was no restart."""
    ends = [
        step
        for step in script.steps
        if step.frame is None and not step.from_client and not _caused_by_client(script, step)
    ]
    return ends[0] if ends and _all_ended(script, ends[0]) else None


def _all_ended(script: Script, end: Step) -> bool:
    """Return whether every connection that was open at this time also ended within two seconds."""
    begun = {step.stream for step in script.steps[: end.index]}
    later = {step.stream for step in script.steps[end.index :] if step.time_ms > end.time_ms + TOGETHER_MS}
    return not begun & later


def _caused_by_client(script: Script, end: Step) -> bool:
    """Return whether a connection ended because of a refusal, a login, or a SEND to a closed producer."""
    earlier = [step for step in script.steps[: end.index] if step.stream == end.stream]
    return not earlier or earlier[-1].name in ("ERROR", "AUTH_CHALLENGE", "SEND", "CONNECT", "AUTH_RESPONSE")
