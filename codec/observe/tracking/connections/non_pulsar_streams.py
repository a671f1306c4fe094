"""Streams that start with something other than Pulsar.

Rules of this file
1. TLS and HTTP are reported only where plaintext Pulsar is expected: on its default port, or at a server that other
   connections of the capture use for Pulsar.
2. A Pulsar peer reads the first four bytes as a length and reports that the frame is too large. The four bytes show
   what was really sent.
3. A PROXY header is reported if the server sends no response after it: a server that expects the header responds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pcli.codec.capture.frames import Note
from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord
from pcli.codec.wire.constants import DEFAULT_PORT

_MAX_OTHERS: Final = 1000

_KINDS: Final = {
    "tls": "TLS: if its first four bytes, 16 03 01 00, are read as a frame length, the result is 369,295,616",
    "http": 'HTTP: if its first four bytes, "GET ", are read as a frame length, the result is 1,195,725,856',
    "not-pulsar": "neither Pulsar nor TLS nor HTTP",
}
"""Descriptions of the streams, by kind of note."""

_METHODS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"HTTP", b"PRI ")


def describe_length(length: int) -> tuple[str, str]:
    """Return a key of first_bytes and a description of the bytes of an impossible length; both are empty if unknown."""
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
    return word, f"a frame length of {length:,}, read from the bytes {shown!r}: {what}"


class NonPulsarStreams:
    """Streams that are not Pulsar, kept until another connection identifies their server as a Pulsar server."""

    def __init__(self, pulsar: Iterable[tuple[str, int]] = ()) -> None:
        """Create the object; ``pulsar`` contains the servers that are already known."""
        self.pulsar: set[tuple[str, int]] = set(pulsar)
        """Known Pulsar servers."""
        self._others: dict[tuple[str, int], list[tuple[ConnectionRecord, Note]]] = {}

    def note(self, record: ConnectionRecord, note: Note) -> None:
        """Apply a note about a stream that does not start with Pulsar."""
        if record.server in self.pulsar or record.server[1] == DEFAULT_PORT:
            _set_first_bytes(record, note)
        elif len(self._others) < _MAX_OTHERS:
            self._others.setdefault(record.server, [])[_MAX_OTHERS:] = [(record, note)]

    def add_pulsar_server(self, server: tuple[str, int]) -> None:
        """Add a Pulsar server, and report the earlier non-Pulsar streams that connected to it."""
        if len(self.pulsar) < _MAX_OTHERS:
            self.pulsar.add(server)
        for record, note in self._others.pop(server, ()):
            _set_first_bytes(record, note)


def _set_first_bytes(record: ConnectionRecord, note: Note) -> None:
    record.first_bytes = {"not-pulsar": "other"}.get(note.kind, note.kind)
    record.first_bytes_text = _KINDS[note.kind]
    record.first_bytes_packet = note.packet
