"""The registration of a consumer: SUBSCRIBE on each new connection, and the handling of failures.

Rules of this file (ConsumerImpl.connectionOpened, connectionFailed, isUnrecoverableError; 4.2.4)
1. A failed connection or SUBSCRIBE is retried while the failure is retriable and ``lookupTimeoutMs`` has not passed
   since the creation. A consumer that has been subscribed retries without limit, unless the topic was deleted. (Java's
   subscribeDeadline of ``operationTimeoutMs`` has no effect: connectionFailed determines whether to retry.)
2. If SUBSCRIBE times out, CLOSE_CONSUMER is sent, because the broker may have created the consumer.
3. If a consumer is closed before the response to SUBSCRIBE, it closes the connection. This is the only way to remove
   the consumer from the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.connection_handler import ConnectionHandler, Kind, State
from pcli.replay.client.connection.errors import ClientFailure

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

_GONE: Final = ("TopicNotFound", "NotFound")
"""Errors after which an existing subscription is not retried (isUnrecoverableError)."""


class ConsumerConnection(ConnectionHandler):
    """Base class of `Consumer`. ``created`` is called once, with the consumer or the ClientFailure."""

    kind: ClassVar[Kind] = "consumer"

    def __init__(self, engine: ClientContext, topic: str, created: Callable[[Any], None]) -> None:
        super().__init__(engine, topic)
        self.on_fault: Callable[[ClientFailure], None] | None = None
        """A function that is called when an existing subscription fails because the topic was deleted."""
        self._created: Callable[[Any], None] | None = created
        self._deadline = engine.now + engine.settings.lookupTimeoutMs

    # -- for the subclass to implement -----------------------------------------------------------------------------

    def prepare(self) -> int:
        """Clear the state of the previous connection. Return the number of messages that were in the queue."""
        raise NotImplementedError

    def command(self, version: int) -> pb.CommandSubscribe:
        """Return SUBSCRIBE for a connection with this protocol version."""
        raise NotImplementedError

    def begin(self, *, first: bool, waited: int) -> None:
        """Start requesting messages after the subscription. ``waited`` is the number of previously queued messages."""
        raise NotImplementedError

    def end(self, state: State) -> None:
        """Enter a final state and stop."""
        raise NotImplementedError

    # -- connection --------------------------------------------------------------------------------------------------

    @property
    def connected(self) -> ClientConnection | None:
        """The connection while the consumer is subscribed, or else None."""
        return self.connection if self.state is State.READY else None

    def opened(self, connection: ClientConnection) -> None:
        """Send SUBSCRIBE."""
        waited = self.prepare()
        connection.request(
            self.command(connection.version), lambda response: self._on_response(connection, response, waited)
        )

    def not_opened(self, failure: ClientFailure) -> bool:
        """Handle a failed connection or subscription. Return True to give up."""
        hopeless = not failure.retriable or self.engine.now >= self._deadline
        if hopeless and (self._created is not None or failure.error in _GONE):
            self._fail(failure)
            return True
        return False

    def _on_response(self, connection: ClientConnection, response: Event | ClientFailure, waited: int) -> None:
        if not self.may_connect:
            connection.close(ClientFailure("Disconnected", "a consumer was closed while it subscribed"))
        elif self.connection is not connection:
            return
        elif isinstance(response, ClientFailure):
            self._refused(connection, response)
        else:
            self.ready()
            first = self._tell(self)
            self.begin(first=first, waited=waited)

    def _refused(self, connection: ClientConnection, failure: ClientFailure) -> None:
        if failure.error == "TimeOut":
            connection.request(pb.CommandCloseConsumer(consumer_id=self.number), lambda _: None)
        if not self.not_opened(failure):
            self.lost()
            self.reconnect()

    def _fail(self, failure: ClientFailure) -> None:
        self.end(State.FAILED)
        if not self._tell(failure) and self.on_fault is not None:
            self.on_fault(failure)

    def _tell(self, result: ConsumerConnection | ClientFailure) -> bool:
        """Call the creation callback. Return False if it was already called."""
        created, self._created = self._created, None
        if created is None:
            return False
        created(result)
        return True
