"""The response with which a broker refuses a request of any type.

Rules of this file
1. The table of commands lists the responses to each request. The first response with an error field is used.
2. The fields that request and response have in common (request id, consumer, producer, sequence id, session) are
   copied.
3. No response is created for a request that has none (ACK without request id, FLOW).
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.near import near

_ERROR_AND_TEXT: Final = (("error", "message"), ("error_code", "error_message"))
"""The possible names of the error field and of the field for its text."""


def error_code(name: str) -> int:
    """Return the number of a ServerError from its name. Raise LocalError with similar names if it is unknown."""
    if name not in pb.ServerError.keys():  # noqa: SIM118  (the class is no dictionary)
        raise LocalError(f"{name!r} is not an error of the protocol{near(name, pb.ServerError.keys())}")
    return int(pb.ServerError.Value(name))


def error_answer(frame: Frame, code: int, text: str) -> bytes | None:
    """Return the frame that refuses a client's request, or None if the request has no response with an error field."""
    row = COMMANDS.get(frame.type)
    if row is None or not row.client_may_send:
        return None
    request = frame.body
    for name in row.answers:
        answer = _body(name)
        for error_field, text_field in _ERROR_AND_TEXT:
            if error_field in answer.DESCRIPTOR.fields_by_name:
                return _filled(answer, request, {error_field: code, text_field: text})
    return None


def _body(name: str) -> Message:
    """Return an empty body for a command."""
    field = pb.BaseCommand.DESCRIPTOR.fields_by_name[BY_NAME[name].field]
    assert field.message_type is not None
    body: Message = getattr(pb, field.message_type.name)()
    return body


def _filled(answer: Any, request: Message, error: dict[str, Any]) -> bytes | None:
    wanted = answer.DESCRIPTOR.fields_by_name
    for field, value in request.ListFields():
        source = wanted.get(field.name)
        if source is not None and source.type == field.type and not (field.is_repeated or field.message_type):
            setattr(answer, field.name, value)
    if "request_id" in wanted and not answer.HasField("request_id"):
        if "request_id" in request.DESCRIPTOR.fields_by_name:
            return None
        answer.request_id = MINUS_ONE
    if "response" in wanted:
        answer.response = wanted["response"].enum_type.values_by_name["Failed"].number
    for name, value in error.items():
        if name in wanted:
            setattr(answer, name, value)
    return push_frame(answer) if answer.IsInitialized() else None
