"""The event loop and the monotonic clock of all modules that use sockets."""

from __future__ import annotations

import asyncio
import time
from typing import Final

_START: Final = time.time_ns() - time.monotonic_ns()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if uvloop is installed, or else an asyncio event loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def now_ns() -> int:
    """Return the time in nanoseconds since 1970: the system time at import plus the elapsed monotonic time."""
    return _START + time.monotonic_ns()


def now_ms() -> int:
    """Return the time in milliseconds since 1970, from the same clock."""
    return now_ns() // 1_000_000
