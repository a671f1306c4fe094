"""Time formats: the letters of tshark's -t, and times in options and messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal

_EPOCH: Final = re.compile(r"\d{1,10}(\.\d*)?", re.ASCII)
"""Pattern of seconds since 1970. A number with more digits would be in milliseconds or would not be a valid date."""


TimeFormat = Literal["r", "a", "ad", "d", "dd", "e"]
"""The letters of tshark's ``-t``."""


def _seconds(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    whole, rest = divmod(abs(nanoseconds), 1_000_000_000)
    return f"{sign}{whole}.{rest // 1000:06d}"


def _clock(nanoseconds: int, layout: str) -> str:
    whole, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(whole, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return _seconds(nanoseconds)  # outside the range of the calendar
    return f"{moment.strftime(layout)}.{rest // 1000:06d}"


def time_writer(style: TimeFormat) -> Callable[[int, int, int], str]:
    """Return a function that formats the time of a frame.

    Its arguments in ns are the times of the frame, of the first frame, and of the previous frame (for dd, of the
    previous frame that was shown).

    r: since the first frame; a: local time; ad: local date and time; d: since the previous frame; dd: since the
    previous frame that was shown; e: seconds since 1970.
    """
    match style:
        case "a":
            return lambda now, first, before: _clock(now, "%H:%M:%S")
        case "ad":
            return lambda now, first, before: _clock(now, "%Y-%m-%d %H:%M:%S")
        case "d" | "dd":
            return lambda now, first, before: _seconds(now - before)
        case "e":
            return lambda now, first, before: _seconds(now)
        case "r":
            return lambda now, first, before: _seconds(now - first)


def epoch_ns(option: str, text: str) -> int:
    """Parse seconds or ISO 8601 to ns since 1970. Raises LocalError for any other string.

    An ISO 8601 time without a time zone is interpreted as local time.
    """
    from decimal import Decimal

    from pcli.codec.errors import LocalError

    word = text.strip()
    if _EPOCH.fullmatch(word):
        return int(Decimal(word) * 1_000_000_000)
    try:
        moment = datetime.fromisoformat(word)
        return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
    except (ValueError, OverflowError, OSError):
        forms = "seconds since 1970, as 1795198511.25, or a time, as 2026-11-20T18:15:11.25Z"
        raise LocalError(f"{option} {text}: write {forms}") from None


def moment_text(time_ns: int) -> str:
    """Return a time in both accepted forms, such as ``1795198511.250000000 (2026-11-20T18:15:11.250000Z)``."""
    from pcli.codec.observe.text_format import epoch_text

    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{epoch_text(time_ns)} ({moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z)"
