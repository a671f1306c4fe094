"""Base class of producers, consumers, watchers and sessions, which finds a connection, keeps it and reconnects.

Rules of this file (ConnectionHandler, HandlerState; 4.2.4)
1. A search for a connection runs only in the states CONNECTING and READY, and at most one search runs at a time.
2. The handler is attached to the connection before `opened` is called, so that it receives the broker's first commands.
   Each new connection increments ``epoch``.
3. When the connection is lost, `lost` is called, and the handler reconnects after the back-off. A successful
   registration resets the back-off.
4. If the broker closes one producer or consumer, only that handler reconnects. If the broker assigned a different
   broker, the handler reconnects immediately and without a lookup. Otherwise it reconnects according to rule 3.
5. A topic that migrated is looked up in its new cluster.
6. If a handler finds no connection because the engine is closed, the handler is also closed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Literal

from pcli.codec.session import Event
from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.errors import ClientFailure

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext
    from pcli.replay.service_url import ServiceUrl

Kind = Literal["producer", "consumer", "watcher", "session"]


class State(Enum):
    """State of a handler (HandlerState.State)."""

    CONNECTING = "Connecting"
    READY = "Ready"
    CLOSING = "Closing"
    CLOSED = "Closed"
    TERMINATED = "Terminated"
    FAILED = "Failed"
    PRODUCER_FENCED = "ProducerFenced"


class ConnectionHandler:
    """An object that registers on a connection to the broker of its topic."""

    kind: ClassVar[Kind]

    def __init__(self, engine: ClientContext, topic: str, *, stop_ms: int = 0) -> None:
        self.engine = engine
        self.topic = topic
        """Full name of the topic."""
        self.number = engine.next_number(self.kind)
        """The producer, consumer, watcher or session id in the protocol."""
        self.state = State.CONNECTING
        self.connection: ClientConnection | None = None
        """The current connection, or None."""
        self.cluster: ServiceUrl | None = None
        """The cluster to which the topic migrated, or None."""
        self.epoch = -1
        """Number of earlier connections; -1 before the first connection."""
        settings = engine.settings
        waits = settings.initialBackoffIntervalMs, settings.maxBackoffIntervalMs
        self.backoff = Backoff(*waits, stop_ms, engine.random)
        """``stop_ms`` is the mandatory stop of the back-off."""
        self._index = engine.pool.any_index()
        self._finding_connection = False
        self._timer: Timer | None = None
        engine.handlers[self] = None

    # -- for subclasses to implement -------------------------------------------------------------------------------

    def opened(self, connection: ClientConnection) -> None:
        """Register on a connection that is ready (Java: connectionOpened)."""
        raise NotImplementedError

    def not_opened(self, failure: ClientFailure) -> bool:
        """Handle a failed connection attempt (connectionFailed). Return True to give up, False to retry."""
        raise NotImplementedError

    def received(self, event: Event) -> None:
        """Process a command that is not a response."""
        raise NotImplementedError

    def lost(self) -> None:
        """Handle the loss of the connection, or a close by the broker. A reconnect is scheduled afterwards."""

    def close(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Unregister from the broker and enter a final state. ``done`` is called with None or the ClientFailure."""
        raise NotImplementedError

    # -- for subclasses to call ------------------------------------------------------------------------------------

    @property
    def may_connect(self) -> bool:
        """Whether the state permits a connection (isValidStateForReconnection)."""
        return self.state in (State.CONNECTING, State.READY)

    def start(self) -> None:
        """Find a connection, then call `opened` or `not_opened`."""
        self._find_connection("")

    def ready(self) -> None:
        """Enter the state READY, because the broker has accepted the registration."""
        self.backoff.reset()
        self.state = State.READY

    def reconnect(self, *, after_ms: int | None = None, assigned: str = "") -> None:
        """Leave the connection.

        Find a new connection after a delay (default: the back-off), or at the assigned broker.
        """
        self._leave_connection()
        if not self.may_connect:
            return
        self.state = State.CONNECTING
        if self._timer is not None:
            self._timer.cancel()
        engine = self.engine
        delay = self.backoff.next(engine.now) if after_ms is None else after_ms
        self._timer = engine.call_at(engine.now + delay, lambda: self._find_connection(assigned))

    def give_up(self, state: State) -> None:
        """Enter a final state and leave the connection."""
        self.state = state
        self.engine.handlers.pop(self, None)
        self._leave_connection()
        if self._timer is not None:
            self._timer.cancel()

    # -- called by the connection and the engine -------------------------------------------------------------------

    def connection_lost(self, connection: ClientConnection) -> None:
        """Handle the end of a connection: reconnect if it is the current connection."""
        if self.connection is connection:
            self.lost()
            self.reconnect()

    def closed_by_broker(self, assigned: str) -> None:
        """Handle CLOSE_PRODUCER or CLOSE_CONSUMER. ``assigned`` is the URL of the assigned broker, or empty."""
        self.lost()
        self.reconnect(after_ms=0 if assigned else None, assigned=assigned)

    def _find_connection(self, assigned: str) -> None:
        if self._finding_connection or self.connection is not None or not self.may_connect:
            return
        self._finding_connection = True
        self.engine.connection_for(self.topic, self._found, assigned=assigned, cluster=self.cluster, index=self._index)

    def _found(self, connection: ClientConnection | ClientFailure) -> None:
        self._finding_connection = False
        if not self.may_connect:
            return
        if isinstance(connection, ClientConnection):
            self.connection = connection
            self.epoch += 1
            connection.attach(self)
            self.opened(connection)
        elif self.engine.closed:
            self.close(lambda _: None)
        elif not self.not_opened(connection):
            self.reconnect()

    def _leave_connection(self) -> None:
        if self.connection is not None:
            self.connection.detach(self)
            self.connection = None
