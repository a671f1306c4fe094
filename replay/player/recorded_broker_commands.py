"""Conversion of ids and addresses between captured frames and live clients, and responses to unknown commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.build import join_frame
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.frame import Frame
from pcli.replay.player.script.recorded_conversation import OWNERS

_URL_FIELDS: Final = ("brokerServiceUrl", "assignedBrokerServiceUrl")
_TLS_URL_FIELDS: Final = ("brokerServiceUrlTls", "assignedBrokerServiceUrlTls")
_UNKNOWN: Final = "the recording contains no such request"


def with_live_ids(frame: Frame, ids: Mapping[str, int], url: str) -> bytes:
    """Return a captured broker frame with the live ``ids`` (values by field name) and the recorded broker's address."""
    row = COMMANDS.get(frame.type)
    if row is None:
        return frame.data
    command = pb.BaseCommand()
    command.CopyFrom(frame.command)
    body = getattr(command, row.field)
    for one, _ in body.ListFields():
        if one.name in _URL_FIELDS:
            setattr(body, one.name, url)
        elif one.name in _TLS_URL_FIELDS:
            body.ClearField(one.name)
        elif one.name in ids:
            setattr(body, one.name, ids[one.name])
    return frame.data if command == frame.command else _joined(command, frame)


def with_captured_ids(live: Frame, captured: Frame) -> Frame:
    """Return a live frame with the request, producer, consumer and watcher ids of its captured counterpart."""
    row = COMMANDS.get(live.type)
    if row is None:
        return live
    command = pb.BaseCommand()
    command.CopyFrom(live.command)
    mine, body = captured.body, getattr(command, row.field)
    for one, _ in body.ListFields():
        if one.name in (*OWNERS, "request_id") and mine.HasField(one.name):
            setattr(body, one.name, getattr(mine, one.name))
    return live if command == live.command else Frame(_joined(command, live), live.type)


def _joined(command: pb.BaseCommand, frame: Frame) -> bytes:
    return join_frame(command.SerializePartialToString(), frame.data[frame.parts.command_end :])


def error_response(name: str, body: Any) -> Any:
    """Return the response to a command that was not captured, or None if the command has no response.

    The C++ client (ClientConnection::handleError) does not match an ERROR to a lookup, so the lookup would end only
    after its timeout.
    """
    why: dict[str, Any] = {"error": pb.NotAllowedError, "message": _UNKNOWN}
    if name == "SEND":
        return pb.CommandSendError(producer_id=body.producer_id, sequence_id=body.sequence_id, **why)
    if name not in BY_NAME or BY_NAME[name].paired_by != "request_id" or not body.HasField("request_id"):
        return None
    if name == "ACK":
        return pb.CommandAckResponse(consumer_id=body.consumer_id, request_id=body.request_id)
    if name == "LOOKUP":
        return pb.CommandLookupTopicResponse(
            request_id=body.request_id, response=pb.CommandLookupTopicResponse.Failed, **why
        )
    if name == "PARTITIONED_METADATA":
        failed = pb.CommandPartitionedTopicMetadataResponse.Failed
        return pb.CommandPartitionedTopicMetadataResponse(request_id=body.request_id, response=failed, **why)
    return pb.CommandError(request_id=body.request_id, **why)


def permits_of(frame: Frame) -> int:
    """Return the permits that a MESSAGE uses: one for each unacknowledged message (Consumer.sendMessages)."""
    words = frame.command.message.ack_set
    if words:
        return set_of(words).bit_count()
    return max(1, frame.metadata.num_messages_in_batch) if frame.metadata is not None else 1
