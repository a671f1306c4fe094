r"""Messages from lines of text: a payload, a key and a payload (-K), or a JSON object (--json).

Rules of this file
1. ``-K DELIM`` splits a line at the first delimiter, as kcat does. A line without a delimiter is a payload without a
   key.
2. A JSON object has the fields that `pcli consume -T ndjson` prints: ``payload``, ``key``, ``properties``,
   ``event_time``, and ``base64`` if the payload is encoded in base64. Other fields are ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.client.producer.outgoing_message import OutgoingMessage


def keyed_line_parser(delimiter: str, properties: Mapping[str, str] | None) -> Callable[[bytes], OutgoingMessage]:
    """Return a parser of ``key DELIMITER payload``. Raises LocalError if the delimiter is empty."""
    from pcli.replay.client.producer.outgoing_message import OutgoingMessage

    mark = {"\\t": "\t"}.get(delimiter, delimiter).encode(errors="surrogateescape")
    if not mark:
        raise LocalError("-K: the delimiter is empty")

    def parse(line: bytes) -> OutgoingMessage:
        key, found, payload = line.partition(mark)
        if not found:
            return OutgoingMessage(line, properties=properties)
        return OutgoingMessage(payload, key=_text(key), properties=properties)

    return parse


def json_line_parser(properties: Mapping[str, str] | None) -> Callable[[bytes], OutgoingMessage]:
    """Return a parser of JSON objects; ``properties`` are added to the properties of each object."""
    from pcli.replay.client.producer.outgoing_message import OutgoingMessage

    def parse(line: bytes) -> OutgoingMessage:
        row = _object(line)
        merged = {**(properties or {}), **_properties(row)}
        event_time = row.get("event_time")
        key = row.get("key")
        if key is not None and not isinstance(key, str):
            raise LocalError("the key must be a string")
        if event_time is not None and (not isinstance(event_time, int) or event_time < 0):
            raise LocalError("event_time must be a number of milliseconds")
        return OutgoingMessage(_payload(row), key=key, properties=merged or None, event_time=event_time)

    return parse


def _object(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise LocalError("not a JSON object") from None
    if not isinstance(row, dict):
        raise LocalError("not a JSON object")
    return row


def _payload(row: dict[str, Any]) -> bytes:
    payload = row.get("payload", "")
    if not isinstance(payload, str):
        return json.dumps(payload, ensure_ascii=False).encode()
    if not row.get("base64"):
        return payload.encode()
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise LocalError("the payload is not base64") from None


def _properties(row: dict[str, Any]) -> dict[str, str]:
    properties = row.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise LocalError("properties must be an object of strings")
    return properties


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LocalError(f"the key {data!r} is not UTF-8") from None
