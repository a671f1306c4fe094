"""One connection to one broker (ClientCnx): its handshake, its requests, and the dispatch of other commands.

Rules of this file (ClientCnx, Commands.newConnect; 4.2.4)
1. A table maps each command that is not a response to its handler, according to the producer, consumer or watcher id. A
   command for an unknown id is dropped.
2. When the connection ends, callers of `when_ready` are notified first, then pending requests in order, then
   producers, consumers and watchers (channelInactive).
3. CLOSE_PRODUCER and CLOSE_CONSUMER detach the handler and call its `closed_by_broker` with the assigned broker's URL
   (the TLS URL if the client uses TLS). TOPIC_MIGRATED only sets the cluster for later lookups; an invalid URL is
   ignored.
4. An invalid value in a command, for example a malformed topic name, ends the connection (exceptionCaught).
5. The response to AUTH_CHALLENGE contains the current credentials, because a token file may have been replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError, PcliError
from pcli.codec.proto import pb
from pcli.codec.session import ClientSession, Event, KeepAlive, State, TickAction
from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from pcli.replay.client.actions import Disconnect
from pcli.replay.client.connection.errors import ClientFailure, failure_in_response
from pcli.replay.client.connection.pending_requests import Answer, PendingRequests
from pcli.replay.service_url import ServiceUrl

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext
    from pcli.replay.client.connection.connection_handler import ConnectionHandler

CLIENT_VERSION: Final = "pcli-0.2.0"
"""The client version in CONNECT, which contains the version of this distribution."""

FEATURES: Final = (
    "supports_auth_refresh",
    "supports_broker_entry_metadata",
    "supports_partial_producer",
    "supports_get_partitioned_metadata_without_auto_creation",
    "supports_repl_dedup_by_lid_and_eid",
)
"""The feature flags in CONNECT."""

_ROUTES: Final = {
    "SEND_RECEIPT": ("producer", "producer_id"),
    "SEND_ERROR": ("producer", "producer_id"),
    "CLOSE_PRODUCER": ("producer", "producer_id"),
    "MESSAGE": ("consumer", "consumer_id"),
    "CLOSE_CONSUMER": ("consumer", "consumer_id"),
    "ACTIVE_CONSUMER_CHANGE": ("consumer", "consumer_id"),
    "REACHED_END_OF_TOPIC": ("consumer", "consumer_id"),
    "WATCH_TOPIC_UPDATE": ("watcher", "watcher_id"),
    "SCALABLE_TOPIC_UPDATE": ("session", "session_id"),
    "SCALABLE_TOPIC_ASSIGNMENT_UPDATE": ("consumer", "consumer_id"),
}
"""The kind of the handler and the field that contains its id, for each command that is not a response."""

_KINDS: Final = ("producer", "consumer", "watcher", "session")


class ClientConnection:
    """A connection to a broker, directly or through a proxy."""

    def __init__(self, engine: ClientContext, number: int, address: tuple[str, int], target: str = "") -> None:
        self.engine = engine
        self.number = number
        """Number of this connection in its engine, from 0."""
        self.address = address
        """Host and port of the socket."""
        self.target = target
        """``host:port`` of the broker if the socket leads to a proxy, or else an empty string."""
        settings = engine.settings
        keep_alive = KeepAlive(settings.keepAliveIntervalSeconds * 1000, engine.now)
        self.session = ClientSession(client_version=CLIENT_VERSION, features=FEATURES, keep_alive=keep_alive)
        self.max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        """The broker's maximum message size in bytes, from CONNECTED."""
        self.version = 0
        """The negotiated protocol version; 0 before the handshake."""
        self.features = pb.FeatureFlags()
        """The broker's feature flags."""
        self.ready = False
        """Whether the handshake is complete and the connection is open."""
        self.close_reason: ClientFailure | None = None
        """The reason why the connection ended, or None while it is open."""
        self.handlers: dict[tuple[str, int], ConnectionHandler] = {}
        self._name = f"{address[0]}:{address[1]}"
        self._requests = PendingRequests(engine, self._name, self.close)
        self._waiting: list[Callable[[ClientConnection | ClientFailure], None]] = []
        self._tick_timer: Timer | None = None
        self._arm()

    # -- output ----------------------------------------------------------------------------------------------------

    def send(self, body: Any, entry: bytes = b"") -> None:
        """Send a command that has no response, or whose response is passed to a handler (for example SEND)."""
        if self.close_reason is None:
            self.session.post(body, entry)
            self.engine.unflushed[self] = None

    def write(self, frame: bytes) -> None:
        """Send a complete frame (codec.wire.hot)."""
        if self.close_reason is None:
            self.session.post_frame(frame)
            self.engine.unflushed[self] = None

    def request(self, body: Any, done: Answer, entry: bytes = b"") -> Any:
        """Send a request, pass its response to ``done``, and return the body with its request id."""
        if self.close_reason is not None:
            done(self.close_reason)
            return body
        sent = self.session.send(body, entry)
        self.engine.unflushed[self] = None
        self._requests.add(sent, done)
        return sent

    # -- handlers --------------------------------------------------------------------------------------------------

    def attach(self, handler: ConnectionHandler) -> None:
        """Pass commands with this handler's id to the handler.

        The handler is also notified when the connection ends.
        """
        self.handlers[handler.kind, handler.number] = handler

    def detach(self, handler: ConnectionHandler) -> None:
        """Stop passing commands to a handler. This has no effect if the handler is not attached."""
        if self.handlers.get((handler.kind, handler.number)) is handler:
            del self.handlers[handler.kind, handler.number]

    def when_ready(self, done: Callable[[ClientConnection | ClientFailure], None]) -> None:
        """Pass ``done`` this connection as soon as it is ready, or the reason why it ended."""
        if self.ready:
            done(self)
        elif self.close_reason is not None:
            done(self.close_reason)
        else:
            self._waiting.append(done)

    # -- input -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the handshake on the open socket."""
        proof = self._proof()
        if proof is None:
            return
        fields = {"auth_method_name": proof.auth_method_name, "auth_data": proof.auth_data}
        if self.target:
            fields["proxy_to_broker_url"] = self.target
        self.session.connect(**fields)
        self.engine.unflushed[self] = None

    def _proof(self) -> pb.AuthData | None:
        """Return the current credentials. If they cannot be read, close the connection and return None."""
        security = self.engine.settings.security
        try:
            return pb.AuthData(auth_method_name=security.method, auth_data=security.data())
        except LocalError as fault:
            self.close(ClientFailure("InvalidConfiguration", fault.text))
            return None

    def receive(self, data: bytes) -> None:
        """Process bytes from the broker."""
        if not self.ready and data.startswith(b"HTTP/"):
            self.close(ClientFailure("Connect", f"{self._name}: the port uses HTTP: write http://"))
            return
        for event in self.session.receive(data):
            if self.close_reason is not None:
                return
            try:
                self._take(event)
            except PcliError as fault:
                self.close(self._ended(str(fault)))
        if self.session.error is not None:
            self.close(self._ended(str(self.session.error)))
        else:
            self.engine.unflushed[self] = None

    def _take(self, event: Event) -> None:
        route = _ROUTES.get(event.name)
        if route is not None:
            self._deliver(event, route)
        elif event.name == "CONNECTED":
            self._complete(event.body)
        elif event.name == "AUTH_CHALLENGE":
            self._prove()
        elif event.name == "ERROR" and not self.ready:
            self.close(failure_in_response(event.body) or ClientFailure("UnknownError", event.body.message))
        elif event.name == "TOPIC_MIGRATED":
            self._migrate(event.body)
        elif event.request is not None:
            self._requests.response(event)

    def _complete(self, body: pb.CommandConnected) -> None:
        self.ready = True
        self.version = self.session.version
        self.features = body.feature_flags
        if body.max_message_size > 0:
            self.max_message_size = body.max_message_size
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(self)

    def _prove(self) -> None:
        proof = self._proof()
        if proof is not None:
            version = self.session.offered
            self.session.post(
                pb.CommandAuthResponse(client_version=CLIENT_VERSION, response=proof, protocol_version=version)
            )

    def _deliver(self, event: Event, route: tuple[str, str]) -> None:
        kind, field = route
        handler = self.handlers.get((kind, getattr(event.body, field)))
        if handler is None:
            return
        if event.name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
            self.detach(handler)
            body = event.body
            tls = self.engine.url.tls
            handler.closed_by_broker(body.assignedBrokerServiceUrlTls if tls else body.assignedBrokerServiceUrl)
        else:
            handler.received(event)

    def _migrate(self, body: pb.CommandTopicMigrated) -> None:
        kind = "producer" if body.resource_type == pb.CommandTopicMigrated.Producer else "consumer"
        handler = self.handlers.get((kind, body.resource_id))
        if handler is not None:
            with suppress(LocalError):
                handler.cluster = ServiceUrl.parse(
                    body.brokerServiceUrlTls if self.engine.url.tls else body.brokerServiceUrl
                )

    # -- end -------------------------------------------------------------------------------------------------------

    def close(self, reason: ClientFailure) -> None:
        """Write the pending output, close the connection and notify requests and handlers."""
        if self.close_reason is None:
            self.engine.flush(self)
            self.engine.actions.append(Disconnect(self))
            self.lost(reason)

    def cut(self, reason: str) -> None:
        """Handle a connection that the broker or the network closed, or that could not be opened."""
        self.lost(self._ended(reason))

    def _ended(self, reason: str) -> ClientFailure:
        text = f"{self._name}: {reason}"
        if self.ready:
            return ClientFailure("Disconnected", text)
        if self.session.state is not State.START and not self.engine.url.tls:
            text += ", in the handshake; for a TLS port write pulsar+ssl://"
        return ClientFailure("Connect", text)

    def lost(self, reason: ClientFailure) -> None:
        """Notify requests and handlers that the connection ended. Either side may have closed it."""
        if self.close_reason is not None:
            return
        self.close_reason = reason
        self.ready = False
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self.engine.pool.remove(self)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(reason)
        self._requests.fail(reason)
        for handler in sorted(self.handlers.values(), key=lambda one: _KINDS.index(one.kind)):
            handler.connection_lost(self)
        self.handlers.clear()

    # -- keep-alive ------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due = self.session.keep_alive.due
        if due is not None:
            self._tick_timer = self.engine.call_at(due, self._tick)

    def _tick(self) -> None:
        if self.session.tick(self.engine.now) is TickAction.CLOSE:
            self.close(ClientFailure("Disconnected", f"no data was received from {self._name}"))
            return
        self.engine.unflushed[self] = None
        self._arm()
