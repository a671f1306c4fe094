"""The interface of the client for connections, producers and consumers. `Engine` implements it.

This module, `actions`, and the modules client_connection, connection_handler, connection_pool and pending_requests of
`connection` refer to each other: a client owns its connections, and each connection schedules its work with its client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pcli.codec.proto import pb
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.actions import Action
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.connection.connection_handler import ConnectionHandler, Kind
    from pcli.replay.client.connection.connection_pool import ConnectionPool
    from pcli.replay.client.connection.errors import ClientFailure
    from pcli.replay.client.memory_limit import MemoryLimit
    from pcli.replay.client.settings import ClientSettings, ProducerSettings
    from pcli.replay.service_url import ServiceUrl


class ClientContext(Protocol):
    """The interface of a client for its connections, producers and consumers."""

    url: ServiceUrl
    settings: ClientSettings
    now: int
    """Time of this turn in milliseconds since 1970."""
    random: Callable[[], float]
    """A function that returns random numbers in [0, 1)."""
    actions: list[Action]
    unflushed: dict[ClientConnection, None]
    """Connections that may have output."""
    pool: ConnectionPool
    memory: MemoryLimit
    handlers: dict[ConnectionHandler, None]
    """Producers, consumers and watchers that are not in a final state."""
    closed: bool

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Schedule ``action`` for the time ``due``. It never runs before this method returns."""

    def next_number(self, kind: Kind) -> int:
        """Return the id for a new handler. The ids of sessions start at 1, all others at 0."""

    def flush(self, connection: ClientConnection) -> None:
        """Convert the pending output of a connection to an action, before later actions are added."""

    def connection_for(
        self,
        topic: str,
        done: Callable[[ClientConnection | ClientFailure], None],
        *,
        assigned: str = "",
        cluster: ServiceUrl | None = None,
        index: int | None = None,
    ) -> None:
        """Pass ``done`` a ready connection to the broker of a topic. See `Engine.connection_for`."""

    def partitions(self, topic: str, done: Callable[[int | ClientFailure], None], *, create: bool = True) -> None:
        """Pass ``done`` the number of partitions of a topic, or 0 if the topic is not partitioned."""

    def topics_of(
        self,
        namespace: str,
        mode: pb.CommandGetTopicsOfNamespace.Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[pb.CommandGetTopicsOfNamespaceResponse | ClientFailure], None],
    ) -> None:
        """Pass ``done`` the topics of a namespace that match a pattern."""

    def schema(
        self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | ClientFailure], None]
    ) -> None:
        """Pass ``done`` a schema of a topic. An empty version requests the newest schema."""

    def fetch(self, url: str, headers: dict[str, str], done: Callable[[int, bytes], None]) -> None:
        """Send an HTTP GET and pass ``done`` its status and body."""

    def produce(self, topic: str, settings: ProducerSettings, done: Callable[[Any], None]) -> None:
        """Pass ``done`` a producer of a topic, or a ClientFailure."""
