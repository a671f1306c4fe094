"""The order of the parts of a rotated recording: a pure function from names and times.

Rules of this file
1. The time of the first packet decides, where it is known. Only it is right when a ring was written over: with
   ``tcpdump -W 4`` part 00 may be the newest.
2. Where times are equal or unknown the names decide, read as people read them, numbers as numbers. That covers
   tcpdump -C (x, x1, x2, ... x10), -W (x00, x01), -G (times in the name), dumpcap and editcap (x_00001_20261120183458).
3. A part without packets stands behind the part whose name comes before its own; it does not matter to the frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Final

from pcli.codec.capture.packets import Packet
from pcli.codec.capture.reading import read_packets
from pcli.codec.errors import CaptureError

__all__ = ["Part", "order_parts", "pull_first_time"]

_NUMBERS: Final = re.compile(r"(\d+)")
_ENDING: Final = re.compile(r"\.(?:pcapng|pcap|cap)(?=\d*$)|\.(?:gz|zst)$", re.IGNORECASE)
"""What a file is, and how it is packed; ``tcpdump -C`` puts its number behind it, others before it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a recording."""

    name: str
    """The file's name, with or without its folder."""
    first_ns: int | None = None
    """Time of its first packet, ns since 1970; None: not known, or no packet in it."""


def order_parts(parts: Iterable[Part]) -> list[Part]:
    """The parts in the order in which they were written."""
    named = sorted(parts, key=lambda part: _key(part.name))
    timed = sorted((part for part in named if part.first_ns is not None), key=_time)
    previous: Part | None = None
    for part in named:
        if part.first_ns is None:
            timed.insert(0 if previous is None else timed.index(previous) + 1, part)
        previous = part
    return timed


def pull_first_time(file: BinaryIO) -> int | None:
    """Time of the first packet in a capture; None when it has none, or is no capture. The file has been read then."""
    try:
        return next((item.time_ns for item in read_packets([("", file)]) if isinstance(item, Packet)), None)
    except CaptureError:
        return None


def _time(part: Part) -> int:
    assert part.first_ns is not None
    return part.first_ns


def _key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Text and numbers in turn, a number by its length first: x before x1 before x2 before x10."""
    pieces = _NUMBERS.split(_ENDING.sub("", _ENDING.sub("", name)))
    return tuple(_number(piece) if index % 2 else (piece, -1, "") for index, piece in enumerate(pieces))


def _number(digits: str) -> tuple[str, int, str]:
    digits = digits.lstrip("0")
    return "", len(digits), digits
