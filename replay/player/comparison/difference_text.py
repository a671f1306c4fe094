"""The two values of a difference as text, each on one line of limited length.

Rules of this file
1. The texts of two different values differ. A live id is followed by its captured id, because ids are compared after
   they have been mapped. Long values begin near the first character that differs.
2. An entry is shown as its metadata. If the metadata are equal, the bytes of the payload that differ are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.replay.player.comparison.compare_responses import EXTRA, MISSING, Difference
from pcli.replay.player.id_translation import Ids, position_of

_LONG: Final = 60
"""Maximum number of characters of a value."""

_CONTEXT: Final = 12
"""Number of characters before the first difference of two long values."""

_BYTES: Final = 16
"""Number of bytes of a payload that are shown."""


def texts_of(difference: Difference, captured: Frame | None, live: Frame | None, ids: Ids) -> tuple[str, str]:
    """Return the captured and the live value; an absent value is empty.

    ``captured`` and ``live`` are the responses. ``ids`` contains the mapped ids.
    """
    values = _value(difference, difference.captured, captured), _value(difference, difference.live, live)
    if isinstance(difference.captured, pb.MessageIdData) and isinstance(difference.live, pb.MessageIdData):
        values = values[0], f"{values[1]} {_captured_id(difference.captured, difference.live, ids)}".strip()
    elif difference.field == "entry" and values[0] == values[1] and captured is not None and live is not None:
        values = _payloads(captured.payload or b"", live.payload or b"")
    elif values[0] and values[0] == values[1]:
        values = values[0], f"{values[1]} (of another object in the capture)"
    return _shortened(*values)


def _value(difference: Difference, value: Any, frame: Frame | None) -> str:
    """Return a value. If the difference concerns the whole response, return its name and content."""
    if value is None:
        return ""
    if difference.field in (MISSING, EXTRA, "type") and frame is not None:
        return f"{value} {_content(frame)}".strip()
    if isinstance(value, pb.MessageIdData):
        return _id_text(value)
    return _one_line(value) if isinstance(value, Message) else str(value)


def _id_text(data: pb.MessageIdData) -> str:
    """Return ledger:entry, and the other fields of a message id if they are set."""
    rest = pb.MessageIdData()
    rest.CopyFrom(data)
    rest.ledgerId = rest.entryId = 0
    others = _one_line(rest).replace("ledgerId: 0 entryId: 0", "").strip()
    ledger, entry = position_of(data)
    return f"{ledger}:{entry} {others}".strip()


def _captured_id(captured: pb.MessageIdData, live: pb.MessageIdData, ids: Ids) -> str:
    """Return which captured id corresponds to a live id."""
    known = ids.live_positions.get(position_of(live))
    if known is None:
        return "(not in the capture)"
    if known == position_of(captured):
        return "(not in the order of the capture)" if _id_text(captured) == _id_text(live) else ""
    return f"({known[0]}:{known[1]} in the capture)"


def _payloads(captured: bytes, live: bytes) -> tuple[str, str]:
    """Return the length of two payloads, and their bytes from the first byte that differs."""
    at = _common(captured, live)
    one, other = (f"{len(data)} bytes, {data[at : at + _BYTES].hex()} at byte {at}" for data in (captured, live))
    return one, other


def _content(frame: Frame) -> str:
    """Return the ids of a MESSAGE, or all fields of any other command."""
    command = frame.command
    if command.HasField("message"):
        position = command.message.message_id
        return f"{position.ledgerId}:{position.entryId} to consumer {command.message.consumer_id}"
    return "" if frame.body is None else _one_line(frame.body)


def _one_line(message: Message) -> str:
    return " ".join(str(message).split())


def _shortened(one: str, other: str) -> tuple[str, str]:
    """Return both texts with at most `_LONG` characters."""
    start = 0
    if max(len(one), len(other)) > _LONG and one[: _LONG - 1] == other[: _LONG - 1]:
        start = _common(one, other) - _CONTEXT
    return _cut(one, start), _cut(other, start)


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the number of equal items at the start of two sequences."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other)))


def _cut(text: str, start: int) -> str:
    text = f"…{text[start:]}" if start else text
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
