"""What is inside the payloads of a capture: decrypted, joined from chunks, read with the schemas of the capture itself.

Rules of this file
1. Chunks are joined and schemas learned from every frame that passes `see`, shown or not: a later one needs them.
2. Opening is otherwise left until somebody looks (Facts.opened).
3. A payload is shown as the value that its schema says; without one as text when it is text, else as hex.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from pcli.codec.observe.lines import size_text
from pcli.codec.observe.printable import printable
from pcli.codec.observe.state import Facts, ObservedFrame
from pcli.codec.payload import ChunkJoiner, Entry, Message, PrivateKeys, SchemaBook, open_entry
from pcli.codec.wire.commands import BY_NAME, PAYLOAD_TYPES
from pcli.codec.wire.problems import Problem

__all__ = ["Contents"]


_WITH_SCHEMAS: Final = frozenset(
    BY_NAME[name].number
    for name in (
        "PRODUCER", "PRODUCER_SUCCESS", "SUBSCRIBE", "GET_SCHEMA", "GET_SCHEMA_RESPONSE", "GET_OR_CREATE_SCHEMA",
        "GET_OR_CREATE_SCHEMA_RESPONSE", "ERROR",
    )
)  # fmt: skip
"""The commands from which SchemaBook learns."""


class Contents:
    """The contents of one capture's payloads. Give `open` to the Observer, and every frame's facts to `see`."""

    def __init__(self, private_keys: Iterable[bytes] = ()) -> None:
        """``private_keys``: PEM files' bytes, for encrypted payloads."""
        keys = list(private_keys)
        self._keys = PrivateKeys(keys) if keys else None
        self._chunks = ChunkJoiner()
        self._schemas = SchemaBook()

    def open(self, frame: ObservedFrame) -> Entry | None:
        """The entry of a SEND or MESSAGE; None when its metadata is not there."""
        metadata, payload = frame.metadata, frame.payload
        if metadata is None or payload is None:
            return None
        command = frame.command
        owner = command.send.producer_id if frame.from_client else command.message.consumer_id
        scope = (frame.stream.number, frame.from_client, owner)
        return open_entry(metadata, payload, missing=frame.missing, keys=self._keys, chunks=self._chunks, scope=scope)

    def see(self, facts: Facts) -> None:
        """Learn from a frame, in the order of the capture."""
        frame = facts.frame
        if frame.type in _WITH_SCHEMAS:
            self._schemas.see(frame.stream.number, frame.command)
        elif frame.type in PAYLOAD_TYPES and frame.metadata is not None and frame.metadata.HasField("chunk_id"):
            _ = facts.opened

    def lines(self, facts: Facts) -> Iterator[str]:
        """What a frame holds, a line a message; its problems too. Nothing for frames without payload."""
        entry = facts.opened if facts.frame.type in PAYLOAD_TYPES else None
        if entry is None:
            return
        for message in entry.messages:
            yield self._line(facts, message)
        for problem in entry.problems:
            yield f"problem: {printable(problem)}"
        if not entry.messages and not entry.problems:
            yield "a chunk; the message comes with its last one"

    def _line(self, facts: Facts, message: Message) -> str:
        out = f"[{message.index}] " if message.index >= 0 else ""
        if message.key is not None:
            out += f"key {printable(message.key)}  "
        out += "".join(f"{printable(name)}={printable(value)}  " for name, value in message.properties)
        if message.compacted_out:
            return f"{out}compacted out"
        return out + (self._value(facts, message) if not message.null_value else "no value")

    def _value(self, facts: Facts, message: Message) -> str:
        """The value as JSON when a schema reads it, else as text or hex, with its size in front."""
        size = f"{size_text(message.size)}  "
        peer = facts.peer
        topic = peer.topic if peer is not None else ""
        decoder = self._schemas.find(topic, message.metadata.schema_version) if topic else None
        if decoder is not None:
            value = decoder.message(message)
            if isinstance(value, Problem):
                return f"{size}{_plain(message.payload)}  [{printable(value)}]"
            return size + printable(json.dumps(value, ensure_ascii=False))
        return size + _plain(message.payload)


def _plain(payload: bytes) -> str:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return payload.hex()
    return printable(text) if text.translate(_LINE_ENDS).isprintable() else payload.hex()


_LINE_ENDS: Final = dict.fromkeys(map(ord, "\r\n\t"))
