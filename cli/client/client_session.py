"""What `produce` and `consume` have in common: a client in a loop, Ctrl-C, and a line that tells the rate.

Rules of this file
1. The first Ctrl-C (or SIGTERM) asks for the end: what is on its way is finished, and said. The second one ends at
   once.
2. Whether a broker is there is found out before anything else: who has mistyped an address is not kept waiting.
3. The rate goes to stderr: each second on a terminal, and once at the end everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from pcli.cli.common.output import say
from pcli.cli.common.signals import Stopped, StopRequest
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.client.shell import Client
    from pcli.replay.service import Security

__all__ = ["Meter", "run_client"]


def run_client(url: str, security: Security, main: Callable[[Client, StopRequest], Awaitable[None]]) -> None:
    """Run a program with a client that has found its broker; KeyboardInterrupt when somebody ended it.

    LocalError: what was to be sent is no text; RemoteError: there is no broker.
    """
    from pcli.replay.client.settings import ClientSettings
    from pcli.replay.client.shell import Client, run
    from pcli.replay.service import ServiceUrl

    service = ServiceUrl.parse(url)

    async def inner() -> bool:
        stop = StopRequest()
        try:
            async with Client(service, ClientSettings(security=security)) as client:
                with contextlib.suppress(Stopped):
                    await stop.unless(client.connect())
                    await main(client, stop)
        finally:
            stop.restore_signals()
        return stop.requested

    try:
        ended = run(inner())
    except UnicodeEncodeError as fault:
        raise LocalError(f"{fault.object!a} is no UTF-8: names, keys and properties are text") from None
    if ended:
        raise KeyboardInterrupt


class Meter:
    """Counts messages and their bytes; ``verb``: what became of them; ``printed``: they themselves go to stdout."""

    def __init__(self, verb: str, *, printed: bool) -> None:
        self._verb = verb
        self._watched = sys.stderr.isatty() and not (printed and sys.stdout.isatty())
        self.count = 0
        """Messages."""
        self.bytes = 0
        """Of their payloads; 0: they are not counted."""
        self._began = time.monotonic()
        self._seen = 0

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """While this lasts, somebody who looks is told each second; at the end everybody."""
        task = asyncio.ensure_future(self._show()) if self._watched else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                sys.stderr.write("\r\x1b[K")
            seconds = max(time.monotonic() - self._began, 1e-6)
            rate = f"{self.count / seconds:,.0f} a second" if self.count > 1 else "done"
            text = f"{self.count:,} message{'' if self.count == 1 else 's'} {self._verb}{_size(self.bytes)}"
            say(f"{text} in {seconds:.1f} s: {rate}")

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(1)
            fresh, self._seen = self.count - self._seen, self.count
            sys.stderr.write(f"\r\x1b[K{self.count:,} {self._verb}{_size(self.bytes)}, {fresh:,} a second")
            sys.stderr.flush()


def _size(count: float) -> str:
    """Bytes for people, as the end of a sentence; nothing when they were not counted."""
    if not count:
        return ""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f", {count:.0f} {unit}" if unit == "B" else f", {count:.1f} {unit}"
