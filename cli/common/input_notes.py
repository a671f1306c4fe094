"""Messages on stderr about the input: damaged files, gaps, connections of other protocols, or no Pulsar frames at all.

Rules of this file
1. A damaged file, and packets of a file that were not decoded, are reported at once. All other notes are reported at
   the end, one line for each kind of note.
2. A line contains the number of notes, the position of the first note, and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pcli.cli.common.output import counted, say

if TYPE_CHECKING:
    from pcli.codec.capture import CaptureTotals, Note
    from pcli.codec.observe.tracking.records.connection_records import ConnectionRecord

_MAX_NAMED: Final = 5
"""Maximum number of damaged files that are reported individually, and of ports and streams that are listed."""

_PROTOCOLS: Final = {
    "http": ("HTTP", ""),
    "tls": ("TLS", "give the session keys with --keylog FILE, or capture where TLS is terminated"),
    "not-pulsar": ("neither Pulsar nor TLS nor HTTP", "use -d tcp.port==N if they are Pulsar"),
}
"""Kinds of notes about connections of other protocols, each with the protocol and the remedy."""

_OF_FILES: Final = {"file": "damaged or unreadable files", "unread": "files with packets that were not decoded"}
"""Kinds of notes about files, each with its name in the plural."""


class InputNotes:
    """The notes of a reading."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._first: dict[str, Note] = {}
        self._ports: dict[str, dict[int, None]] = {}
        self._streams: dict[str, dict[int, None]] = {}

    def add(self, note: Note) -> None:
        """Record a note. A note about a file is printed at once."""
        # The reason why a decryption ended is shown like any other note.
        failed = note.kind == "tls" and note.stream is not None and note.stream.decrypted
        kind = "decryption" if failed else note.kind
        self._counts[kind] = count = self._counts.get(kind, 0) + 1
        self._first.setdefault(kind, note)
        if note.stream is not None:
            self._ports.setdefault(kind, {})[note.stream.server[1]] = None
            self._streams.setdefault(kind, {})[note.stream.number] = None
        if kind in _OF_FILES and count <= _MAX_NAMED:
            say(placed_note(note))

    def print(self) -> None:
        """Print the notes that have not been printed yet, grouped by kind."""
        for line in self._lines():
            say(line)
        self._counts.clear()

    def _lines(self) -> Iterator[str]:
        for kind, count in self._counts.items():
            if kind in _PROTOCOLS:
                yield self._protocol_line(kind)
            elif kind in _OF_FILES:
                if count > _MAX_NAMED:
                    yield f"{count - _MAX_NAMED} more {_OF_FILES[kind]}"
            elif count == 1:
                yield placed_note(self._first[kind])
            else:
                streams = list(self._streams.get(kind, {}))
                where = f" in {numbers_text('stream', streams)}" if streams else ""
                yield f"{kind}: {counted(count, 'note')}{where}; the first: {placed_note(self._first[kind])}"

    def _protocol_line(self, kind: str) -> str:
        count, ports = len(self._streams[kind]), list(self._ports[kind])
        protocol, remedy = _PROTOCOLS[kind]
        verb = "is" if count == 1 else "are"
        line = f"{counted(count, 'connection')} {verb} {protocol} ({numbers_text('port', ports)})"
        return f"{line}: {remedy}" if remedy else line


def repeated_lines(records: Iterable[ConnectionRecord]) -> Iterator[str]:
    """Yield a line for each connection that repeats another; for the last of many, their number."""
    found = list(records)
    for record in found[:_MAX_NAMED]:
        how = "after a translation of its addresses" if record.translated else "behind a proxy"
        other = "" if record.other_leg is None else f" ({_ends(record.other_leg)})"
        counted_once = "its messages and requests are counted once"
        yield f"stream {record.stream} ({_ends(record)}) is stream {record.leg_of}{other} {how}: {counted_once}"
    if len(found) > _MAX_NAMED:
        yield f"{len(found) - _MAX_NAMED} more connections repeat others"


def _ends(record: ConnectionRecord) -> str:
    return f"{':'.join(map(str, record.client))} → {':'.join(map(str, record.server))}"


def no_frames_text(totals: CaptureTotals) -> str:
    """Return why the output is empty if the captures contain no Pulsar frame."""
    text = f"no Pulsar frames in {counted(totals.packets, 'packet')}"
    if not totals.connections:
        return f"{text} (no TCP connection)"
    connections = counted(totals.connections, "TCP connection")
    return f"{text} ({connections}, {numbers_text('port', totals.ports)}; use -d tcp.port==N to force decoding)"


def numbers_text(noun: str, numbers: Sequence[int]) -> str:
    """Return ``port 80`` or ``ports 53 and 80``. If there are many, return the first few and a count of the others."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    if len(numbers) > _MAX_NAMED:
        return f"{noun}s {', '.join(map(str, numbers[:_MAX_NAMED]))} and {len(numbers) - _MAX_NAMED:,} more"
    return f"{noun}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def placed_note(note: Note) -> str:
    """Return a note with its position: file, stream and direction, packet, and offset in the file."""
    place = []
    if note.source:
        place.append(note.source)
    if note.stream is not None:
        side = {True: " from the client", False: " from the broker", None: ""}[note.from_client]
        place.append(f"stream {note.stream.number}{side}")
    if note.packet and note.kind != "unread":
        place.append(f"packet {note.packet}")
    offset = f" (at byte {note.offset})" if note.offset is not None and note.source else ""
    return f"{', '.join(place)}: {note.text}{offset}" if place else f"{note.text}{offset}"
