"""The error response to each rejected request.

Rules of this file (ServerCnx, Commands)
1. If the response type of a request has an error field, the error is sent in that response. Any other request gets
   ERROR with its request id.
2. A command that has neither a request id nor a response (FLOW, REDELIVER, some ACKs) gets no error response.
3. SEND is not in this table: its producer sends SEND_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.minibroker.errors import Refused

NOBODY: Final = 0xFFFFFFFFFFFFFFFF
"""The request id in an error for a command without a request id: -1 as an unsigned number."""


def invalid_frame(data: bytes, position: int) -> RemoteError:
    """Return the error for a frame with an invalid length. It names the other protocol if the bytes are TLS or HTTP."""
    start = data[position : position + 4]
    if start.startswith(b"\x16\x03"):
        return RemoteError("a TLS handshake on a port without TLS")
    if start in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE"):
        return RemoteError("an HTTP request on the port of the binary protocol")
    return RemoteError(f"a frame of {int.from_bytes(start, 'big') + 4} bytes")


def error(request_id: int, refused: Refused) -> pb.CommandError:
    """Return ERROR for a request."""
    return pb.CommandError(request_id=request_id, error=_code(refused), message=refused.text)


def refusal(number: int, body: Message, refused: Refused) -> Message | None:
    """Return the error response for a request type and body, or None."""
    make = _ANSWERS.get(number)
    if make is not None:
        return make(body, refused)
    if "request_id" not in body.DESCRIPTOR.fields_by_name or not body.HasField("request_id"):
        return None
    return error(body.request_id, refused)  # type: ignore[attr-defined]


def refused_response(response: Any, refused: Refused) -> Message | None:
    """Return the error to send instead of a successful response, or None if the command is not a response.

    A response with the fields ``error`` and ``message`` becomes an error of the same type (ACK_RESPONSE and those of
    transactions), SEND_RECEIPT becomes SEND_ERROR, and every other response becomes ERROR.
    """
    if isinstance(response, pb.CommandSendReceipt):
        return pb.CommandSendError(
            producer_id=response.producer_id,
            sequence_id=response.sequence_id,
            error=_code(refused),
            message=refused.text,
        )
    if isinstance(response, pb.CommandSendError | pb.CommandError):
        return response
    fields = response.DESCRIPTOR.fields_by_name
    if "request_id" not in fields or not response.HasField("request_id"):
        return None
    if "response" in fields or not {"error", "message"} <= fields.keys():
        return error(response.request_id, refused)
    failed: Message = response
    response.error, response.message = _code(refused), refused.text
    return failed


def _code(refused: Refused) -> pb.ServerError.ValueType:
    return pb.ServerError.ValueType(refused.code)


def _metadata(body: Any, refused: Refused) -> Message:
    failed = pb.CommandPartitionedTopicMetadataResponse.Failed
    return pb.CommandPartitionedTopicMetadataResponse(
        request_id=body.request_id, response=failed, error=_code(refused), message=refused.text
    )


def _lookup(body: Any, refused: Refused) -> Message:
    failed = pb.CommandLookupTopicResponse.Failed
    return pb.CommandLookupTopicResponse(
        request_id=body.request_id, response=failed, error=_code(refused), message=refused.text
    )


def _ack(body: Any, refused: Refused) -> Message | None:
    if not body.HasField("request_id"):
        return None
    return pb.CommandAckResponse(
        request_id=body.request_id, consumer_id=body.consumer_id, error=_code(refused), message=refused.text
    )


def _scalable_topic(body: Any, refused: Refused) -> Message:
    return pb.CommandScalableTopicUpdate(session_id=body.session_id, error=_code(refused), message=refused.text)


def _scalable_subscribe(body: Any, refused: Refused) -> Message:
    return pb.CommandScalableTopicSubscribeResponse(
        request_id=body.request_id, error=_code(refused), message=refused.text
    )


def _scalable_topics(body: Any, refused: Refused) -> Message:
    return pb.CommandWatchScalableTopicsUpdate(watch_id=body.watch_id, error=_code(refused), message=refused.text)


def _tc_assignments(body: Any, refused: Refused) -> Message:
    return pb.CommandWatchTcAssignmentsUpdate(watch_id=body.watch_id, error=_code(refused), message=refused.text)


def _with_error_code(kind: Callable[..., Message]) -> Callable[[Any, Refused], Message]:
    def make(body: Any, refused: Refused) -> Message:
        return kind(request_id=body.request_id, error_code=_code(refused), error_message=refused.text)

    return make


_ANSWERS: Final[dict[int, Callable[[Any, Refused], Message | None]]] = {
    BY_NAME[name].number: make
    for name, make in {
        "PARTITIONED_METADATA": _metadata,
        "LOOKUP": _lookup,
        "ACK": _ack,
        "SCALABLE_TOPIC_LOOKUP": _scalable_topic,
        "SCALABLE_TOPIC_SUBSCRIBE": _scalable_subscribe,
        "WATCH_SCALABLE_TOPICS": _scalable_topics,
        "CONSUMER_STATS": _with_error_code(pb.CommandConsumerStatsResponse),
        "WATCH_TC_ASSIGNMENTS": _tc_assignments,
        "GET_SCHEMA": _with_error_code(pb.CommandGetSchemaResponse),
        "GET_OR_CREATE_SCHEMA": _with_error_code(pb.CommandGetOrCreateSchemaResponse),
    }.items()
}
