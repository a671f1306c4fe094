"""The connection of a consumer: SUBSCRIBE over each new link, and what becomes of it when it is refused.

Rules of this file (ConsumerImpl.connectionOpened, connectionFailed, isUnrecoverableError; 4.2.4)
1. Without a link, or when its SUBSCRIBE is refused, it is tried again while that may help and ``lookupTimeoutMs`` are
   not over since it was asked for; once it stood, for ever, unless the topic is gone. (Java's subscribeDeadline, of
   ``operationTimeoutMs``, decides nothing: what it lets pass is judged by connectionFailed all the same.)
2. One that was not answered in time is closed, lest it stands after all.
3. A consumer that was closed while its SUBSCRIBE was on its way closes the connection: nothing else makes the broker
   let go of it.
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

__all__ = ["ConsumerConnection"]

_GONE: Final = ("TopicNotFound", "NotFound")
"""After these a subscription that stood is not tried again (isUnrecoverableError)."""


class ConsumerConnection(ConnectionHandler):
    """Half of a consumer. ``created`` is told once that it stands, or why it never will."""

    kind: ClassVar[Kind] = "consumer"

    def __init__(self, engine: ClientContext, topic: str, created: Callable[[Any], None]) -> None:
        super().__init__(engine, topic)
        self.on_fault: Callable[[ClientFailure], None] | None = None
        """Called when what stood can't go on: the topic is gone."""
        self._created: Callable[[Any], None] | None = created
        self._deadline = engine.now + engine.settings.lookupTimeoutMs

    # -- to be filled ----------------------------------------------------------------------------------------------

    def prepare(self) -> int:
        """Forget what belongs to the link before; how many messages waited."""
        raise NotImplementedError

    def command(self, version: int) -> pb.CommandSubscribe:
        """SUBSCRIBE for a link of this protocol version."""
        raise NotImplementedError

    def begin(self, *, first: bool, waited: int) -> None:
        """It stands: ask for messages. ``waited``: how many were there before."""
        raise NotImplementedError

    def end(self, state: State) -> None:
        """Nothing is done any more; this is the state now."""
        raise NotImplementedError

    # -- the connection ----------------------------------------------------------------------------------------------

    @property
    def connected(self) -> ClientConnection | None:
        """The link, while the subscription stands."""
        return self.connection if self.state is State.READY else None

    def opened(self, connection: ClientConnection) -> None:
        """Subscribe."""
        waited = self.prepare()
        connection.request(self.command(connection.version), lambda answer: self._answered(connection, answer, waited))

    def not_opened(self, failure: ClientFailure) -> bool:
        """No link, or no subscription over it; True: given up."""
        hopeless = not failure.retriable or self.engine.now >= self._deadline
        if hopeless and (self._created is not None or failure.error in _GONE):
            self._fail(failure)
            return True
        return False

    def _answered(self, connection: ClientConnection, answer: Event | ClientFailure, waited: int) -> None:
        if not self.lives:
            connection.close(ClientFailure("Disconnected", "a consumer was closed while it subscribed"))
        elif self.connection is not connection:
            return
        elif isinstance(answer, ClientFailure):
            self._refused(connection, answer)
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
        """Tell whoever waits for the creation; whether somebody did."""
        created, self._created = self._created, None
        if created is None:
            return False
        created(result)
        return True
