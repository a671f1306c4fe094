"""Redaction of a frame: application data is removed, and defects are kept.

Rules of this file
1. Defects are evidence: a wrong checksum remains wrong by the same difference, invalid protobuf remains invalid, and
   lengths that do not match still do not match.
2. A frame that the capture truncated still lacks the same number of bytes, and the same parts can be parsed.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError, Message

from pcli.codec.observe.redaction.messages import redact_message
from pcli.codec.observe.redaction.name_pseudonyms import Names
from pcli.codec.observe.redaction.payloads import redact_payload
from pcli.codec.observe.redaction.truncated_messages import redact_cut
from pcli.codec.proto import pb
from pcli.codec.wire.build import join_frame, push_entry
from pcli.codec.wire.commands import COMMANDS, PAYLOAD_TYPES
from pcli.codec.wire.constants import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.hot import push_varint

_BROKEN: Final = b"\xff"
"""Invalid protobuf: the start of a varint that does not end."""

_HEADS: Final = 6
"""Number of bytes after a command that are kept as lengths and magic numbers, even if later bytes are malformed."""

_CHECKED: Final = CHECKSUM_MAGIC.to_bytes(2, "big")

_word = Struct(">I")
_pull = _word.unpack_from
_push = _word.pack
_magic = Struct(">HI").pack


def redact_frame(frame: Frame, names: Names) -> bytes:
    """Return the redacted bytes of a frame, with about the same size and the same completeness."""
    parts, data = frame.parts, frame.data
    cut = max(0, 8 + _pull(data, 4)[0] - parts.command_end) if frame.missing else 0
    command = _command(frame, names)
    if frame.missing:
        tail = b"" if cut else _cut_entry(frame, names)
        size = 4 + len(command) + len(tail) + frame.missing
        return b"".join((_push(size), _push(len(command) + cut), command, tail))
    if parts.metadata_start >= 0:
        return join_frame(command, _entry(frame, names))
    return join_frame(command, _heads_only(frame, names))


def _command(frame: Frame, names: Names) -> bytes:
    data = frame.data[frame.parts.command_start : frame.parts.command_end]
    if frame.type not in COMMANDS:
        # The command belongs to a later version: its fields are unknown and may contain application data.
        return b"\x08" + push_varint(frame.type) if frame.type >= 0 else _BROKEN * len(data)
    return _redacted(pb.BaseCommand(), data, names, cut=bool(frame.missing))


def _redacted(message: Message, data: bytes, names: Names, *, cut: bool) -> bytes:
    """Return a redacted protobuf message. If the original is malformed, not only truncated, it remains malformed."""
    try:
        message.MergeFromString(data)
    except DecodeError:
        if cut:
            return redact_cut(type(message), data, names)
        redact_message(message, names)
        return message.SerializePartialToString() + _BROKEN
    redact_message(message, names)
    return message.SerializePartialToString()


def _entry(frame: Frame, names: Names) -> bytes:
    """Return the headers and payload after the command of a complete frame."""
    parts = frame.parts
    block = _broker_entry(frame, names)
    data = frame.data[parts.metadata_start : parts.metadata_end]
    metadata = pb.MessageMetadata()
    try:
        metadata.MergeFromString(data)
    except DecodeError:
        packed = _redacted(pb.MessageMetadata(), data, names, cut=False)
        payload = b"x" * (parts.payload_end - parts.payload_start)
    else:
        payload = redact_payload(metadata, frame.payload or b"", names)
        redact_message(metadata, names)
        packed = metadata.SerializePartialToString()
    entry = push_entry(packed, payload, checksum=parts.checksum is not None, broker_entry=block)
    if frame.checksum != "bad":
        return entry
    assert parts.checksum is not None
    assert parts.computed is not None
    place = 2 if block is None else 8 + len(block)
    wrong = _pull(entry, place)[0] ^ parts.checksum ^ parts.computed
    return entry[:place] + _push(wrong) + entry[place + 4 :]


def _broker_entry(frame: Frame, names: Names) -> bytes | None:
    start, end = frame.parts.entry_start, frame.parts.entry_end
    return None if start < 0 else _redacted(pb.BrokerEntryMetadata(), frame.data[start:end], names, cut=False)


def _cut_entry(frame: Frame, names: Names) -> bytes:
    """Return the captured part of headers and payload. The checksum is 0 because it cannot be computed."""
    parts, data = frame.parts, frame.data
    if parts.metadata_start < 0:
        return _heads_only(frame, names)
    packed = _redacted(pb.MessageMetadata(), data[parts.metadata_start : parts.metadata_end], names, cut=True)
    missing = _pull(data, parts.metadata_start - 4)[0] - (parts.metadata_end - parts.metadata_start)
    payload = b"x" * (parts.payload_end - parts.payload_start)
    entry = push_entry(b"", b"", checksum=parts.checksum is not None, broker_entry=_broker_entry(frame, names))
    heads = entry[:-4]
    if parts.checksum is not None:
        heads = heads[:-4] + bytes(4)
    return b"".join((heads, _push(len(packed) + missing), packed, payload))


def _heads_only(frame: Frame, names: Names) -> bytes:
    """Return the bytes after a command without metadata. Lengths and magic numbers are kept, to preserve the defect."""
    if frame.type not in PAYLOAD_TYPES:
        return _BROKEN * (len(frame.data) - frame.parts.command_end)
    block = _broker_entry(frame, names)
    rest = frame.data[frame.parts.command_end if block is None else frame.parts.entry_end :]
    heads = rest[:2] + bytes(len(rest[2:6])) if rest[:2] == _CHECKED else rest[:_HEADS]
    before = b"" if block is None else _magic(BROKER_ENTRY_MAGIC, len(block)) + block
    return before + heads + _BROKEN * (len(rest) - len(heads))
