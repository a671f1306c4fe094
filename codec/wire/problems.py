"""Defects of a frame as values, which an observer attaches to the frame.

A kind is a stable word for filters and programs; the detail is a readable phrase. The docs are generated from the table
of kinds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

KINDS: Final[dict[str, str]] = {
    "batch": "the batch does not contain as many messages as its metadata states, or their lengths are wrong",
    "broker-entry": "the broker entry metadata cannot be parsed, or its length is wrong",
    "checksum": "the CRC-32C in the frame does not match the metadata and the payload",
    "chunk": "a chunk is invalid or contradicts earlier chunks of its message",
    "compression": "the payload does not decompress to the size in the metadata, or the compression type is unknown",
    "cut": "the packet was truncated (snap length), or the capture ends inside the frame",
    "direction": "this side never sends the command",
    "encryption": "the payload cannot be decrypted with the given key",
    "gap": "bytes are missing from the capture before this frame",
    "length": "lengths inside the frame contradict each other",
    "metadata": "the message metadata cannot be parsed, or its length is wrong",
    "overlap": "the bytes of a retransmission differ from those of the first transmission",
    "protobuf": "the command cannot be parsed as protobuf",
    "required": "a required field is missing; brokers close the connection in this case",
    "schema": "the payload cannot be decoded with the schema of its version",
    "trailing": "there are bytes after the end of the command",
    "unknown-command": "the command type belongs to no known protocol version",
    "unknown-field": "a field or enum value belongs to no known protocol version",
    "utf8": "a string is not valid UTF-8",
}
"""Every kind of problem, with its meaning."""


class Problem(NamedTuple):
    """One defect of a frame; its text is ``kind: detail``."""

    kind: str
    """A key of KINDS."""
    detail: str
    """One line of readable text with sizes and offsets."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"
