"""What stands where a Pulsar connection should begin, when it is something else.

Rules of this file
1. TLS or HTTP is nothing to wonder at where it belongs. It is told where Pulsar is spoken in the clear: on its port, or
   at an address at which other connections of the recording speak it.
2. A peer that waits for Pulsar takes the first four bytes for a length, and says that the frame is too large. Read
   backwards, such a length shows what was really sent.
3. A PROXY header is told when the server has not answered anything behind it: one that expects it answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pcli.codec.capture.frames import Note
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.codec.wire.constants import DEFAULT_PORT

__all__ = ["NonPulsarStreams", "describe_length"]

_MAX_OTHERS: Final = 1000

_KINDS: Final = {
    "tls": "TLS: its first four bytes, 16 03 01 00 of a hello, read as the length of a frame are 369,295,616",
    "http": 'HTTP: its first four bytes, "GET ", read as the length of a frame are 1,195,725,856',
    "not-pulsar": "neither Pulsar nor TLS nor HTTP",
}
"""Kind of note to what the stream is, in words."""

_METHODS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"HTTP", b"PRI ")


def describe_length(length: int) -> tuple[str, str]:
    """What the bytes of an impossible length of a frame really are: a word of first_bytes, and a sentence."""
    head = length.to_bytes(4, "big")
    if head[0] in (0x14, 0x15, 0x16, 0x17) and head[1] == 3:
        word, what = "tls", "a TLS record"
    elif head in _METHODS:
        word, what = "http", "HTTP"
    elif all(32 <= one < 127 or one in b"\t\r\n" for one in head):
        word, what = "text", "text"
    else:
        return "", ""
    shown = head.decode("ascii") if word != "tls" else head.hex(" ")
    return word, f"a length of {length:,}, which are the bytes {shown!r}: {what}"


class NonPulsarStreams:
    """Connections that begin with something else, until it is known who is expected there."""

    def __init__(self, pulsar: Iterable[tuple[str, int]] = ()) -> None:
        """``pulsar``: servers that are known to speak it."""
        self.pulsar: set[tuple[str, int]] = set(pulsar)
        """Servers at which Pulsar is spoken."""
        self._others: dict[tuple[str, int], list[tuple[ConnectionRecord, Note]]] = {}

    def note(self, record: ConnectionRecord, note: Note) -> None:
        """A note on a stream that is something else from its beginning."""
        if record.server in self.pulsar or record.server[1] == DEFAULT_PORT:
            _set_first_bytes(record, note)
        elif len(self._others) < _MAX_OTHERS:
            self._others.setdefault(record.server, [])[_MAX_OTHERS:] = [(record, note)]

    def add_pulsar_server(self, server: tuple[str, int]) -> None:
        """A connection to this server speaks Pulsar."""
        if len(self.pulsar) < _MAX_OTHERS:
            self.pulsar.add(server)
        for record, note in self._others.pop(server, ()):
            _set_first_bytes(record, note)


def _set_first_bytes(record: ConnectionRecord, note: Note) -> None:
    record.first_bytes = {"not-pulsar": "other"}.get(note.kind, note.kind)
    record.first_bytes_text = _KINDS[note.kind]
    record.first_bytes_packet = note.packet
