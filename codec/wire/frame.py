"""One frame: its bytes, and its parts, which are parsed on first access.

Rules of this file
1. Creating a frame reads only its type, two bytes. Every other part is parsed on first access and cached. A command
   that prints one frame in a hundred therefore parses only that frame.
2. No function raises an error for invalid bytes. Instead, a Problem is added to the frame, and strict peers check for
   Problems.
3. A frame that the capture truncated is shorter than its length prefix; ``missing`` is the difference.

Layout (docs "Binary protocol", broker class Commands)::

    u32 size of the rest, u32 size of the command, BaseCommand
    and for SEND and MESSAGE: [u16 0x0e02, u32 size, BrokerEntryMetadata] [u16 0x0e01, u32 crc32c]
                              u32 size, MessageMetadata, payload
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import Any, Final

import google_crc32c
from google.protobuf.message import DecodeError, Message

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, COMMANDS, PAYLOAD_TYPES
from pcli.codec.wire.constants import BROKER_ENTRY_MAGIC, CHECKSUM_MAGIC
from pcli.codec.wire.problems import Problem
from pcli.codec.wire.truncated_messages import without_truncated_field

SEND: Final = BY_NAME["SEND"].number
"""The type of the command that publishes an entry to the broker."""

MESSAGE: Final = BY_NAME["MESSAGE"].number
"""The type of the command that delivers an entry to a consumer."""

_u32 = Struct(">I").unpack_from
_u16 = Struct(">H").unpack_from
_two_lengths = Struct(">II").unpack_from
_headers = Struct(">HII").unpack_from
_crc32c = google_crc32c.value


def pull_type(data: bytes, start: int, end: int) -> int:
    """Return the command type in the BaseCommand at data[start:end], or -1 if it cannot be read.

    All known encoders write field 1 first, so two bytes are nearly always enough.
    """
    if end - start >= 2 and data[start] == 8 and data[start + 1] < 128:
        return data[start + 1]
    try:
        command = pb.BaseCommand.FromString(data[start:end])
    except DecodeError:
        return -1
    if command.HasField("type"):
        return command.type
    return _unknown_type(command)


def _unknown_type(command: Message) -> int:
    """Return a type that the generated code lacks, or -1. Proto2 stores an unknown enum value as an unknown field."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    unknown = UnknownFieldSet(command)
    for index in range(len(unknown)):
        if unknown[index].field_number == 1 and unknown[index].wire_type == 0:
            return int(unknown[index].data)
    return -1


class Parts:
    """The parts of a frame as offsets into its bytes; -1 if a part is absent."""

    __slots__ = (
        "checked_start",
        "checksum",
        "command_end",
        "command_start",
        "computed",
        "entry_end",
        "entry_start",
        "metadata_end",
        "metadata_start",
        "payload_end",
        "payload_start",
        "problems",
    )

    def __init__(self) -> None:
        self.command_start = 8
        self.command_end = 8
        self.entry_start = self.entry_end = -1
        self.checksum: int | None = None
        """The stored CRC-32C; None if there is no checksum block."""
        self.computed: int | None = None
        """The CRC-32C computed from the bytes; None until the first access to ``Frame.checksum``."""
        self.checked_start = -1
        """Start of the checksummed bytes: the metadata's length field."""
        self.metadata_start = self.metadata_end = -1
        self.payload_start = self.payload_end = -1
        self.problems: list[Problem] = []


class Frame:
    """One frame: ``data``, its bytes including the length prefix, and ``type``, the number of its command type.

    ``type`` is -1 if the command cannot be read.
    """

    __slots__ = ("_body", "_command", "_entry", "_metadata", "_parts", "data", "type")

    def __init__(self, data: bytes, type: int) -> None:  # noqa: A002  (the word of the protocol)
        self.data = data
        self.type = type
        self._command: pb.BaseCommand | None = None
        self._body: Any = None
        self._metadata: pb.MessageMetadata | None = None
        self._entry: pb.BrokerEntryMetadata | None = None
        self._parts: Parts | None = None

    @classmethod
    def of(cls, data: bytes) -> Frame:
        """Make a frame from its bytes, length prefix included. At least 8 bytes are required."""
        end = min(len(data), 8 + _u32(data, 4)[0])
        return cls(data, pull_type(data, 8, end))

    @property
    def length(self) -> int:
        """Length of the whole frame in bytes according to its length prefix, prefix included."""
        size: int = _u32(self.data, 0)[0]
        return size + 4

    @property
    def missing(self) -> int:
        """Number of bytes that ``data`` lacks according to the length prefix."""
        return max(0, self.length - len(self.data))

    @property
    def parts(self) -> Parts:
        """The offsets of the parts, with the problems found in the lengths."""
        if self._parts is None:
            self._parts = split(self.data, self.type, len(self.data))
        return self._parts

    @property
    def command(self) -> pb.BaseCommand:
        """The command. If it is truncated, it contains the complete fields; after an error, the fields before it."""
        if self._command is None:
            data = self.data
            self._command = pb.BaseCommand()
            _parse(self._command, data[8 : 8 + _u32(data, 4)[0]], "protobuf", self)
        return self._command

    @property
    def body(self) -> Any:
        """The message in the command, such as ``CommandFlow``; empty if missing, None if the type is unknown."""
        if self._body is None:
            row = COMMANDS.get(self.type)
            self._body = None if row is None else getattr(self.command, row.field)
        return self._body

    @property
    def metadata(self) -> pb.MessageMetadata | None:
        """The message metadata; None for a command without payload, or if the metadata is missing or truncated."""
        if self._metadata is None:
            parts = self.parts
            if parts.metadata_start < 0:
                return None
            self._metadata = pb.MessageMetadata()
            _parse(self._metadata, self.data[parts.metadata_start : parts.metadata_end], "metadata", self)
        return self._metadata

    @property
    def broker_entry(self) -> pb.BrokerEntryMetadata | None:
        """The broker entry metadata, or None if there is none."""
        if self._entry is None:
            parts = self.parts
            if parts.entry_start < 0:
                return None
            self._entry = pb.BrokerEntryMetadata()
            _parse(self._entry, self.data[parts.entry_start : parts.entry_end], "broker-entry", self)
        return self._entry

    @property
    def payload(self) -> bytes | None:
        """The payload as transmitted (compressed, encrypted, a batch), or None if there is none."""
        parts = self.parts
        return None if parts.payload_start < 0 else self.data[parts.payload_start : parts.payload_end]

    @property
    def checksum(self) -> str | None:
        """``good``, ``bad`` or ``none`` (no checksum block); None if the frame has no payload or is truncated."""
        parts = self._parts or self.parts
        # A truncated frame always has a problem, and most frames have none. Checking the list first is faster.
        if parts.payload_start < 0 or (parts.problems and self.missing):
            return None
        if parts.checksum is None:
            return "none"
        if parts.computed is None:
            parts.computed = _crc32c(self.data[parts.checked_start : parts.payload_end])
        return "good" if parts.computed == parts.checksum else "bad"

    @property
    def problems(self) -> list[Problem]:
        """All problems that can be detected in this frame alone. Parts that were not parsed yet are parsed now.

        Invalid UTF-8, unknown fields and commands from the wrong side are not checked here. The package ``observe``
        checks them because it tracks the connection.
        """
        command, parts = self.command, self.parts
        found = list(parts.problems)
        if self.missing:
            return found
        if not any(problem.kind == "protobuf" for problem in found):
            found += _command_problems(self.type, command)
        for part in (self.metadata, self.broker_entry):
            if part is not None:
                found += _required(part)
        found += (problem for problem in parts.problems if problem not in found)
        if self.checksum == "bad":
            found.append(Problem("checksum", f"0x{parts.checksum:08x} in the frame, 0x{parts.computed:08x} computed"))
        return found


def _parse(message: Message, data: bytes, kind: str, frame: Frame) -> None:
    try:
        message.MergeFromString(data)
    except DecodeError:
        if frame.missing:  # not invalid
            message.Clear()
            with suppress(DecodeError):
                message.MergeFromString(without_truncated_field(message.DESCRIPTOR, data))
        else:
            frame.parts.problems.append(Problem(kind, f"{len(data)} bytes are not a {message.DESCRIPTOR.name}"))


def _command_problems(number: int, command: pb.BaseCommand) -> list[Problem]:
    if number < 0:
        return [Problem("required", "type: the command has no type")]
    if number not in COMMANDS:
        return [Problem("unknown-command", f"type {number}")]
    return _required(command) or _without_body(number, command)


def _without_body(number: int, command: pb.BaseCommand) -> list[Problem]:
    body = command.DESCRIPTOR.fields_by_number[number]
    return [] if command.HasField(body.name) else [Problem("required", f"{body.name}: the body is missing")]  # type: ignore[arg-type]


def _required(message: Message) -> list[Problem]:
    if message.IsInitialized():
        return []
    return [Problem("required", name) for name in message.FindInitializationErrors()]  # type: ignore[attr-defined]


def split(data: bytes, type_: int, size: int) -> Parts:
    """Find the parts within the first ``size`` bytes of a frame. Stop at the first length that exceeds these bytes.

    Bytes after the metadata are not read and may be absent from ``data``.
    """
    parts = Parts()
    end, position = _two_lengths(data)
    end += 4
    position += 8
    whole = end <= size
    if not whole:
        parts.problems.append(Problem("cut", f"{end - size} of {end} bytes are missing from the capture"))
        end = size
    if position > end:
        if whole:
            parts.problems.append(Problem("length", f"command of {position - 8} bytes in a frame of {end}"))
        parts.command_end = end
        return parts
    parts.command_end = position
    if type_ in PAYLOAD_TYPES:
        _split_entry(data, parts, position, end, whole)
    elif position < end:
        parts.problems.append(Problem("trailing", f"{end - position} bytes after the command"))
    return parts


def _split_entry(data: bytes, parts: Parts, position: int, end: int, whole: bool) -> None:
    """Find the headers and the payload in data[position:end]."""
    if end - position >= 10:
        # Nearly all entries have a checksum block and no broker entry block. One read covers this case.
        magic, checksum, size = _headers(data, position)
        start = position + 10
        if magic == CHECKSUM_MAGIC and start + size <= end:
            parts.checksum, parts.checked_start = checksum, position + 6
            parts.metadata_start = start
            parts.metadata_end = parts.payload_start = start + size
            parts.payload_end = end
            return
    if end - position >= 6 and _u16(data, position)[0] == BROKER_ENTRY_MAGIC:
        start = position + 6
        position = start + _u32(data, position + 2)[0]
        if position > end:
            if whole:
                parts.problems.append(
                    Problem("broker-entry", f"{position - start} bytes, but only {end - start} are left")
                )
            return
        parts.entry_start, parts.entry_end = start, position
    if end - position >= 6 and _u16(data, position)[0] == CHECKSUM_MAGIC:
        parts.checksum = _u32(data, position + 2)[0]
        position += 6
    parts.checked_start = position
    if end - position < 4:
        if whole:
            parts.problems.append(Problem("metadata", f"{end - position} bytes left for metadata and payload"))
        return
    start = position + 4
    position = start + _u32(data, position)[0]
    if position > end:
        if whole:
            parts.problems.append(Problem("metadata", f"{position - start} bytes, but only {end - start} are left"))
            return
        parts.metadata_start, parts.metadata_end = start, end
        return
    parts.metadata_start, parts.metadata_end = start, position
    parts.payload_start, parts.payload_end = position, end
