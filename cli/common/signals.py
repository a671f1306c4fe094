"""Ctrl-C and SIGTERM in commands that run until they are stopped, in the main thread or in an asyncio loop."""

from __future__ import annotations

import asyncio
import contextlib
import select
import signal
import socket
from collections.abc import Awaitable
from typing import Final, TypeVar

_T = TypeVar("_T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_FLUSH: Final = 10.0
"""Seconds to finish pending work after Ctrl-C."""

_OPEN: Final[list[socket.socket]] = []
"""The sockets of all events: a signal may write to them until the process ends."""


class StopEvent:
    """An event that Ctrl-C and SIGTERM set, and that any thread can set and wait for.

    A signal writes to a pair of sockets, which are open until the process ends; Windows can wait for sockets, but not
    for pipes. A lock would not be safe: the main thread can own the lock when the handler runs, and a signal that the
    kernel delivers to another thread does not interrupt a wait for a lock.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.settimeout(0)
        _OPEN.extend((self._reader, self._writer))
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)

    def set(self) -> None:
        """Set the event."""
        with contextlib.suppress(BlockingIOError):
            self._writer.send(b"\0")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the event is set, or for this time. Return whether it is set."""
        return bool(select.select([self._reader], [], [], seconds)[0])


class Stopped(Exception):  # noqa: N818  (not an error)
    """The exception that is raised if a stop is requested before the work is done."""


class StopRequest:
    """A request to stop inside an asyncio loop, made by the first Ctrl-C or SIGTERM, or by the program."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        self.request()
        self.restore_signals()

    def request(self) -> None:
        """Request the stop."""
        self._event.set()

    def restore_signals(self) -> None:
        """Restore the default signal handlers, so that the next Ctrl-C ends the process."""
        for number in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._event.is_set()

    async def until_stopped(self, work: Awaitable[_T]) -> _T:
        """Return the result of the work. Raise Stopped as soon as a stop is requested."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
            if not self.requested or (task.done() and task.exception() is not None):
                return task.result()
            raise Stopped
        finally:
            for one in (task, stop):
                one.cancel()

    async def finish(self, work: Awaitable[_T]) -> _T | None:
        """Return the result of the work, or None if it takes more than `_FLUSH` seconds after a stop was requested."""
        with contextlib.suppress(Stopped):
            task = asyncio.ensure_future(work)
            return await self.until_stopped(asyncio.shield(task))
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(task, _FLUSH)
        return None
