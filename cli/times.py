"""How times are written: tshark's -t letters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

__all__ = ["TimeFormat", "time_writer"]


class TimeFormat(StrEnum):
    """The letters of tshark's ``-t``."""

    r = "r"
    a = "a"
    ad = "ad"
    d = "d"
    dd = "dd"
    e = "e"


def _seconds(nanoseconds: int) -> str:
    sign = "-" if nanoseconds < 0 else ""
    whole, rest = divmod(abs(nanoseconds), 1_000_000_000)
    return f"{sign}{whole}.{rest // 1000:06d}"


def _clock(nanoseconds: int, layout: str) -> str:
    whole, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(whole, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return _seconds(nanoseconds)  # a time that no calendar has
    return f"{moment.strftime(layout)}.{rest // 1000:06d}"


def time_writer(style: TimeFormat) -> Callable[[int, int, int], str]:
    """A function of (time, time of the first frame, time of the frame before, as shown or not), all in ns.

    r: since the first frame; a: clock; ad: date and clock, both local; d and dd: since the frame before (dd: the one
    before that was shown); e: seconds since 1970.
    """
    match style:
        case TimeFormat.a:
            return lambda now, first, before: _clock(now, "%H:%M:%S")
        case TimeFormat.ad:
            return lambda now, first, before: _clock(now, "%Y-%m-%d %H:%M:%S")
        case TimeFormat.d | TimeFormat.dd:
            return lambda now, first, before: _seconds(now - before)
        case TimeFormat.e:
            return lambda now, first, before: _seconds(now)
        case TimeFormat.r:
            return lambda now, first, before: _seconds(now - first)
