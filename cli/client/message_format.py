r"""Formats of received messages: kcat's format strings, and JSON.

Rules of this file
1. ``%s`` payload, ``%k`` key, ``%i`` message id, ``%p`` partition (-1 if none), ``%t`` topic, ``%T`` publish time (ms),
   ``%h`` properties (``a=1,b=2``), ``%S`` and ``%K`` payload and key size in bytes, ``%%``; ``\n \t \r \0 \xNN``.
2. Payloads and binary keys are written unchanged.
3. In JSON, a payload that is not UTF-8 is encoded in base64, and the object contains ``"base64": true``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.output import json_text
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.client.consumer.incoming_entry import IncomingMessage

_TOKEN: Final = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\([ntr0\\])|([^%\\]+|[%\\])", re.DOTALL)

_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def _properties(message: IncomingMessage) -> bytes:
    return ",".join(f"{key}={value}" for key, value in message.content.properties).encode(errors="replace")


def _key(message: IncomingMessage) -> bytes:
    return message.content.key_bytes or b""


_LETTERS: Final[dict[str, Callable[[IncomingMessage], bytes]]] = {
    "s": lambda message: message.data,
    "S": lambda message: b"%d" % message.size,
    "k": _key,
    "K": lambda message: b"%d" % len(_key(message)),
    "i": lambda message: str(message.id).encode(),
    "p": lambda message: b"%d" % message.id.partition,
    "t": lambda message: message.topic.encode(),
    "T": lambda message: b"%d" % message.publish_time,
    "h": _properties,
}


def writer(text: str) -> Callable[[IncomingMessage], bytes]:
    """Return a function that formats a message. Raises LocalError if the format contains an unknown letter."""
    if text in ("%s\\n", "%s\n"):
        return lambda message: message.data + b"\n"
    parts = [_part(match) for match in _TOKEN.finditer(text)]

    def write(message: IncomingMessage) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(message) for part in parts)

    return write


def _part(match: re.Match[str]) -> bytes | Callable[[IncomingMessage], bytes]:
    letter, number, escape, rest = match.groups()
    if letter == "%":
        return b"%"
    if letter is not None:
        if letter not in _LETTERS:
            known = " ".join(f"%{one}" for one in _LETTERS)
            raise LocalError(f"--format: unknown %{letter}; use {known} or %%")
        return _LETTERS[letter]
    if number is not None:
        return bytes.fromhex(number)
    return _ESCAPES[escape] if escape is not None else rest.encode(errors="surrogateescape")


def json_writer(message: IncomingMessage) -> bytes:
    """Return a message as one line of JSON."""
    content = message.content
    row: dict[str, Any] = {
        "topic": message.topic,
        "message_id": str(message.id),
        "publish_time": message.publish_time,
        "producer_name": message.producer_name,
        "sequence_id": content.sequence_id,
        "redelivery_count": message.redelivery_count,
    }
    if content.key is not None:
        row["key"] = content.key
    if content.event_time:
        row["event_time"] = content.event_time
    if content.properties:
        row["properties"] = dict(content.properties)
    try:
        row["payload"] = message.data.decode()
    except UnicodeDecodeError:
        row["payload"], row["base64"] = base64.b64encode(message.data).decode(), True
    return json_text(row).encode() + b"\n"


class JsonArrayWriter:
    """A formatter of messages as elements of one JSON array."""

    def __init__(self) -> None:
        self._before = b"[\n"

    def __call__(self, message: IncomingMessage) -> bytes:
        """Return the next element."""
        before, self._before = self._before, b",\n"
        return before + json_writer(message)[:-1]

    def end(self) -> bytes:
        """Return the end of the array."""
        return b"\n]\n" if self._before == b",\n" else b"[]\n"
