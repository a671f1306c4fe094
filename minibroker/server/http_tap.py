"""Wrappers that report HTTP connections to taps, so that captures contain these connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pcli.minibroker.server.tcp_server import socket_addresses

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Tap
    from pcli.minibroker.server.clock import Clock


class TappedHttp(asyncio.Protocol):
    """A wrapper for a connection's protocol that reports all bytes to the taps."""

    def __init__(self, inner: Any, number: int, clock: Clock, taps: Iterable[Tap]) -> None:
        self._inner = inner
        self._number = number
        self._clock = clock
        self._taps = list(taps)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Report a new connection."""
        for tap in self._taps:
            tap.opened(self._number, *socket_addresses(transport), self._clock.time_ns())
        self._transport = _TappedTransport(transport, self)
        self._inner.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        """Report and forward bytes from the client."""
        self.report(data, from_client=True)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Forward the end of the input."""
        return self._inner.eof_received()  # type: ignore[no-any-return]

    def pause_writing(self) -> None:
        """Forward the event that the client reads too slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Forward the event that the client has caught up."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection."""
        reset = isinstance(exc, ConnectionResetError)
        for tap in self._taps:
            now = self._clock.time_ns()
            tap.closed(self._number, now, from_client=not self._transport.closed, reset=reset, reason="")
        self._inner.connection_lost(exc)

    def report(self, data: bytes, *, from_client: bool) -> None:
        """Report bytes to the taps."""
        for tap in self._taps:
            tap.passed(self._number, data, self._clock.time_ns(), from_client=from_client)


class _TappedTransport:
    """A transport that reports the bytes written to it."""

    def __init__(self, transport: Any, watched: TappedHttp) -> None:
        self._transport = transport
        self._watched = watched
        self.closed = False
        """Whether the server has closed the connection."""

    def write(self, data: bytes) -> None:
        """Report and write bytes to the client."""
        if not self._transport.is_closing():
            self._watched.report(data, from_client=False)
        self._transport.write(data)

    def close(self) -> None:
        """Close the connection."""
        self.closed = True
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
