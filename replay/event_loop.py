"""What everything here that has sockets runs on: a loop, and a clock that never jumps."""

from __future__ import annotations

import asyncio
import time
from typing import Final

__all__ = ["new_event_loop", "now_ms", "now_ns"]

_START: Final = time.time_ns() - time.monotonic_ns()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where it is installed, else of asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def now_ns() -> int:
    """Nanoseconds since 1970: the wall's time when this was loaded, the monotonic clock from there."""
    return _START + time.monotonic_ns()


def now_ms() -> int:
    """The same in milliseconds."""
    return now_ns() // 1_000_000
