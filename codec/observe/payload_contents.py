"""The contents of payloads: decrypted, joined from chunks, and decoded with the schemas found in the capture.

Rules of this file
1. `see` processes every frame, even if it is not printed, because later frames need its chunk or schema.
2. Payloads that are not chunks are opened on access (Facts.opened).
3. A payload is printed as the value that its schema defines. If there is no schema, the payload is printed as text, or
   as hex if it is not text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pcli.codec.observe.observer_state import Facts
from pcli.codec.observe.text_format import printable, size_text
from pcli.codec.payload import ChunkJoiner, Entry, Message, PrivateKeys, SchemaBook, open_entry
from pcli.codec.payload.chunks import is_chunk
from pcli.codec.wire.commands import BY_NAME, PAYLOAD_TYPES
from pcli.codec.wire.problems import Problem

WITH_SCHEMAS: Final = frozenset(
    BY_NAME[name].number
    for name in (
        "PRODUCER", "PRODUCER_SUCCESS", "SUBSCRIBE", "GET_SCHEMA", "GET_SCHEMA_RESPONSE", "GET_OR_CREATE_SCHEMA",
        "GET_OR_CREATE_SCHEMA_RESPONSE", "ERROR",
    )
)  # fmt: skip
"""The commands that SchemaBook processes."""


class Contents:
    """The payload contents of one capture. Pass `open` to the Observer, and the facts of every frame to `see`."""

    def __init__(self, private_keys: Mapping[str, bytes] | None = None) -> None:
        """``private_keys`` are the contents of PEM files by file name, for encrypted payloads."""
        keys = private_keys or {}
        self._keys = PrivateKeys(keys.values(), list(keys)) if keys else None
        self._chunks = ChunkJoiner()
        self._schemas = SchemaBook()

    def without_chunks(self) -> Contents:
        """Return a decoder with the same keys and schemas that has no chunk of an incomplete message."""
        other = Contents()
        other._keys, other._schemas = self._keys, self._schemas
        return other

    def open(self, facts: Facts) -> Entry | None:
        """Open the entry of a SEND or MESSAGE with its topic's schema. Return None if the metadata is missing."""
        frame = facts.frame
        metadata, payload = frame.metadata, frame.payload
        if metadata is None or payload is None:
            return None
        command = frame.command
        owner = command.send.producer_id if frame.from_client else command.message.consumer_id
        scope = (frame.stream.number, frame.from_client, owner)
        entry = open_entry(metadata, payload, missing=frame.missing, keys=self._keys, chunks=self._chunks, scope=scope)
        peer = facts.peer
        if peer is not None and peer.topic:
            entry.decoder = self._schemas.find(peer.topic, metadata.schema_version)
        return entry

    def see(self, facts: Facts) -> None:
        """Store the chunk or schema that a frame contains. Pass frames in the order of the capture."""
        frame = facts.frame
        if frame.type in WITH_SCHEMAS:
            self._schemas.see(frame.stream.number, frame.command)
        elif frame.type in PAYLOAD_TYPES and frame.metadata is not None and is_chunk(frame.metadata):
            _ = facts.opened

    def lines(self, facts: Facts) -> Iterator[str]:
        """Yield a line for each message and each problem in a frame's payload."""
        entry = facts.opened if facts.frame.type in PAYLOAD_TYPES else None
        if entry is None:
            return
        for place, message in enumerate(entry.messages):
            yield _line(message, entry.values[place] if entry.values else None)
        for problem in entry.problems:
            yield f"problem: {printable(problem)}"
        if not entry.messages and not entry.problems:
            yield "a chunk; the message is reassembled at its last chunk"


def _line(message: Message, value: str | Problem | None) -> str:
    """Format a message: its size, and its value as JSON if a schema decodes it, otherwise as text or hex."""
    out = f"[{message.index}] " if message.index >= 0 else ""
    if message.key is not None:
        out += f"key {printable(message.key)}  "
    out += "".join(f"{printable(name)}={printable(text)}  " for name, text in message.properties)
    if message.compacted_out:
        return f"{out}compacted out"
    if message.null_value:
        return f"{out}no value"
    out += f"{size_text(message.size)}  "
    if isinstance(value, str):
        return out + printable(value)
    return out + _plain(message.payload) + ("" if value is None else f"  [{printable(value)}]")


def _plain(payload: bytes) -> str:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return payload.hex()
    return printable(text) if text.translate(_LINE_ENDS).isprintable() else payload.hex()


_LINE_ENDS: Final = dict.fromkeys(map(ord, "\r\n\t"))
