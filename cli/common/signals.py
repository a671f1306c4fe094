"""Ctrl-C and SIGTERM for commands that run until they are stopped: as a threading event, and inside an asyncio loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable
from typing import Final, TypeVar

__all__ = ["Stop", "Stopped", "stop_event"]

_T = TypeVar("_T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_FLUSH: Final = 10.0
"""Seconds that what is on its way may still take after Ctrl-C."""


def stop_event() -> threading.Event:
    """What is set by Ctrl-C and SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


class Stopped(Exception):  # noqa: N818  (it is a wish, not an error)
    """Somebody wants the end."""


class Stop:
    """Whether somebody wants the end."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._asked)

    def _asked(self) -> None:
        self.ask()
        self.forget()

    def ask(self) -> None:
        """Want the end, for a reason of one's own."""
        self._event.set()

    def forget(self) -> None:
        """From now on a signal does what it does to every program."""
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    @property
    def asked(self) -> bool:
        """Whether somebody does."""
        return self._event.is_set()

    async def unless(self, work: Awaitable[_T]) -> _T:
        """What the work gives; Stopped as soon as somebody wants the end."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
            if not self.asked or (task.done() and task.exception() is not None):
                return task.result()
            raise Stopped
        finally:
            for one in (task, stop):
                one.cancel()

    async def soon(self, work: Awaitable[_T]) -> _T | None:
        """What the work gives; None when it takes too long after somebody wanted the end."""
        with contextlib.suppress(Stopped):
            task = asyncio.ensure_future(work)
            return await self.unless(asyncio.shield(task))
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(task, _FLUSH)
        return None
