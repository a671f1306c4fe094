"""The session in which a broker reports the layout of a scalable topic (DagWatchClient, 5.0.1).

Rules of this file
1. The session is opened at the broker of the topic, and stays open until `close`. The broker sends an update for each
   change, and repeats updates without a change.
2. If the session cannot be opened, it fails at once. After the first layout it is opened again without limit, with the
   same session id.
3. A broker older than 5.0 refuses the lookup of the name, or lacks ``supports_scalable_topics``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout
from pcli.codec.session import Event
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.connection_handler import ConnectionHandler, Kind, State
from pcli.replay.client.connection.errors import ClientFailure

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext


class LayoutSession(ConnectionHandler):
    """A session. ``on_layout`` is called with each layout; ``on_failure`` once, if there is no first layout."""

    kind: ClassVar[Kind] = "session"

    def __init__(
        self,
        engine: ClientContext,
        topic: str,
        on_layout: Callable[[Layout], None],
        on_failure: Callable[[ClientFailure], None],
    ) -> None:
        super().__init__(engine, topic)
        self.layout: Layout | None = None
        """The newest layout."""
        self._on_layout = on_layout
        self._on_failure = on_failure

    def opened(self, connection: ClientConnection) -> None:
        """Request the layout."""
        if connection.features.supports_scalable_topics:
            connection.send(
                pb.CommandScalableTopicLookup(session_id=self.number, topic=self.topic, create_if_missing=True)
            )
        elif not self.not_opened(_unsupported("the broker does not announce them")):
            self.reconnect()

    def not_opened(self, failure: ClientFailure) -> bool:
        """Give up before the first layout."""
        if self.layout is not None:
            return False
        self.give_up(State.FAILED)
        self._on_failure(_unsupported(failure.message) if failure.error == "InvalidTopicName" else failure)
        return True

    def received(self, event: Event) -> None:
        """Process SCALABLE_TOPIC_UPDATE."""
        body = event.body
        if body.HasField("error"):
            if not self.not_opened(ClientFailure(pb.ServerError.Name(body.error), body.message)):
                self.reconnect()
            return
        self.ready()
        layout = Layout.of(body.dag)
        if self.layout is None or layout.epoch >= self.layout.epoch:
            self.layout = layout
            self._on_layout(layout)

    def connection_lost(self, connection: ClientConnection) -> None:
        """Fail before the first layout, or open the session again."""
        reason = connection.close_reason
        if self.layout is None and reason is not None:
            self.not_opened(reason)
        else:
            super().connection_lost(connection)

    def close(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Close the session. The broker does not respond."""
        connection = self.connection
        self.give_up(State.CLOSED)
        if connection is not None:
            connection.send(pb.CommandScalableTopicClose(session_id=self.number))
        done(None)


def _unsupported(reason: str) -> ClientFailure:
    return ClientFailure("NotSupported", f"scalable topics (topic://) require a broker of Pulsar 5: {reason}")
