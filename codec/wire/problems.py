"""What is wrong with a frame, as a value: an observer attaches it and goes on.

A kind is a stable word for filters and programs; the detail is for people. Kinds are listed in one table,
from which the docs are made.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["KINDS", "Problem"]

KINDS: Final[dict[str, str]] = {
    "batch": "the messages of a batch do not fit its bytes, or are fewer than the metadata says",
    "broker-entry": "the broker entry metadata does not parse or its length does not fit",
    "checksum": "the CRC-32C in the frame is not that of metadata and payload",
    "chunk": "a chunk that cannot be a part of its message, or contradicts the chunks before it",
    "compression": "the payload does not decompress to the size that the metadata says, or the type is unknown",
    "cut": "the capture holds only the beginning of the packet (snap length), or ends inside the frame",
    "direction": "a command that this side never sends",
    "encryption": "the payload is encrypted and does not open with the given key",
    "gap": "bytes are missing from the capture before this frame",
    "length": "lengths inside the frame contradict each other",
    "metadata": "the message metadata does not parse or its length does not fit",
    "overlap": "a retransmission carried other bytes than the first transmission",
    "protobuf": "the command does not parse as protobuf",
    "required": "a required field is missing: a broker closes the connection over it",
    "schema": "the payload does not decode with the schema of its version",
    "trailing": "bytes behind the end of the command",
    "unknown-command": "a command type of no known protocol version",
    "unknown-field": "a field or enum value of no known protocol version",
    "utf8": "a text that is not valid UTF-8",
}
"""Every kind of problem, with what it means."""


class Problem(NamedTuple):
    """One thing that is wrong, as ``kind: detail``."""

    kind: str
    """A key of KINDS."""
    detail: str
    """One line for a person, no newline, with sizes and offsets."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"
