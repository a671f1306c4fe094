"""The administrative operations on the captured broker, inferred from the commands that it sent unrequested.

Rules of this file
1. A CLOSE_PRODUCER or CLOSE_CONSUMER that no client command caused starts an operation. CLOSEs of one topic within two
   seconds belong to one operation, until the same producer or consumer, after reconnecting, is closed once more.
2. The kind of operation. Terminate: the broker reports the end of the topic or refuses new producers with
   TopicTerminatedError. Delete: a topic watcher is notified of the deletion, or a subscription reconnects and receives
   none of its unacknowledged entries. If only the consumers of one subscription are closed, its cursor was reset to the
   first entry that it receives a second time; if there is none, the subscription was deleted. If only producers are
   closed, the cause is a backlog quota and not an operation. Otherwise: unload.
3. A restart: the broker ended all open connections within two seconds, and none because of the client's last command.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pcli.codec.observe import Consumer, Producer
from pcli.codec.proto import pb
from pcli.replay.player.id_translation import Place, place_of
from pcli.replay.player.script.rest_calls import RESTART, Call, Rename, topic_path
from pcli.replay.player.script.script import Line, Script

__all__ = ["Deed", "interventions"]

_TOGETHER_MS: Final = 2000
_CLOSES: Final = ("CLOSE_PRODUCER", "CLOSE_CONSUMER")
_ASKING: Final = ("SEEK", "UNSUBSCRIBE")


@dataclass(frozen=True, slots=True)
class Deed:
    """One operation, and the captured line that shows it first."""

    line: Line
    topic: str
    """Empty for all topics."""
    call: Call


def interventions(script: Script, rename: Rename = str) -> list[Deed]:
    """Return all operations; ``rename`` maps captured topic names to those in the calls."""
    deeds: list[Deed] = []
    restart = _restart(script)
    for group in _groups(script):
        topic = group[0].topic
        call = _which(script, group, topic, topic_path(rename(topic)))
        if call is not None:
            deeds.append(Deed(group[0], topic, call))
    deeds += _unseen(script, {deed.topic for deed in deeds}, rename)
    if restart is not None:
        deeds.append(Deed(restart, "", RESTART))
    return deeds


def _groups(script: Script) -> Iterator[list[Line]]:
    """Yield the unrequested CLOSEs, grouped by operation."""
    open_: dict[str, list[Line]] = {}
    for line in _unasked(script):
        topic = line.topic
        group = open_.get(topic)
        again = group is not None and any(_same_peer(line, one) for one in group)
        if group is not None and not again and line.time_ms - group[0].time_ms < _TOGETHER_MS:
            group.append(line)
            continue
        if group is not None:
            yield group
        open_[topic] = [line]
    yield from open_.values()


def _same_peer(one: Line, other: Line) -> bool:
    """Return whether both lines close the same producer or consumer of a client, which reconnected in between."""
    mine, theirs = one.peer, other.peer
    alike = one.part == other.part and type(mine) is type(theirs)
    return alike and mine is not None and theirs is not None and mine.id == theirs.id


def _unasked(script: Script) -> Iterator[Line]:
    asking: dict[tuple[str, str], int] = {}
    requests: dict[int, tuple[str, str]] = {}
    for line in script.lines:
        key = _asks(line)
        if key is not None and line.frame is not None:
            requests[line.frame.number] = key
            asking[key] = asking.get(key, 0) + 1
        elif line.name in _CLOSES and not line.from_client and line.topic:
            subscription = line.peer.subscription if isinstance(line.peer, Consumer) else ""
            if not asking.get((line.topic, subscription)):
                yield line
        elif line.request is not None and line.request.number in requests:
            asking[requests.pop(line.request.number)] -= 1


def _asks(line: Line) -> tuple[str, str] | None:
    """Return the topic and subscription (empty for producers) that the broker may close because of a client's line."""
    if line.name in _ASKING and isinstance(line.peer, Consumer):
        return line.peer.topic, line.peer.subscription
    if line.name == "PRODUCER" and line.frame is not None:
        command = line.frame.command.producer
        if command.producer_access_mode == pb.ExclusiveWithFencing:
            return command.topic, ""
    return None


def _which(script: Script, group: list[Line], topic: str, path: str) -> Call | None:
    """Return the call that closes this group and nothing else, or None if there is no such call."""
    if _terminated(script, topic, group):
        return Call("POST", f"{path}/terminate")
    if _deleted(script, topic, group[0].index) or _forgotten(script, group):
        return Call("DELETE", f"{path}?force=true")
    subscriptions = {line.peer.subscription for line in group if isinstance(line.peer, Consumer)}
    if len(subscriptions) == 1 and all(isinstance(line.peer, Consumer) for line in group) and _others(script, group):
        return _reset(script, group, f"{path}/subscription/{next(iter(subscriptions))}")
    if all(isinstance(line.peer, Producer) for line in group) and _others(script, group):
        return None
    return Call("PUT", f"{path}/unload")


def _terminated(script: Script, topic: str, group: list[Line]) -> bool:
    if any(isinstance(line.peer, Consumer) for line in group):
        return False
    return any(_tells_end(line, topic) for line in script.lines[group[0].index :])


def _tells_end(line: Line, topic: str) -> bool:
    if line.name == "REACHED_END_OF_TOPIC":
        return line.topic == topic
    refused = line.name == "ERROR" and line.frame is not None and line.request is not None
    if not refused or line.frame is None or line.request is None:
        return False
    return line.frame.command.error.error == pb.TopicTerminatedError and line.request.topic == topic


def _deleted(script: Script, topic: str, index: int) -> bool:
    updates = (line.frame for line in script.lines[index:] if line.name == "WATCH_TOPIC_UPDATE")
    return any(frame is not None and topic in frame.command.watchTopicUpdate.deleted_topics for frame in updates)


def _forgotten(script: Script, group: list[Line]) -> bool:
    """Return whether a closed subscription reconnected and received none of its unacknowledged entries."""
    for peer in (line.peer for line in group):
        if not isinstance(peer, Consumer):
            continue
        history = [line for line in script.lines if _is_of(line, peer)]
        before = [line for line in history if line.index < group[0].index]
        after = [line for line in history if line.index > group[-1].index]
        left = set(_places(before, "MESSAGE")) - set(_places(before, "ACK"))
        back = any(line.name == "FLOW" for line in after)
        if back and left and not left & set(_places(after, "MESSAGE")) and not any(map(_is_cumulative, before)):
            return True
    return False


def _is_of(line: Line, peer: Consumer) -> bool:
    other = line.peer
    return isinstance(other, Consumer) and (other.topic, other.subscription) == (peer.topic, peer.subscription)


def _is_cumulative(line: Line) -> bool:
    frame = line.frame
    return line.name == "ACK" and frame is not None and frame.command.ack.ack_type == pb.CommandAck.Cumulative


def _places(lines: list[Line], name: str) -> Iterator[Place]:
    for line in lines:
        if line.frame is not None and line.name == name:
            command = line.frame.command
            ids = command.ack.message_id if name == "ACK" else [command.message.message_id]
            yield from map(place_of, ids)


def _others(script: Script, group: list[Line]) -> bool:
    """Return whether another producer or consumer used the topic before and after the group and was not closed."""
    topic, closed = group[0].topic, {line.peer for line in group}
    start, end = group[0].index, group[-1].index
    before = {line.peer for line in script.lines[:start] if line.peer is not None and line.peer.topic == topic}
    after = {line.peer for line in script.lines[end:] if line.peer is not None and line.peer.topic == topic}
    return any(peer not in closed for peer in before & after)


def _reset(script: Script, group: list[Line], path: str) -> Call:
    """Return a reset to the first entry that the subscription receives a second time, or its deletion if none."""
    peer = group[0].peer
    assert isinstance(peer, Consumer)
    seen: set[Place] = set()
    for line in script.lines:
        if line.name != "MESSAGE" or line.frame is None or not isinstance(line.peer, Consumer):
            continue
        if (line.peer.topic, line.peer.subscription) == (peer.topic, peer.subscription):
            place = place_of(line.frame.command.message.message_id)
            if line.index > group[-1].index and place in seen:
                return Call("POST", f"{path}/resetcursor", place=place)
            seen.add(place)
    return Call("DELETE", f"{path}?force=true")


def _unseen(script: Script, known: set[str], rename: Rename) -> Iterator[Deed]:
    """Yield the terminations and deletions that no CLOSE preceded."""
    for line in script.lines:
        topic = line.topic
        if line.name == "REACHED_END_OF_TOPIC" and topic not in known:
            known.add(topic)
            yield Deed(line, topic, Call("POST", f"{topic_path(rename(topic))}/terminate"))
        elif line.name == "WATCH_TOPIC_UPDATE" and line.frame is not None:
            for name in line.frame.command.watchTopicUpdate.deleted_topics:
                if name not in known:
                    known.add(name)
                    yield Deed(line, name, Call("DELETE", f"{topic_path(rename(name))}?force=true"))


def _restart(script: Script) -> Line | None:
    """Return the end of the first connection that the broker closed when it restarted, or None if it did not."""
    ends = [
        line for line in script.lines if line.frame is None and not line.from_client and not _asked_for(script, line)
    ]
    return ends[0] if ends and _all_ended(script, ends[0]) else None


def _all_ended(script: Script, end: Line) -> bool:
    """Return whether every connection that was open at this end also ended within two seconds of it."""
    begun = {line.part for line in script.lines[: end.index]}
    later = {line.part for line in script.lines[end.index :] if line.time_ms > end.time_ms + _TOGETHER_MS}
    return not begun & later


def _asked_for(script: Script, end: Line) -> bool:
    """Return whether a connection ended because of a refusal, a login, or a SEND to a closed producer."""
    said = [line for line in script.lines[: end.index] if line.part == end.part]
    return not said or said[-1].name in ("ERROR", "AUTH_CHALLENGE", "SEND", "CONNECT", "AUTH_RESPONSE")
