"""The connections that an engine shares (ConnectionPool).

Rules of this file (ConnectionPool, 4.2.4)
1. The key of a connection is its broker, the address of its socket, and an index below ``connectionsPerBroker``. If
   this setting is 0, connections are not shared. A handler chooses its index at random once; a lookup chooses a random
   index for each request.
2. If a requested connection is being opened, callers wait for it. Each connection has one handshake.
3. A connection that ended or could not be opened is removed. The next request opens a new connection. A closed client
   opens no connections.

Rules of the hosts of a service URL (PulsarServiceNameResolver)
1. A client starts with a random host, to spread the load, and uses the next host for each request.
2. A host that does not respond remains in the rotation. The Java client skips it for at least a minute
   (``serviceUrlQuarantineInitDurationMs``). If there is only one host, this makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.codec.errors import LocalError
from pcli.replay.client.actions import Connect
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.service_url import ServiceUrl

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

Address = tuple[str, int]
"""Host and port."""


class ConnectionPool:
    """All connections of one engine."""

    def __init__(self, engine: ClientContext) -> None:
        self._engine = engine
        self._connections: dict[tuple[Address, Address, int], ClientConnection] = {}
        self._opened = 0

    @property
    def connections(self) -> list[ClientConnection]:
        """Connections that are open or being opened, oldest first."""
        return list(self._connections.values())

    def any_index(self) -> int:
        """Return a random index of a connection to a broker (genRandomKeyToSelectCon)."""
        return int(self._engine.random() * self._engine.settings.connectionsPerBroker)

    def connection_to(
        self,
        broker: Address,
        done: Callable[[ClientConnection | ClientFailure], None],
        *,
        through: Address | None = None,
        index: int | None = None,
    ) -> None:
        """Call ``done`` with a connection to a broker, either ``through`` a proxy or direct.

        If ``index`` is None, a random connection is used.
        """
        if self._engine.closed:
            done(ClientFailure("Closed", "the client is closed"))
            return
        if index is None:
            index = self.any_index()
        if self._engine.settings.connectionsPerBroker <= 0:
            index = self._opened
        place = (broker, through or broker, index)
        connection = self._connections.get(place)
        if connection is None:
            connection = self._open(place)
        connection.when_ready(done)

    def _open(self, place: tuple[Address, Address, int]) -> ClientConnection:
        broker, socket, _ = place
        engine = self._engine
        target = f"{broker[0]}:{broker[1]}" if broker != socket else ""
        connection = self._connections[place] = ClientConnection(engine, self._opened, socket, target)
        self._opened += 1
        engine.actions.append(Connect(connection, *socket, tls=engine.url.tls))
        return connection

    def remove(self, connection: ClientConnection) -> None:
        """Remove a connection that ended."""
        self._connections = {place: one for place, one in self._connections.items() if one is not connection}


class ServiceHosts:
    """The hosts of a service URL in rotation."""

    def __init__(self, hosts: tuple[tuple[str, int], ...], random: Callable[[], float]) -> None:
        self._hosts = hosts
        self._index = int(random() * len(hosts))

    def next(self) -> tuple[str, int]:
        """Return the next host."""
        self._index = (self._index + 1) % len(self._hosts)
        return self._hosts[self._index]


def address_of(url: str) -> tuple[str, int] | ClientFailure:
    """Return host and port from a broker's service URL."""
    try:
        return ServiceUrl.parse(url).hosts[0]
    except LocalError as fault:
        return ClientFailure("InvalidServiceURL", f"the broker's response contains no address: {fault.text}")
