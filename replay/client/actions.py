"""What the engine asks of its shell: connections, bytes to be written, HTTP requests.

The shell drains them after every turn, in order, and answers with `Engine.connected`, `received`, `disconnected` and
`fetched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import Link

__all__ = ["Action", "Connect", "Fetch", "Shut", "Write"]


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a TCP connection within ``connectionTimeoutMs``; answered by `connected` or `disconnected`."""

    link: Link
    host: str
    port: int
    tls: bool
    """Speak TLS, with the host's name checked."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write bytes to an open connection."""

    link: Link
    data: bytes


@dataclass(frozen=True, slots=True)
class Shut:
    """Close a connection, after what was written to it; nobody is told of it any more."""

    link: Link


@dataclass(frozen=True, slots=True)
class Fetch:
    """An HTTP GET that follows redirects; answered by `fetched`."""

    number: int
    url: str
    headers: dict[str, str]


Action = Connect | Write | Shut | Fetch
