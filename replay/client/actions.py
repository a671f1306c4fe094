"""Actions that the engine requests from the asyncio client: connections, writes, HTTP requests.

The asyncio client executes them after every turn, in order. It reports results with `Engine.connected`, `received`,
`disconnected` and `fetched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a TCP connection within ``connectionTimeoutMs``. The result is `connected` or `disconnected`."""

    connection: ClientConnection
    host: str
    port: int
    tls: bool
    """Use TLS and verify the host name."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write bytes to an open connection."""

    connection: ClientConnection
    data: bytes


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close a connection after the pending writes. No further event is reported for it."""

    connection: ClientConnection


@dataclass(frozen=True, slots=True)
class Fetch:
    """Send an HTTP GET and follow redirects. The result is `fetched`."""

    number: int
    url: str
    headers: dict[str, str]


Action = Connect | Write | Disconnect | Fetch
