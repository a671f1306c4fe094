"""The recorded broker on a socket. No other module of the recorded broker uses an event loop, a port or signals.

Rules of this file
1. The broker listens on the loopback address, because a capture may contain private data.
2. The broker ends when the recording is complete and the clients have disconnected, or on SIGINT and SIGTERM. It also
   ends if no client connects within three seconds after the last client disconnected. It waits because some clients
   open a new connection for every request.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from typing import Final

from pcli.codec.errors import LocalError
from pcli.replay.player.player import CloseConnection, SendCommand
from pcli.replay.player.recorded_broker import RecordedBroker
from pcli.replay.player.script.script import Script

_HOST: Final = "127.0.0.1"
_GRACE_S: Final = 3


def play_broker(
    script: Script, port: int, *, ready: Callable[[str], None], note: Callable[[str], None]
) -> RecordedBroker:
    """Replay the recording to live clients until it ends. Raises LocalError if the port is in use.

    ``ready`` receives the service URL once clients can connect. ``note`` receives each request that is not recorded.
    """
    return asyncio.run(_ReplaySession(script, note).run(port, ready))


class _ReplaySession:
    """One replay in progress."""

    def __init__(self, script: Script, note: Callable[[str], None]) -> None:
        self._script, self._note = script, note
        self._connections: dict[int, _ClientConnection] = {}
        self._count = self._noted = 0
        self._over = asyncio.Event()
        self.broker = RecordedBroker(script, "")

    async def run(self, port: int, ready: Callable[[str], None]) -> RecordedBroker:
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(lambda: _ClientConnection(self), _HOST, port)
        except OSError as fault:
            raise LocalError(f"--port {port}: {os.strerror(fault.errno or 0)}") from None
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._over.set)
        url = f"pulsar://{_HOST}:{listener.sockets[0].getsockname()[1]}"
        self.broker = RecordedBroker(self._script, url)
        ready(url)
        await self._over.wait()
        listener.close()
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.transport.abort()
        return self.broker

    def add_client(self, connection: _ClientConnection) -> int:
        """Add a client's connection and return its number."""
        self._count += 1
        self._connections[self._count] = connection
        self.broker.open(self._count)
        return self._count

    def received(self, number: int, data: bytes) -> None:
        """Process bytes from a client."""
        self._do(self.broker.receive(number, data))

    def remove_client(self, number: int) -> None:
        """Process the end of a connection. This has no effect if this broker closed it at the end of the replay."""
        if self._connections.pop(number, None) is None:
            return
        self._do(self.broker.lost(number))
        if self.broker.complete:
            self._over.set()
        elif not self._connections:
            asyncio.get_running_loop().call_later(_GRACE_S, self._end_if_idle, self._count)

    def _end_if_idle(self, count: int) -> None:
        """End the replay if no client has connected in the last three seconds."""
        if count == self._count:
            self._over.set()

    def _do(self, actions: Iterable[SendCommand | CloseConnection]) -> None:
        for action in actions:
            transport = self._connections[action.stream].transport
            if isinstance(action, CloseConnection):
                transport.close()
            elif not transport.is_closing():
                transport.write(action.data)
        for text in self.broker.notes[self._noted :]:
            self._note(text)
        self._noted = len(self.broker.notes)


class _ClientConnection(asyncio.Protocol):
    """The socket of one client."""

    transport: asyncio.Transport

    def __init__(self, stage: _ReplaySession) -> None:
        self._stage = stage

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the client's connection."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._number = self._stage.add_client(self)

    def data_received(self, data: bytes) -> None:
        """Process bytes from the client."""
        self._stage.received(self._number, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the socket is closed."""
        self._stage.remove_client(self._number)
