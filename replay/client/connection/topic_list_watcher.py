"""A watcher of the topics of a namespace. The broker notifies it of new and deleted topics (TopicListWatcher).

Rules of this file (TopicListWatcher, PIP-145; 4.2.4)
1. The watcher registers at the broker that owns the topic whose name is the pattern, and reconnects like any handler.
2. If the broker lacks ``supports_topic_watchers``, the watcher ends with NotAllowed; its owner must then poll.
3. A failed registration is retried if the failure is retriable and ``operationTimeoutMs`` has not passed. After the
   first success, and after failed connections, retries are not limited.
4. Each registration contains the hash of the known topics, and its response contains the changes since that hash was
   computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.connection_handler import ConnectionHandler, Kind, State
from pcli.replay.client.connection.errors import ClientFailure

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

Listed = Callable[[pb.CommandWatchTopicListSuccess], None]


class TopicListWatcher(ConnectionHandler):
    """A watcher for a pattern. After `start`, ``done`` is called once with the watcher or a ClientFailure."""

    kind: ClassVar[Kind] = "watcher"

    def __init__(
        self,
        engine: ClientContext,
        namespace: str,
        pattern: str,
        *,
        known_hash: Callable[[], str],
        on_list: Listed,
        on_update: Callable[[pb.CommandWatchTopicUpdate], None],
        done: Callable[[TopicListWatcher | ClientFailure], None],
    ) -> None:
        super().__init__(engine, pattern)
        self._namespace = namespace
        self._pattern = pattern
        self._known_hash = known_hash
        self._on_list = on_list
        self._on_update = on_update
        self._done: Callable[[TopicListWatcher | ClientFailure], None] | None = done
        self._deadline: int | None = None

    def opened(self, connection: ClientConnection) -> None:
        """Register the watcher."""
        if not connection.features.supports_topic_watchers:
            self.give_up(State.CLOSED)
            self._tell(ClientFailure("NotAllowed", "the broker does not evaluate patterns"))
            return
        if self._deadline is None:
            self._deadline = self.engine.now + self.engine.settings.operationTimeoutMs
        self._ask(connection, self._registered)

    def _ask(self, connection: ClientConnection, done: Callable[[Event | ClientFailure], None]) -> None:
        body = pb.CommandWatchTopicList(watcher_id=self.number, namespace=self._namespace, topics_pattern=self._pattern)
        known = self._known_hash()
        if known:
            body.topics_hash = known
        connection.request(body, done)

    def _registered(self, response: Event | ClientFailure) -> None:
        if not self.may_connect:
            return
        if isinstance(response, Event):
            self.ready()
            self._on_list(response.body)
            self._tell(self)
        elif self.connection is None:
            return  # the connection was lost, and a reconnect is already scheduled
        elif self._done is None or (response.retriable and self.engine.now < (self._deadline or 0)):
            self.reconnect()
        else:
            self.give_up(State.FAILED)
            self._tell(response)

    def not_opened(self, failure: ClientFailure) -> bool:
        """Give up if the failure is not retriable and the watcher was never registered."""
        if failure.retriable or self._done is None:
            return False
        self.give_up(State.FAILED)
        self._tell(failure)
        return True

    def received(self, event: Event) -> None:
        """Process WATCH_TOPIC_UPDATE."""
        self._on_update(event.body)

    @property
    def can_reconcile(self) -> bool:
        """Whether `reconcile` may be called now."""
        return (
            self.state is State.READY
            and self.connection is not None
            and self.connection.features.supports_topic_watcher_reconcile
        )

    def reconcile(self, done: Callable[[pb.CommandWatchTopicListSuccess | ClientFailure], None]) -> None:
        """Request the changes since the known hash. Requires `can_reconcile`."""
        assert self.connection is not None
        self._ask(
            self.connection, lambda response: done(response if isinstance(response, ClientFailure) else response.body)
        )

    def close(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Close the watcher at the broker."""
        connection, ready = self.connection, self.state is State.READY
        self.give_up(State.CLOSED)
        if connection is None or not ready:
            done(None)
        else:
            body = pb.CommandWatchTopicListClose(watcher_id=self.number)
            connection.request(body, lambda response: done(response if isinstance(response, ClientFailure) else None))

    def _tell(self, result: TopicListWatcher | ClientFailure) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(result)
