"""Selection of the frames in a window around a given frame, and of earlier frames that identify the peers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pcli.codec.capture.frames import CapturedFrame
from pcli.codec.errors import LocalError
from pcli.codec.observe.bit_set import Bits
from pcli.codec.wire.commands import BY_NAME

DEFAULT_WINDOW: Final = "500"
"""Default window: this number of frames before the given frame, and the same number after it."""

_WINDOW: Final = re.compile(r"(\d{1,9})|(\d{1,6}(?:\.\d{1,9})?)(ms|s)")

_TRAFFIC: Final = frozenset(
    BY_NAME[name].number
    for name in (
        "SEND", "SEND_RECEIPT", "SEND_ERROR", "MESSAGE", "ACK", "ACK_RESPONSE", "FLOW", "PING", "PONG",
        "REDELIVER_UNACKNOWLEDGED_MESSAGES",
    )
)  # fmt: skip
"""Commands that are omitted before the window. All other commands identify the peers and their state."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected part of a capture."""

    streams: Bits | None = None
    """Connection numbers; None for all."""
    first: int = 0
    last: int = 0
    """Frames from ``first`` to ``last``, with the frames before them that identify the peers; 0 for all."""

    def takes(self, frame: CapturedFrame) -> bool:
        """Whether a frame on a selected connection is selected."""
        if not self.last or self.first <= frame.number <= self.last:
            return True
        return frame.number < self.first and frame.type not in _TRAFFIC


EVERYTHING: Final = Selection()
"""The whole capture."""


def select_around(
    frames: Callable[[], Iterable[object]], number: int, window: str, streams: Bits | None = None
) -> Selection:
    """Select the frames in a window around a frame, and earlier frames of their connections that identify the peers.

    ``frames`` returns the events of the capture from its start at each call. ``window`` is a number of frames or a time
    (``2s``, ``300ms``) in each direction; ``streams`` limits the connections. Raise LocalError if the frame does not
    exist.
    """
    span, duration = _parse(window)
    found, last = None, 0
    for event in frames():
        if isinstance(event, CapturedFrame):
            last = event.number
            if last == number:
                found = event
                break
    if found is None:
        raise LocalError(f"--around {number}: the capture has {last} frames")
    first, end = (number - span, number + span) if span else (number, number)
    wanted = Bits()
    for event in frames():
        if not isinstance(event, CapturedFrame):
            continue
        if duration and abs(event.time_ns - found.time_ns) <= duration:
            first, end = min(first, event.number), max(end, event.number)
        if first <= event.number <= end and (streams is None or event.stream.number in streams):
            wanted.add(event.stream.number)
        elif event.number > end and (span or event.time_ns - found.time_ns > duration):
            break
    return Selection(wanted, max(1, first), end)


def _parse(window: str) -> tuple[int, int]:
    """Return (frames, nanoseconds); one of the two numbers is 0."""
    found = _WINDOW.fullmatch(window)
    if found is None or not float(found[1] or found[2]):
        raise LocalError(f"--window {window}: give a number of frames, or a time such as 2s or 300ms")
    if found[1]:
        return int(found[1]), 0
    return 0, round(float(found[2]) * (1_000_000_000 if found[3] == "s" else 1_000_000))
