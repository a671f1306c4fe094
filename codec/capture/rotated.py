"""The order of the parts of a rotated capture: a pure function of names and times.

Rules of this file
1. Parts are sorted by the time of their first packet, if known. Names are misleading in an overwritten ring: with
   ``tcpdump -W 4``, part 00 may be the newest.
2. If times are equal or unknown, parts are sorted by name, with digits compared as numbers. This order is correct for
   tcpdump -C (x, x1, x2, ... x10), -W (x00, x01), -G (times in the name), dumpcap and editcap (x_00001_20261120183458).
3. A part without packets follows the part with the preceding name. Its position does not affect the frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Final

from pcli.codec.capture.packets import Packet
from pcli.codec.capture.reading import read_packets
from pcli.codec.errors import CaptureError

_NUMBERS: Final = re.compile(r"(\d+)")
_ENDING: Final = re.compile(r"\.(?:pcapng|pcap|cap)(?=\d*$)|\.(?:gz|zst|xz|bz2|lz4)$", re.IGNORECASE)
"""Suffixes of captures and compressed files. ``tcpdump -C`` puts the number after the suffix; other tools put it before
the suffix."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a capture."""

    name: str
    """The file's name, with or without a folder."""
    first_ns: int | None = None
    """Time of the first packet, ns since 1970; None if unknown or if there is no packet."""


def order_parts(parts: Iterable[Part]) -> list[Part]:
    """Return the parts in the order in which they were written."""
    named = sorted(parts, key=lambda part: _key(part.name))
    timed = sorted((part for part in named if part.first_ns is not None), key=_time)
    previous: Part | None = None
    for part in named:
        if part.first_ns is None:
            timed.insert(0 if previous is None else timed.index(previous) + 1, part)
        previous = part
    return timed


def pull_first_time(file: BinaryIO) -> int | None:
    """Return the time of a capture's first packet, or None if there is none. The file's read position changes."""
    try:
        return next((item.time_ns for item in read_packets([("", file)]) if isinstance(item, Packet)), None)
    except CaptureError:
        return None


def _time(part: Part) -> int:
    assert part.first_ns is not None
    return part.first_ns


def _key(name: str) -> tuple[tuple[str, int, str], ...]:
    """Return a sort key of alternating text and numbers, shorter numbers first: x before x1 before x2 before x10."""
    pieces = _NUMBERS.split(_ENDING.sub("", _ENDING.sub("", name)))
    return tuple(_number(piece) if index % 2 else (piece, -1, "") for index, piece in enumerate(pieces))


def _number(digits: str) -> tuple[str, int, str]:
    digits = digits.lstrip("0")
    return "", len(digits), digits
