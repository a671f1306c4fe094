"""Who listens to the bytes of the connections.

Rules of this file
1. A tap is told what crossed the socket, both ways, in order: what a fault kept from the broker, too, and of what the
   broker said only what the client got.
2. Connections are numbered from 0 in the order of their coming, as in a capture of them, HTTP and all.
3. A tap never disturbs who is listened to: it raises nothing, and does what takes long elsewhere.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Address", "Tap"]

Address = tuple[str, int]
"""IP address and port."""


class Tap(Protocol):
    """Listens to all connections of a broker or a proxy, in its loop."""

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """A client has come."""

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Bytes crossed the socket."""

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """The connection has ended, by which side, by FIN or RST, and why the broker did it (empty: it did not)."""
