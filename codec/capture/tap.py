"""The interface for observers of the bytes of live connections.

Rules of this file
1. A tap receives the bytes that crossed the client's socket, in both directions and in order. They include bytes of the
   client that a fault withheld from the broker. They exclude bytes of the broker that were not sent to the client.
2. Connections, including HTTP, are numbered from 0 in the order in which they opened, as in a capture.
3. A tap must not affect the connection: it raises no errors and does slow work elsewhere.
"""

from __future__ import annotations

from typing import Protocol

Address = tuple[str, int]
"""IP address and port."""


class Tap(Protocol):
    """An observer of all connections of a broker or a proxy. It runs in the event loop of that process."""

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """Handle a new connection from a client."""

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Handle bytes that crossed the socket."""

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """Handle the end of a connection, by FIN or RST. ``reason`` is empty unless the broker closed it."""
