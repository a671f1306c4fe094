"""Notes of the capture reader: gaps, damage, and streams that are not Pulsar.

Rules of this file
1. For a note that makes the records of its connection incomplete, `apply_note` returns a key of
   `missing_evidence.DOUBTS`.
2. If the bytes of an impossible frame length at the start of a stream are text or TLS, the stream is recorded as text
   or TLS. Any other impossible length belongs to an oversized frame, which was not read.
3. A server that expects TLS answers a plaintext CONNECT with an alert of seven bytes, which are too few for a frame.
"""

from __future__ import annotations

from typing import Final

from pcli.codec.capture.frames import Note
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState
from pcli.codec.observe.tracking.connections.non_pulsar_streams import NonPulsarStreams, describe_length
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord

_OTHERS: Final = ("tls", "http", "not-pulsar")

OPENING: Final = (*_OTHERS, "proxy-protocol", "length")
"""Kinds of notes that add a connection even if it has no frames."""

NO_KEY: Final = ""
"""The result for notes about bytes outside complete frames, next to a gap or at the end of the stream. Such notes have
no key in DOUBTS."""

_ALERT: Final = 7
"""Length of a plaintext TLS alert: a record header of five bytes and an alert of two bytes (RFC 8446)."""

_DOUBTS: Final = {"gap": "gap", "resync": "weak_sync", "snaplen": "cut", "leftover": NO_KEY}


def apply_note(
    capture: CaptureRecord, non_pulsar: NonPulsarStreams, connection: ConnectionState | None, note: Note
) -> str | None:
    """Apply a note to the records; return its key of DOUBTS, NO_KEY, or None if the note causes no doubt."""
    capture.packets = max(capture.packets, note.packet)
    capture.damaged |= note.kind == "file"
    capture.cut |= note.kind == "snaplen"
    if note.kind == "unread":
        capture.unread.append(note.text)
    if note.stream is not None and note.stream.kind in ("pulsar", "unknown"):
        _count_gap(capture, note)
    if connection is not None and note.kind in OPENING:
        _note_other_stream(capture, non_pulsar, connection, note)
    elif connection is not None and note.kind == "leftover":
        _note_tls_alert(connection, note)
    return _DOUBTS.get(note.kind)


def _count_gap(capture: CaptureRecord, note: Note) -> None:
    if note.kind == "resync":
        capture.resyncs += 1
    elif note.kind == "gap":
        capture.gaps.add(capture.last_ns, capture.frames, sample=note.text)
        capture.gap_bytes += note.length


def _note_other_stream(
    capture: CaptureRecord, non_pulsar: NonPulsarStreams, connection: ConnectionState, note: Note
) -> None:
    """Record a stream that is not Pulsar or that starts with other data."""
    record = connection.record
    if note.kind == "length":
        _note_impossible_length(capture, connection, note)
    elif note.kind == "proxy-protocol":
        record.first_bytes, record.first_bytes_text, record.first_bytes_packet = note.kind, note.text, note.packet
    elif note.stream is not None:
        kind = record.kind = note.stream.kind
        capture.other_streams[kind] = capture.other_streams.get(kind, 0) + 1
        non_pulsar.note(record, note)


def _note_tls_alert(connection: ConnectionState, note: Note) -> None:
    """Record bytes outside complete frames that may be the broker's only response."""
    record = connection.record
    if record.connect_frame and note.from_client is False and (note.offset, note.length) == (0, _ALERT):
        record.first_bytes, record.first_bytes_packet = "tls", note.packet
        record.first_bytes_text = "CONNECT was answered with seven bytes that are not a frame: the size of a TLS alert"


def _note_impossible_length(capture: CaptureRecord, connection: ConnectionState, note: Note) -> None:
    """Record an impossible frame length."""
    record = connection.record
    word, text = describe_length(note.length - 4)
    if word and not note.offset:
        record.first_bytes, record.first_bytes_text, record.first_bytes_packet = word, text, note.packet
    elif not word and note.length > connection.limit:
        sender = "client" if note.from_client else "broker"
        record.oversize.add(capture.last_ns, record.last_frame, sample=f"a {sender} frame of {note.length:,} bytes")
