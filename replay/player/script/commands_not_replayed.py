"""Commands that are not replayed because the captured broker refused or dropped them in an administrative operation.

Rules of this file
1. During an unload or restart the broker refused commands (ServiceNotReady, "fenced", no broker found) or dropped them.
   A live broker may be ready sooner and accept them. These commands are not sent, and their responses are not awaited,
   because the captured clients sent the commands again later.
2. A SEND without a receipt was dropped, unless the capture delivers its entry with a message id that no receipt
   contains. In this case only the receipt was lost.
3. An ACK was dropped if an entry that it acknowledges is delivered later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pcli.codec.errors import LocalError
from pcli.codec.observe import Consumer
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.player.id_translation import Position, position_of
from pcli.replay.player.script.admin_interventions import Intervention
from pcli.replay.player.script.recorded_exchanges import responses_to_sends
from pcli.replay.player.script.script import Script, Step

_AWAY: Final = frozenset({pb.ServiceNotReady, pb.PersistenceError, pb.MetadataError})


def topics_of(names: str | list[str]) -> Iterator[TopicName]:
    """Yield the valid topic names in a request."""
    for name in names if isinstance(names, list) else [names]:
        try:
            yield TopicName.parse(str(name))  # the field has type bytes if it is not valid UTF-8
        except LocalError:
            continue


def skipped_steps(script: Script, interventions: list[Intervention]) -> set[int]:
    """Return the indexes of steps that are not sent, and of their responses."""
    topics = {intervention.topic for intervention in interventions}
    if not topics:
        return set()
    return {*_refused(script, topics), *_lost_sends(script, topics), *_lost_acks(script, interventions)}


def _refused(script: Script, topics: set[str]) -> Iterator[int]:
    """Yield requests to these topics (an empty name means all) that were refused temporarily, and the responses."""
    responses = {step.request.number: step for step in script.steps if step.request is not None}
    for step in script.steps:
        response = responses.get(step.frame.number) if step.from_client and step.frame is not None else None
        if response is None or response.request is None or _error_of(response) not in _AWAY:
            continue
        if "" in topics or topics & set(map(str, topics_of(response.request.topic))):
            yield from (step.index, response.index)


def _error_of(response: Step) -> int | None:
    """Return the error of a response, or None."""
    command = response.frame.command if response.frame is not None else pb.BaseCommand()
    if command.HasField("error"):
        return command.error.error
    if command.HasField("lookupTopicResponse") and command.lookupTopicResponse.HasField("error"):
        return command.lookupTopicResponse.error
    return None


def _lost_sends(script: Script, topics: set[str]) -> Iterator[int]:
    """Yield SENDs that were not stored, and their SEND_ERRORs."""
    responses = responses_to_sends(script.steps)
    unclaimed = _unclaimed(script, responses)
    for step in script.steps:
        if step.name != "SEND" or not ("" in topics or step.topic in topics):
            continue
        response = responses.get(step)
        if response is None and unclaimed.get(step.content):
            unclaimed[step.content].pop()
        elif response is None or response.name == "SEND_ERROR":
            yield from (one.index for one in (step, response) if one is not None)


def _unclaimed(script: Script, responses: dict[Step, Step]) -> dict[bytes, set[Position]]:
    """Return the delivered message ids that no receipt contains, by entry."""
    found: dict[bytes, set[Position]] = {}
    for step in script.steps:
        if step.name == "MESSAGE" and step.frame is not None:
            found.setdefault(step.content, set()).add(position_of(step.frame.command.message.message_id))
    for send, response in responses.items():
        if response.name == "SEND_RECEIPT" and response.frame is not None:
            found.get(send.content, set()).discard(position_of(response.frame.command.send_receipt.message_id))
    return found


def _lost_acks(script: Script, interventions: list[Intervention]) -> Iterator[int]:
    """Yield ACKs during an unload, termination or restart if one of their entries is redelivered later."""
    for intervention in interventions:
        if intervention.keeps_acks:
            continue
        again: dict[tuple[str, str], set[Position]] = {}
        for step in reversed(script.steps[intervention.step.index :]):
            if not isinstance(step.peer, Consumer) or step.frame is None or intervention.topic not in ("", step.topic):
                continue
            positions = again.setdefault((step.topic, step.peer.subscription), set())
            if step.name == "MESSAGE":
                positions.add(position_of(step.frame.command.message.message_id))
            elif step.name == "ACK" and positions & set(map(position_of, step.frame.command.ack.message_id)):
                yield step.index
