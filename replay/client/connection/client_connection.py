"""One connection to one broker (ClientCnx): its handshake, its requests, and who gets what comes unasked.

Rules of this file (ClientCnx, Commands.newConnect; 4.2.4)
1. Who gets an unasked command stands in a table: by producer, consumer or watcher id. One that names nobody is dropped.
2. When the link is gone, who waits for it hears of it first, then the open requests in their order, then producers,
   consumers and watchers (channelInactive).
3. CLOSE_PRODUCER and CLOSE_CONSUMER detach the handler, and its `closed_by_broker` is told where to go. The URL is that
   of TLS where TLS is spoken. TOPIC_MIGRATED only says which cluster to ask from now on; a URL that is none is no news.
4. A command that a handler can make nothing of (a topic name that is none) ends the connection (exceptionCaught).
5. AUTH_CHALLENGE is answered with the credentials as they are now: a token in a file may have been replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError, PcliError
from pcli.codec.proto import pb
from pcli.codec.session import Beat, ClientSession, Event, KeepAlive, State
from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from pcli.replay.client.actions import Shut
from pcli.replay.client.connection.errors import Refusal, refusal_of
from pcli.replay.client.connection.pending_requests import Answer, Requests
from pcli.replay.service_url import ServiceUrl

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext
    from pcli.replay.client.connection.connection_handler import Handler

__all__ = ["Link"]

CLIENT_VERSION: Final = "pcli-0.1.0"
"""What this client calls itself; the number is that of the distribution."""

FEATURES: Final = (
    "supports_auth_refresh",
    "supports_broker_entry_metadata",
    "supports_partial_producer",
    "supports_get_partitioned_metadata_without_auto_creation",
    "supports_repl_dedup_by_lid_and_eid",
)
"""What CONNECT says that this client can do."""

_ROUTES: Final = {
    "SEND_RECEIPT": ("producer", "producer_id"),
    "SEND_ERROR": ("producer", "producer_id"),
    "CLOSE_PRODUCER": ("producer", "producer_id"),
    "MESSAGE": ("consumer", "consumer_id"),
    "CLOSE_CONSUMER": ("consumer", "consumer_id"),
    "ACTIVE_CONSUMER_CHANGE": ("consumer", "consumer_id"),
    "REACHED_END_OF_TOPIC": ("consumer", "consumer_id"),
    "WATCH_TOPIC_UPDATE": ("watcher", "watcher_id"),
}
"""Who gets a command that answers nothing: kind of handler, and the field with its number."""

_KINDS: Final = ("producer", "consumer", "watcher")


class Link:
    """One connection to one broker, or through a proxy to one."""

    def __init__(self, engine: ClientContext, number: int, address: tuple[str, int], target: str = "") -> None:
        self.engine = engine
        self.number = number
        """Counts the connections of the engine from 0."""
        self.address = address
        """Host and port of the socket."""
        self.target = target
        """``host:port`` of the broker behind the proxy that the socket goes to; empty: no proxy."""
        settings = engine.settings
        keep_alive = KeepAlive(settings.keepAliveIntervalSeconds * 1000, engine.now)
        self.session = ClientSession(client_version=CLIENT_VERSION, features=FEATURES, keep_alive=keep_alive)
        self.max_message_size = DEFAULT_MAX_MESSAGE_SIZE
        """Bytes, as CONNECTED says."""
        self.version = 0
        """The protocol version of both sides together; 0 before the handshake."""
        self.features = pb.FeatureFlags()
        """What the broker can do."""
        self.ready = False
        """The handshake is complete, and the connection is there."""
        self.gone: Refusal | None = None
        """Why it ended; None while it lives."""
        self.handlers: dict[tuple[str, int], Handler] = {}
        self._name = f"{address[0]}:{address[1]}"
        self._requests = Requests(engine, self._name, self.close)
        self._waiting: list[Callable[[Link | Refusal], None]] = []
        self._tick_timer: Timer | None = None
        self._arm()

    # -- out -------------------------------------------------------------------------------------------------------

    def send(self, body: Any, entry: bytes = b"") -> None:
        """Send a command that nobody answers, or whose answers a handler gets (SEND)."""
        if self.gone is None:
            self.session.post(body, entry)
            self.engine.dirty[self] = None

    def write(self, frame: bytes) -> None:
        """The same with a frame that is built already (codec.wire.hot)."""
        if self.gone is None:
            self.session.post_frame(frame)
            self.engine.dirty[self] = None

    def request(self, body: Any, done: Answer, entry: bytes = b"") -> Any:
        """Send a command and wait for its answer; gives the body with its request id."""
        if self.gone is not None:
            done(self.gone)
            return body
        sent = self.session.send(body, entry)
        self.engine.dirty[self] = None
        self._requests.add(sent, done)
        return sent

    # -- who belongs to it -----------------------------------------------------------------------------------------

    def attach(self, handler: Handler) -> None:
        """From now on this handler gets what comes under its number, and hears when the link is gone."""
        self.handlers[handler.kind, handler.number] = handler

    def detach(self, handler: Handler) -> None:
        """It gets nothing any more; harmless when it is not attached."""
        if self.handlers.get((handler.kind, handler.number)) is handler:
            del self.handlers[handler.kind, handler.number]

    def when_ready(self, done: Callable[[Link | Refusal], None]) -> None:
        """Hand over the link once it is ready, at once if it is; or why it will never be."""
        if self.ready:
            done(self)
        elif self.gone is not None:
            done(self.gone)
        else:
            self._waiting.append(done)

    # -- in --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The connection is there: begin the handshake."""
        proof = self._proof()
        if proof is None:
            return
        fields = {"auth_method_name": proof.auth_method_name, "auth_data": proof.auth_data}
        if self.target:
            fields["proxy_to_broker_url"] = self.target
        self.session.connect(**fields)
        self.engine.dirty[self] = None

    def _proof(self) -> pb.AuthData | None:
        """The credentials as they are now; None: they can't be read, and the link is closed."""
        security = self.engine.settings.security
        try:
            return pb.AuthData(auth_method_name=security.method, auth_data=security.data())
        except LocalError as fault:
            self.close(Refusal("InvalidConfiguration", fault.text))
            return None

    def receive(self, data: bytes) -> None:
        """Bytes of the broker."""
        if not self.ready and data.startswith(b"HTTP/"):
            self.close(Refusal("Connect", f"{self._name}: HTTP is spoken there; a web port takes http://"))
            return
        for event in self.session.receive(data):
            if self.gone is not None:
                return
            try:
                self._take(event)
            except PcliError as fault:
                self.close(self._ended(str(fault)))
        if self.session.error is not None:
            self.close(self._ended(str(self.session.error)))
        else:
            self.engine.dirty[self] = None

    def _take(self, event: Event) -> None:
        route = _ROUTES.get(event.name)
        if route is not None:
            self._deliver(event, route)
        elif event.name == "CONNECTED":
            self._complete(event.body)
        elif event.name == "AUTH_CHALLENGE":
            self._prove()
        elif event.name == "ERROR" and not self.ready:
            self.close(refusal_of(event.body) or Refusal("UnknownError", event.body.message))
        elif event.name == "TOPIC_MIGRATED":
            self._migrate(event.body)
        elif event.request is not None:
            self._requests.answer(event)

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

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self, reason: Refusal) -> None:
        """Close the connection after what was sent before; all that hangs on it is told."""
        if self.gone is None:
            self.engine.flush(self)
            self.engine.actions.append(Shut(self))
            self.lost(reason)

    def cut(self, reason: str) -> None:
        """The connection is gone, not by us, or could not be opened."""
        self.lost(self._ended(reason))

    def _ended(self, reason: str) -> Refusal:
        text = f"{self._name}: {reason}"
        if self.ready:
            return Refusal("Disconnected", text)
        if self.session.state is not State.START and not self.engine.url.tls:
            text += ", in the handshake; a port for TLS takes pulsar+ssl://"
        return Refusal("Connect", text)

    def lost(self, reason: Refusal) -> None:
        """The connection is gone, by whomever."""
        if self.gone is not None:
            return
        self.gone = reason
        self.ready = False
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self.engine.pool.forget(self)
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(reason)
        self._requests.fail(reason)
        for handler in sorted(self.handlers.values(), key=lambda one: _KINDS.index(one.kind)):
            handler.link_lost(self)
        self.handlers.clear()

    # -- does it live ----------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due = self.session.keep_alive.due
        if due is not None:
            self._tick_timer = self.engine.call_at(due, self._tick)

    def _tick(self) -> None:
        if self.session.tick(self.engine.now) is Beat.CLOSE:
            self.close(Refusal("Disconnected", f"nothing was heard of {self._name}"))
            return
        self.engine.dirty[self] = None
        self._arm()
