"""The registration of a stream or checkpoint consumer at the controller of a scalable topic (ScalableConsumerClient).

Rules of this file (captures of the V5 Java client 5.0.1)
1. A session of the layout is opened first, and closed after its first update. The registration is sent at once: to the
   controller in that update, or on the same connection if there is none.
2. The response and later updates contain the assigned segments. After a lost connection the consumer registers again
   under its name, and keeps its segments if it does so within the broker's grace period.
3. The first registration fails at once; later ones are tried again without limit.
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
from pcli.replay.client.scalable.layout_session import LayoutSession

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

Assignment = pb.ScalableConsumerAssignment


class ControllerSession(ConnectionHandler):
    """A registration. ``request`` is its command without ids; ``on_failure`` is called if there is no assignment."""

    kind: ClassVar[Kind] = "consumer"

    def __init__(
        self,
        engine: ClientContext,
        request: pb.CommandScalableTopicSubscribe,
        on_assignment: Callable[[Assignment], None],
        on_failure: Callable[[ClientFailure], None],
    ) -> None:
        super().__init__(engine, request.topic)
        self._request = request
        self._request.consumer_id = self.number
        self._on_assignment = on_assignment
        self._on_failure = on_failure
        self._assigned = False
        self._layouts = LayoutSession(engine, request.topic, self._located, self._failed)

    def start(self) -> None:
        """Find the controller, and register."""
        self._layouts.start()

    def _located(self, layout: Layout) -> None:
        connection = self._layouts.connection
        self._layouts.close(lambda _: None)
        if layout.controller:
            self._find_connection(layout.controller)
        elif connection is not None:
            self._found(connection)

    def opened(self, connection: ClientConnection) -> None:
        """Register with a command of its own, because a connection writes the request id into it."""
        request = pb.CommandScalableTopicSubscribe()
        request.CopyFrom(self._request)
        connection.request(request, lambda response: self._on_response(connection, response))

    def _on_response(self, connection: ClientConnection, response: Event | ClientFailure) -> None:
        if not self.may_connect or self.connection is not connection:
            return
        if isinstance(response, ClientFailure):
            if not self.not_opened(response):
                self.reconnect()
            return
        self._assigned = True
        self.ready()
        self._on_assignment(response.body.assignment)

    def not_opened(self, failure: ClientFailure) -> bool:
        """Give up before the first assignment."""
        if self._assigned:
            return False
        self._failed(failure)
        return True

    def _failed(self, failure: ClientFailure) -> None:
        self.give_up(State.FAILED)
        self._on_failure(failure)

    def received(self, event: Event) -> None:
        """Process SCALABLE_TOPIC_ASSIGNMENT_UPDATE."""
        self._on_assignment(event.body.assignment)

    def close(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Leave the group of consumers, also if the response to the registration is missing. The cursors stay."""
        connection = self.connection
        self._layouts.close(lambda _: None)
        self.give_up(State.CLOSED)
        if connection is None:
            done(None)
        else:
            body = pb.CommandScalableTopicUnsubscribe(consumer_id=self.number)
            connection.request(body, lambda response: done(response if isinstance(response, ClientFailure) else None))
