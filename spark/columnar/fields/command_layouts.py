"""Layouts of commands: the positions of the numbers in a SEND, an ACK with three ids, a PING and other commands.

Rules of this file
1. A command has a layout only if columns can represent it. A field without a column, a number too large for its field,
   a repeated field or an unexpected wire type prevents this. ``complete`` is thus true for every row with a layout.
2. The fields and their columns come from column_coverage.py and the descriptors.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS
from pcli.spark.columnar.fields.column_coverage import AMBIGUOUS, COVERED_TYPES, NEEDED, NUMBERS
from pcli.spark.columnar.fields.layout_groups import Spot
from pcli.spark.columnar.fields.message_layouts import (
    LONGEST,
    Layout,
    LayoutBuilder,
    UnsupportedLayoutError,
    body_of,
    read_varint,
)

_ID_COLUMNS: Final = {"ledgerId": "ledger", "entryId": "entry", "partition": "partition", "batch_index": "batch_index"}
_NARROW: Final = 4
"""Maximum size of a varint that always fits a 32-bit field."""
_MINUS_ONE: Final = b"\xff" * 9 + b"\x01"


@dataclass(slots=True)
class CommandLayout:
    """A layout and the columns of its spots."""

    shape: Layout
    numbers: dict[str, Spot]
    """Spots by column of Frames. An empty spot represents the value -1."""
    words: list[Spot]
    """The ack set of a MESSAGE."""
    ids: list[tuple[dict[str, Spot], list[Spot]]]
    """The ids of an ACK: columns of AckIds to spots, and the ack set."""


@dataclass(slots=True)
class _Kind:
    """The fields that a message may contain, by tag."""

    numbers: dict[int, tuple[str, int]] = dataclasses.field(default_factory=dict)
    """The column, and the maximum number of bytes."""
    enums: dict[int, str] = dataclasses.field(default_factory=dict)
    """Column of a number that is 0 or 1 and the same in all rows of a layout."""
    below: dict[int, tuple[_Kind, bool]] = dataclasses.field(default_factory=dict)
    """Nested messages, and whether each is a message id of an ACK."""
    words: int = -1
    """Tag of an ack set."""
    needed: frozenset[str] = frozenset()


def _kind(message: Descriptor, keys: dict[str, str], prefix: str, needed: frozenset[str]) -> _Kind:
    """Return the fields in ``keys`` directly below ``prefix``, and the nested messages that contain further fields."""
    kind = _Kind(needed=needed)
    for one in message.fields:
        key, tag = prefix + one.name, one.number << 3
        if one.message_type is not None and one.is_repeated and one.name == "message_id":
            kind.below[tag | 2] = (_ID, True)
        elif one.message_type is not None and any(name.startswith(f"{key}.") for name in keys):
            kind.below[tag | 2] = (_kind(one.message_type, keys, f"{key}.", frozenset()), False)
        elif one.name == "ack_set" and prefix.count(".") == 2:
            kind.words = tag
        elif key in keys and one.enum_type is not None:
            kind.enums[tag] = keys[key]
        elif key in keys:
            kind.numbers[tag] = (keys[key], _limit(one, key))
    return kind


def _limit(one: FieldDescriptor, key: str) -> int:
    if one.type == FieldDescriptor.TYPE_UINT64:
        return LONGEST - 1 if key in AMBIGUOUS else LONGEST
    return _NARROW


_ID: Final = _kind(pb.MessageIdData.DESCRIPTOR, _ID_COLUMNS, "", frozenset({"ledger", "entry"}))
_ID.words = pb.MessageIdData.DESCRIPTOR.fields_by_name["ack_set"].number << 3


def _kind_of(number: int) -> _Kind:
    """Return the fields of a command's body."""
    keys, field = NUMBERS[number], COMMANDS[number].field
    body = pb.BaseCommand.DESCRIPTOR.fields_by_name[field].message_type
    assert body is not None
    return _kind(body, keys, f"pulsar.{field}.", frozenset(keys[key] for key in NEEDED[number]))


_KINDS: Final = {number: _kind_of(number) for number in COVERED_TYPES}


def id_layout(data: bytes) -> CommandLayout:
    """Return the layout of a message id in an ACK; raise UnsupportedLayoutError if columns cannot represent it."""
    reader = _Reader(data)
    numbers: dict[str, Spot] = {}
    words: list[Spot] = []
    reader.read(_ID, 0, len(data), numbers, words)
    if not _ID.needed <= numbers.keys():
        raise UnsupportedLayoutError
    return CommandLayout(reader.builder.cast(), numbers, words, [])


def command_layout(data: bytes) -> CommandLayout:
    """Return a command's layout; raise UnsupportedLayoutError if it has none.

    ``data`` begins after the frame's lengths.
    """
    start = body_of(data, 0, len(data))
    kind = _KINDS.get(data[1])
    if kind is None:
        raise UnsupportedLayoutError
    reader = _Reader(data)
    reader.builder.exact(0, start)
    numbers: dict[str, Spot] = {}
    words: list[Spot] = []
    reader.read(kind, start, len(data), numbers, words)
    if not kind.needed <= numbers.keys() or ("txn_most" in numbers) != ("txn_least" in numbers):
        raise UnsupportedLayoutError
    return CommandLayout(reader.builder.cast(), numbers, words, reader.ids)


class _Reader:
    """A parser that finds the spots of one command."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.builder = LayoutBuilder(data)
        self.ids: list[tuple[dict[str, Spot], list[Spot]]] = []

    def read(self, kind: _Kind, start: int, end: int, numbers: dict[str, Spot], words: list[Spot]) -> None:
        """Read the fields at data[start:end]."""
        at = start
        while at < end:
            tag, place = read_varint(self.data, at, end)
            value, next_at = read_varint(self.data, place, end)
            self.builder.exact(at, place)
            if tag in kind.below:
                self.builder.exact(place, next_at)
                self._below(*kind.below[tag], next_at, next_at + value, numbers, end)
                next_at += value
            elif tag == kind.words:
                self.builder.varint(place, next_at)
                words.append((place, next_at - place))
            elif tag in kind.enums and value < 2 and next_at == place + 1:
                self.builder.exact(place, next_at)
                _once(numbers, kind.enums[tag], (place, 1))
            else:
                self._number(kind, tag, place, next_at, numbers)
            at = next_at

    def _number(self, kind: _Kind, tag: int, place: int, next_at: int, numbers: dict[str, Spot]) -> None:
        column, limit = kind.numbers.get(tag, ("", 0))
        if next_at - place <= limit:
            self.builder.varint(place, next_at)
            _once(numbers, column, (place, next_at - place))
        elif limit == _NARROW and column in ("partition", "batch_index") and self.data[place:next_at] == _MINUS_ONE:
            # Clients write -1 for an absent value: ten bytes that are the same in every row.
            self.builder.exact(place, next_at)
            _once(numbers, column, (place, 0))
        else:
            raise UnsupportedLayoutError

    def _below(self, kind: _Kind, own: bool, start: int, stop: int, numbers: dict[str, Spot], end: int) -> None:
        if stop > end:
            raise UnsupportedLayoutError
        inner: dict[str, Spot] = {} if own else numbers
        words: list[Spot] = []
        self.read(kind, start, stop, inner, words)
        if own:
            if not kind.needed <= inner.keys():
                raise UnsupportedLayoutError
            self.ids.append((inner, words))


def _once(numbers: dict[str, Spot], column: str, spot: Spot) -> None:
    if column in numbers:
        raise UnsupportedLayoutError
    numbers[column] = spot
