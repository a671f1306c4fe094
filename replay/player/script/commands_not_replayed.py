"""Commands that the captured broker refused or dropped during an administrative operation, and which are not replayed.

Rules of this file
1. During an unload or restart the broker refused commands (ServiceNotReady, "fenced", no broker found) or dropped
   them. A live broker may be ready sooner and accept them. These commands are not sent and their responses are not
   awaited: the captured clients sent them once more later.
2. A SEND without a receipt was dropped, unless the capture delivers its entry with a message id that no receipt
   contains: then only the receipt was lost.
3. An ACK was dropped if an entry that it acknowledges is delivered afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.player.id_translation import Place, place_of
from pcli.replay.player.script.admin_interventions import Deed
from pcli.replay.player.script.recorded_sends import answers_to_sends
from pcli.replay.player.script.script import Line, Script

__all__ = ["topics_of", "unsaid"]

_AWAY: Final = frozenset({pb.ServiceNotReady, pb.PersistenceError, pb.MetadataError})


def topics_of(names: str | list[str]) -> Iterator[TopicName]:
    """Yield the topics that a request named, without invalid names."""
    for name in names if isinstance(names, list) else [names]:
        try:
            yield TopicName.parse(str(name))  # bytes if it is not valid UTF-8
        except LocalError:
            continue


def unsaid(script: Script, deeds: list[Deed]) -> set[int]:
    """Return the indexes of lines that are not sent, and of their responses."""
    topics = {deed.topic for deed in deeds}
    if not topics:
        return set()
    return {*_refused(script, topics), *_lost_sends(script, topics), *_lost_acks(script, deeds)}


def _refused(script: Script, topics: set[str]) -> Iterator[int]:
    """Yield requests to these topics (an empty name: all topics) that were refused temporarily, and the responses."""
    answers = {line.request.number: line for line in script.lines if line.request is not None}
    for line in script.lines:
        answer = answers.get(line.frame.number) if line.from_client and line.frame is not None else None
        if answer is None or answer.request is None or _error_of(answer) not in _AWAY:
            continue
        if "" in topics or topics & set(map(str, topics_of(answer.request.topic))):
            yield from (line.index, answer.index)


def _error_of(answer: Line) -> int | None:
    """Return the error of a response, or None if it has none."""
    command = answer.frame.command if answer.frame is not None else pb.BaseCommand()
    if command.HasField("error"):
        return command.error.error
    if command.HasField("lookupTopicResponse") and command.lookupTopicResponse.HasField("error"):
        return command.lookupTopicResponse.error
    return None


def _lost_sends(script: Script, topics: set[str]) -> Iterator[int]:
    """Yield SENDs that were not stored, and their SEND_ERRORs."""
    answers = answers_to_sends(script.lines)
    unclaimed = _unclaimed(script, answers)
    for line in script.lines:
        if line.name != "SEND" or not ("" in topics or line.topic in topics):
            continue
        answer = answers.get(line)
        if answer is None and unclaimed.get(line.content):
            unclaimed[line.content].pop()
        elif answer is None or answer.name == "SEND_ERROR":
            yield from (one.index for one in (line, answer) if one is not None)


def _unclaimed(script: Script, answers: dict[Line, Line]) -> dict[bytes, set[Place]]:
    """Return the message ids, by entry, from which an entry was delivered and that no receipt contains."""
    found: dict[bytes, set[Place]] = {}
    for line in script.lines:
        if line.name == "MESSAGE" and line.frame is not None:
            found.setdefault(line.content, set()).add(place_of(line.frame.command.message.message_id))
    for send, answer in answers.items():
        if answer.name == "SEND_RECEIPT" and answer.frame is not None:
            found.get(send.content, set()).discard(place_of(answer.frame.command.send_receipt.message_id))
    return found


def _lost_acks(script: Script, deeds: list[Deed]) -> Iterator[int]:
    """Yield ACKs during an unload, termination or restart of which an entry is redelivered afterwards."""
    for deed in deeds:
        if deed.call.place is not None or deed.call.method == "DELETE":
            continue
        again: dict[tuple[str, str], set[Place]] = {}
        for line in reversed(script.lines[deed.line.index :]):
            if not isinstance(line.peer, Consumer) or line.frame is None or deed.topic not in ("", line.topic):
                continue
            places = again.setdefault((line.topic, line.peer.subscription), set())
            if line.name == "MESSAGE":
                places.add(place_of(line.frame.command.message.message_id))
            elif line.name == "ACK" and places & set(map(place_of, line.frame.command.ack.message_id)):
                yield line.index
