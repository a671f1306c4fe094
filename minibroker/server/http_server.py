"""The HTTP server. It runs the admin application with uvicorn's protocol class in the broker's event loop.

Each connection has an object of uvicorn's protocol class; uvicorn's server is not used. Frames that a request causes
are written before the response.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pcli.minibroker.admin import application
from pcli.minibroker.server.tls import certificate_role

if TYPE_CHECKING:
    from collections.abc import Callable

    from pcli.minibroker.broker import Broker

__all__ = ["HttpServer"]


_log: Final = logging.getLogger("pcli.minibroker")

_errors: Final = logging.Logger("pcli.minibroker", logging.ERROR)
"""The logger of uvicorn's protocol class. Its warnings contain advice for developers of web applications."""
_errors.parent = _log


class _HttpProtocol(H11Protocol):
    """One HTTP connection. An ``Upgrade`` header is ignored, as in Jetty without a handler of the protocol."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.logger = _errors

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request, and log it."""
        host, port = self.client or ("?", 0)
        _log.warning("%s:%d: an invalid HTTP request; the connection is closed", host, port)
        super().send_400_response(msg)


class HttpServer:
    """All HTTP connections of one broker."""

    def __init__(self, broker: Broker, now: Callable[[], int], flush: Callable[[], None], latency: float = 0.0) -> None:
        """``now`` returns milliseconds since 1970; ``flush`` writes the frames that the broker has queued.

        Each response is delayed by ``latency``, in seconds.
        """
        self._broker = broker
        self._now = now
        self._flush = flush
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
        protocol = _HttpProtocol(self._config, self._state, {})
        protocol.app = partial(self._call, protocol)
        return protocol

    async def _call(self, protocol: H11Protocol, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request of a connection as a turn of the broker."""
        scope["certificate_role"] = certificate_role(protocol.transport)

        async def send_after_frames(message: Any) -> None:
            self._broker.finish_turn()
            self._flush()
            if self._latency and message["type"] == "http.response.start":
                await asyncio.sleep(self._latency)
            await send(message)

        self._broker.begin_turn(self._now())
        await self._application(scope, receive, send_after_frames)

    async def close(self, seconds: float) -> None:
        """Close all connections after the current responses."""
        for protocol in list(self._state.connections):
            protocol.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for protocol in list(self._state.connections):
            protocol.transport.abort()
