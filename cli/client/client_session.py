"""The client that `produce` and `consume` run: its connection, Ctrl-C, and a line with the rate.

Rules of this file
1. At the first Ctrl-C (or SIGTERM), the client finishes pending messages and counts them. The second signal ends the
   process at once.
2. The client connects before anything else, so that a wrong address is reported at once.
3. The rate is printed on stderr, every second on a terminal, and always at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from pcli.cli.common.output import counted, say
from pcli.cli.common.signals import Stopped, StopRequest
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.client.asyncio_client import Client
    from pcli.replay.service_url import Security


def run_client(url: str, security: Security, main: Callable[[Client, StopRequest], Awaitable[None]]) -> None:
    """Run a program with a connected client. Raises KeyboardInterrupt if a signal stopped the program.

    Raises LocalError if text to send is not UTF-8, and RemoteError if the broker cannot be reached.
    """
    from pcli.replay.client.asyncio_client import Client, run
    from pcli.replay.client.settings import ClientSettings
    from pcli.replay.service_url import ServiceUrl

    service = ServiceUrl.parse(url)

    async def inner() -> bool:
        stop = StopRequest()
        try:
            async with Client(service, ClientSettings(security=security)) as client:
                with contextlib.suppress(Stopped):
                    await stop.until_stopped(client.connect())
                    await main(client, stop)
        finally:
            stop.restore_signals()
        return stop.requested

    try:
        ended = run(inner())
    except UnicodeEncodeError as fault:
        raise LocalError(f"{fault.object!a} is not UTF-8: names, keys and properties must be text") from None
    if ended:
        raise KeyboardInterrupt


class Meter:
    """A counter of messages and bytes. ``verb`` is sent or received. ``printed`` is whether stdout carries messages."""

    def __init__(self, verb: str, *, printed: bool) -> None:
        self._verb = verb
        self._watched = sys.stderr.isatty() and not (printed and sys.stdout.isatty())
        self.count = 0
        """Number of messages."""
        self.bytes = 0
        """Number of payload bytes; 0 if they are not counted."""
        self._began = time.monotonic()
        self._seen = 0

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """During the block, print the rate every second if stderr is a terminal. Always print it at the end."""
        task = asyncio.ensure_future(self._show()) if self._watched else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                sys.stderr.write("\r\x1b[K")
            seconds = max(time.monotonic() - self._began, 1e-6)
            rate = f" ({self.count / seconds:,.0f} per second)" if self.count > 1 else ""
            say(f"{counted(self.count, 'message')} {self._verb}{_size(self.bytes)} in {seconds:.1f} s{rate}")

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(1)
            fresh, self._seen = self.count - self._seen, self.count
            sys.stderr.write(f"\r\x1b[K{self.count:,} {self._verb}{_size(self.bytes)}, {fresh:,} per second")
            sys.stderr.flush()


def _size(count: float) -> str:
    """Return a suffix such as ``, 5.2 MB``, or an empty string if the bytes were not counted."""
    if not count:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f", {count:.0f} {unit}" if unit == "B" else f", {count:.1f} {unit}"
