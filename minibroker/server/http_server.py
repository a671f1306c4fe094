"""The HTTP server. It runs the admin application with uvicorn's protocol class in the broker's event loop.

Each connection has an object of uvicorn's protocol class; uvicorn's server is not used. Frames that a request causes
are written before the response.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pcli.minibroker.admin import application
from pcli.minibroker.errors import Refused
from pcli.minibroker.server.tls import certificate_role

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pcli.minibroker.broker import Broker
    from pcli.minibroker.settings import Settings

_log: Final = logging.getLogger("pcli.minibroker")

_errors: Final = logging.Logger("pcli.minibroker", logging.ERROR)
"""The logger of uvicorn's protocol class. Its warnings contain advice for developers of web applications."""
_errors.parent = _log


class _HttpProtocol(H11Protocol):
    """One HTTP connection. An ``Upgrade`` header is ignored, as in Jetty without a handler of the protocol.

    The number of connections and the time without input or output are limited, as in Jetty.
    """

    def __init__(self, settings: Settings, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.logger = _errors
        self._most = settings.maxHttpServerConnections
        self._idle_seconds = settings.httpServerIdleTimeout / 1000
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unwritten = 0

    def connection_made(self, transport: Any) -> None:
        """Handle a new connection. Close it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            _log.warning("%s:%d: more than %d HTTP connections; the connection is closed", *self._peer(), self._most)
            transport.abort()
        else:
            self._start_idle_timer()

    def data_received(self, data: bytes) -> None:
        """Process bytes from the client."""
        self._start_idle_timer()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        super().connection_lost(exc)

    def _start_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._idle_seconds > 0:
            self._idle_timer = self.loop.call_later(self._idle_seconds, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Close the connection, unless the application works on a response or the client has read a part of it."""
        cycle, before = self.cycle, self._unwritten
        self._unwritten = self.transport.get_write_buffer_size()
        working = cycle is not None and not cycle.response_complete and not cycle.more_body and not self._unwritten
        if working or self._unwritten < before or (self._unwritten and not before):
            self._start_idle_timer()
        else:
            self.transport.abort()

    def _peer(self) -> tuple[str, int]:
        return self.client or ("?", 0)

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request, and log it."""
        _log.warning("%s:%d: an invalid HTTP request; the connection is closed", *self._peer())
        super().send_400_response(msg)


class HttpServer:
    """All HTTP connections of one broker."""

    def __init__(
        self,
        broker: Broker,
        now: Callable[[], int],
        flush: Callable[[], None],
        written: Callable[[], Awaitable[None]],
        latency: float = 0.0,
    ) -> None:
        """``now`` returns milliseconds since 1970; ``flush`` writes the frames that the broker has queued.

        ``written`` waits until the changes of the broker are stored, and raises Refused if they cannot be stored. Each
        response is delayed by ``latency``, in seconds.
        """
        self._broker = broker
        self._now = now
        self._flush = flush
        self._written = written
        self._latency = latency
        self._application = application(broker, now)
        self._state = ServerState()
        self._config = Config(
            self._application,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        self._config.load()

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol for a new connection."""
        protocol = _HttpProtocol(self._broker.settings, self._config, self._state, {})
        protocol.app = partial(self._call, protocol)
        return protocol

    async def _call(self, protocol: H11Protocol, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request of a connection as a turn of the broker."""
        scope["certificate_role"] = certificate_role(protocol.transport)

        async def send_after_frames(message: Any) -> None:
            self._broker.finish_turn()
            self._flush()
            if message["type"] == "http.response.start":
                await self._written()
            if self._latency and message["type"] == "http.response.start":
                await asyncio.sleep(self._latency)
            await send(message)

        self._broker.begin_turn(self._now())
        try:
            await self._application(scope, receive, send_after_frames)
        except Refused as refused:
            response = JSONResponse({"reason": refused.text}, 500)
            await response(scope, receive, send)

    async def close(self, seconds: float) -> None:
        """Close all connections after the current responses."""
        for protocol in list(self._state.connections):
            protocol.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for protocol in list(self._state.connections):
            protocol.transport.abort()
