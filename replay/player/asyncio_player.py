"""The player on sockets. No other module of the player uses an event loop, ports or a clock.

Rules of this file
1. Each connection of the capture has one socket to the specified address. A different broker in LOOKUP_RESPONSE is a
   difference. The player opens no additional connection, because the captured client opened none.
2. REST calls are made one after another. They are skipped if no address of the REST interface is specified.
3. The end of a socket is an event, just as a frame is. A RemoteError is raised if the broker is unreachable or refuses
   the first login, which the captured broker accepted. It is also raised if the first event is the end of the
   connection, because the address then does not belong to a broker, or the port requires TLS.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pcli.codec.errors import LocalError, RemoteError
from pcli.replay.client.connection.connect_errors import reason_for
from pcli.replay.event_loop import now_ms
from pcli.replay.player.player import Action, CloseConnection, OpenConnection, Player, SendCommand
from pcli.replay.player.script.script import RestCall
from pcli.replay.service_url import Security, ServiceUrl

_READ: Final = 1 << 16
_CONNECT_S: Final = 10
_QUIET_MS: Final = 300
"""Time to wait for extra responses at the end, in milliseconds."""


def play(
    player: Player, to: ServiceUrl, security: Security, *, admin: str = "", progress: Callable[[float], None]
) -> None:
    """Replay to the end. Raises RemoteError if the broker is unreachable, or LocalError if credentials are unusable."""
    if to.http:
        raise LocalError(f"{to}: a replay uses the binary protocol: write a pulsar:// or pulsar+ssl:// URL")
    asyncio.run(_ReplaySession(player, to, security, admin, progress).run())


def call_rest(admin: str, call: RestCall, security: Security | None = None) -> int:
    """Make a REST call and return its status. Raises RemoteError if the address is unreachable."""
    body = None if call.body is None else json.dumps(call.body).encode()
    request = urllib.request.Request(  # noqa: S310  (the user's own address)
        f"{admin.rstrip('/')}/admin/v2/{call.path}", data=body, method=call.method
    )
    request.add_header("Content-Type", "application/json")
    security = security or Security()
    for name, value in security.headers().items():
        request.add_header(name, value)
    context = security.context() if admin.startswith("https:") else None
    try:
        with urllib.request.urlopen(request, timeout=_CONNECT_S, context=context) as response:  # noqa: S310
            return int(response.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code
    except OSError as fault:
        raise RemoteError(f"{admin}: {getattr(fault, 'reason', fault)}") from None


class _ReplaySession:
    """One replay in progress."""

    def __init__(
        self, player: Player, to: ServiceUrl, security: Security, admin: str, progress: Callable[[float], None]
    ) -> None:
        self._player, self._to, self._security = player, to, security
        self._admin, self._progress = admin, progress
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._opened: list[asyncio.StreamWriter] = []
        self._readers: set[asyncio.Task[None]] = set()
        self._wakeup = asyncio.Event()

    async def run(self) -> None:
        """Run until every step is sent and every response has arrived or timed out."""
        player = self._player
        try:
            while not player.done:
                self._wakeup.clear()
                actions = player.actions(now_ms())
                for action in actions:
                    await self._do(action)
                self._check_greeting()
                if actions:
                    self._progress(player.progress)
                elif player.deadline is not None:
                    await self._wait(player.deadline - now_ms())
            await asyncio.sleep(_QUIET_MS / 1000)
        finally:
            await self._close()

    def _check_greeting(self) -> None:
        """Raise RemoteError if the first response makes a replay impossible (rule 3)."""
        for first in self._player.matcher.pairs[:1]:
            if first.frame is None:
                other = "without TLS" if self._to.tls else "with TLS"
                raise RemoteError(f"{self._to}: no response to CONNECT: this is not Pulsar, or a port {other}")
            if first.step is not None and first.step.name == "CONNECTED" and first.frame.command.HasField("error"):
                raise RemoteError(f"{self._to}: the login was refused: {first.frame.command.error.message}")

    async def _wait(self, ms: int) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wakeup.wait(), max(ms, 1) / 1000)

    async def _do(self, action: Action) -> None:
        match action:
            case OpenConnection(stream):
                await self._open(stream)
            case SendCommand(stream, data):
                if stream in self._writers:
                    self._writers[stream].write(data)
            case CloseConnection(stream, reset):
                self._close_connection(stream, reset=reset)
            case RestCall():
                if self._admin:
                    status = await asyncio.to_thread(call_rest, self._admin, action, self._security)
                    self._player.answered(action, status)

    async def _open(self, stream: int) -> None:
        host, port = self._to.hosts[0]
        context = self._security.context() if self._to.tls else None
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
        except (OSError, TimeoutError) as fault:
            reason = reason_for(fault, tls=self._to.tls) or "no response"
            raise RemoteError(f"{self._to}: {reason}") from None
        self._writers[stream] = writer
        self._opened.append(writer)
        task = asyncio.create_task(self._listen(stream, reader))
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)

    async def _listen(self, stream: int, reader: asyncio.StreamReader) -> None:
        data = b""
        while True:
            with suppress(OSError):
                data = await reader.read(_READ)
            if not data:
                break
            for action in self._player.receive(stream, data):
                await self._do(action)
            data = b""
            self._wakeup.set()
        writer = self._writers.pop(stream, None)
        if writer is not None:
            writer.close()
            self._player.lost(stream)
            self._wakeup.set()

    def _close_connection(self, stream: int, *, reset: bool) -> None:
        writer = self._writers.pop(stream, None)
        if writer is not None and reset:
            writer.transport.abort()
        elif writer is not None:
            writer.close()

    async def _close(self) -> None:
        for stream in list(self._writers):
            self._close_connection(stream, reset=False)
        for task in list(self._readers):
            task.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        closing = [asyncio.create_task(writer.wait_closed()) for writer in self._opened]
        if closing:
            await asyncio.wait(closing, timeout=_QUIET_MS / 1000)
        await asyncio.gather(*(task for task in closing if task.done()), return_exceptions=True)
