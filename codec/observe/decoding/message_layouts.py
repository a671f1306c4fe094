"""Layouts: messages whose bytes differ only in the values of numbers, ASCII strings and bytes fields.

Nearly all messages of a capture share a few layouts. A layout is derived from one message, field by field. Whether
another message has the layout takes one comparison, and its values are at known positions.

Rules of this file
1. A layout is a mask and the masked bytes. Tags, lengths, enum values and booleans must be equal. Of the bytes of
   numbers and ASCII strings, only the highest bits must be equal: they divide a number into bytes, and a string remains
   ASCII. All other strings must be equal. Bytes fields may contain anything.
2. A message with an unknown field, an unknown enum value, a string that is not UTF-8, packed numbers, a number of fixed
   size, or invalid bytes has no layout. `message_decoder` decodes it.
3. The number of layouts is bounded. A derivation takes as long as twenty comparisons, so messages of which few share a
   layout use up the plan's credit. From then on only every 64th message is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from pcli.codec.observe.decoding.decode_plans import MESSAGE, MESSAGES, ONE, PACKED, SKIP, Plan, Slot
from pcli.codec.observe.decoding.message_decoder import pull_varint
from pcli.codec.observe.decoding.value_kinds import NotText, UnknownName, Values, kind_of

MAX_SIZE: Final = 512
"""Size of the largest message with a layout."""

MAX_LAYOUTS: Final = 8
"""Maximum number of layouts of one plan and size."""

MAX_KEPT: Final = 256
"""Maximum number of layouts of one plan. They occupy at most 4 MB, usually 50 kB."""

_MAX_CREDIT: Final = 4096
_PRICE: Final = 20
_TRIED: Final = 63
_SMALL: Final = 4
"""Bytes of a number that has the same value in all types of integers."""

_Field = tuple[int, str, int, int, Any]
"""Storage mode, key, start in the message, size, and converter (None if the number is the value).

The size is that of a number; for a string or bytes, its bitwise complement, which is negative. It is 0 if the last item
is the value itself, which is equal in all messages; for MESSAGES, the last item contains the fields of the message, and
MESSAGE stands for an empty message."""


@dataclass(slots=True)
class MessageLayout:
    """The layout of some messages of a plan."""

    mask: int
    """The bits that are equal in all messages of the layout."""
    bits: int
    """The values of these bits."""
    complete: bool
    """Whether the messages have all required fields."""
    fields: list[_Field]
    keys: frozenset[str]
    """The keys of the values."""

    def put(self, data: bytes, start: int, out: Values) -> None:
        """Add the values of the message that begins at ``start``, in the order of its fields."""
        _put(self.fields, data, start, out)


class _Layouts:
    """The known layouts of a plan."""

    __slots__ = ("credit", "kept", "missed", "of_size")

    def __init__(self) -> None:
        self.of_size: dict[int, list[MessageLayout]] = {}
        self.kept = 0
        """Number of layouts derived since the last removal of all."""
        self.credit = _MAX_CREDIT
        self.missed = 0


def layout_of(plan: Plan, data: bytes, start: int, end: int) -> MessageLayout | None:
    """Return the layout of the message data[start:end], or None if it has none or its layout is not kept."""
    size = end - start
    if not 0 < size <= MAX_SIZE or end > len(data):
        return None
    layouts: _Layouts | None = plan.layouts
    if layouts is None:
        layouts = plan.layouts = _Layouts()
    bits = int.from_bytes(data[start:end])
    for layout in layouts.of_size.get(size, ()):
        if bits & layout.mask == layout.bits:
            if layouts.credit < _MAX_CREDIT:
                layouts.credit += 1
            return layout
    layouts.missed += 1
    if layouts.credit < _PRICE and layouts.missed & _TRIED:
        return None
    layouts.credit -= _PRICE
    return _derive(layouts, plan, data[start:end], bits)


def _derive(layouts: _Layouts, plan: Plan, data: bytes, bits: int) -> MessageLayout | None:
    mask, fields = bytearray(b"\xff") * len(data), list[_Field]()
    try:
        if not _read(data, 0, len(data), plan, mask, fields):
            return None
        complete = bool(fields) and _is_complete(plan.message, data)
    except (IndexError, DecodeError):  # protobuf accepts fewer bytes of a tag or a length than of a number
        return None
    number = int.from_bytes(mask)
    layout = MessageLayout(number, bits & number, complete, fields, frozenset(field[1] for field in fields))
    if layouts.kept >= MAX_KEPT:
        layouts.of_size.clear()
        layouts.kept = 0
    layouts.kept += 1
    known = layouts.of_size.setdefault(len(data), [])
    known.insert(0, layout)
    del known[MAX_LAYOUTS:]
    return layout


def _is_complete(kind: Descriptor, data: bytes) -> bool:
    return bool(GetMessageClass(kind).FromString(data).IsInitialized())


def _read(data: bytes, position: int, end: int, plan: Plan, mask: bytearray, fields: list[_Field]) -> bool:
    """Read the fields of data[position:end]; return False if it has no layout."""
    while position < end:
        tag, start = pull_varint(data, position)
        slot = plan.slots.get(tag)
        if slot is None or slot[0] == PACKED:
            return False
        if tag & 7 == 0:
            value, position = pull_varint(data, start)
            known = slot[0] == SKIP or _read_number(slot, value, start, position, mask, fields)
        elif tag & 7 == 2:
            size, start = pull_varint(data, start)
            position = start + size
            known = position <= end and _read_bytes(slot, data, start, position, mask, fields)
        else:
            known = False
        if not known:
            return False
    return position == end


def _read_number(slot: Slot, value: int, start: int, end: int, mask: bytearray, fields: list[_Field]) -> bool:
    how, key, to, field = slot
    if field.enum_type is not None or field.type == FieldDescriptor.TYPE_BOOL:
        fields.append((how, key, start, 0, to(value)))
        return type(to(value)) is not UnknownName
    mask[start:end] = b"\x80" * (end - start)
    is_value = end - start <= _SMALL and kind_of(field) == "number"
    fields.append((how, key, start, end - start, None if is_value else to))
    return True


def _read_bytes(slot: Slot, data: bytes, start: int, end: int, mask: bytearray, fields: list[_Field]) -> bool:
    how, key, to, field = slot
    if how == MESSAGES:
        inner: list[_Field] = []
        fields.append((how, key, start, 0, inner))
        return _read(data, start, end, to, mask, inner)
    if how == MESSAGE:
        if start == end:
            fields.append((how, key, start, 0, None))
        return _read(data, start, end, to, mask, fields)
    text = data[start:end]
    fields.append((how, key, start, ~len(text), to))
    if field.type == FieldDescriptor.TYPE_BYTES:
        mask[start:end] = bytes(end - start)
    elif text.isascii():
        mask[start:end] = b"\x80" * (end - start)
    return type(to(text)) is not NotText


def _put(fields: list[_Field], data: bytes, base: int, out: Values) -> None:
    value: Any
    for how, key, offset, size, to in fields:
        start = base + offset
        if size > 0:
            value = data[start] if size == 1 else pull_varint(data, start)[0]
            if to is not None:
                value = to(value)
        elif size < 0:
            value = to(data[start : start + ~size])
        elif how == MESSAGES:
            value = {}
            _put(to, data, base, value)
        else:
            value = to
        if how == ONE:
            out[key] = value
        elif how == MESSAGE:
            out.setdefault(key, {})
        else:
            out.setdefault(key, []).append(value)
