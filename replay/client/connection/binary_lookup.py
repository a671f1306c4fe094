"""Lookup over Pulsar's binary protocol: partitions, owner brokers, namespaces, schemas (BinaryProtoLookupService).

Rules of this file (BinaryProtoLookupService, PulsarClientImpl.getPartitionedTopicMetadata; 4.2.4)
1. Each request starts at the next host of the service URL. Concurrent requests of the same kind for the same topic
   share one command.
2. A redirect is followed to the broker in the response, with the response's ``authoritative`` flag, at most
   ``maxLookupRedirects`` times (0 means no limit).
3. If the response sets ``proxy_through_service_url``, the broker is reached through the address that responded.
4. Requests for the number of partitions and for the topics of a namespace are retried with back-off until
   ``lookupTimeoutMs`` has passed, if the failure is retriable and not an authentication error. A lookup is not retried
   by this service: its handler retries the whole connection.
5. If a broker does not support PIP-344, the number of partitions is requested even if the request may create the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.connection_pool import Address, ServiceHosts, address_of
from pcli.replay.client.connection.errors import ClientFailure

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

Mode = pb.CommandGetTopicsOfNamespace.Mode
"""The topics of a namespace to list: persistent, non-persistent or all."""
Topics = pb.CommandGetTopicsOfNamespaceResponse


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The broker that serves a topic, and the route to it."""

    broker: Address
    through: Address | None = None
    """The proxy that leads to the broker, or None if the broker accepts connections itself."""


class LookupService(Protocol):
    """Lookup requests. Results and ClientFailures are passed to the callbacks."""

    def reach(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Check that the next host of the service URL accepts a connection. Pass ``done`` None or the ClientFailure."""

    def proxy_of(self, topic: str) -> Address | None:
        """Return the proxy used by the last lookup of this topic, or None."""

    def broker_of(self, topic: str, done: Callable[[LookupResult | ClientFailure], None]) -> None:
        """Find the broker that serves a topic."""

    def partitions(self, topic: str, done: Callable[[int | ClientFailure], None], *, create: bool) -> None:
        """Get the number of partitions of a topic, or 0 if it is not partitioned."""

    def topics_of(
        self,
        namespace: str,
        mode: Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[Topics | ClientFailure], None],
    ) -> None:
        """List the topics of a namespace."""

    def schema(
        self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | ClientFailure], None]
    ) -> None:
        """Get a schema by its version, or the newest schema."""


class BinaryLookup:
    """A lookup service that sends commands to brokers."""

    def __init__(self, engine: ClientContext, hosts: ServiceHosts) -> None:
        self._engine = engine
        self._hosts = hosts
        self._asked: dict[Any, list[Callable[[Any], None]]] = {}
        self._proxies: dict[str, Address] = {}

    def reach(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Check that the next host of the service URL completes a handshake."""
        self._engine.pool.connection_to(
            self._hosts.next(), lambda connection: done(connection if isinstance(connection, ClientFailure) else None)
        )

    def proxy_of(self, topic: str) -> Address | None:
        """Return the proxy used by the last lookup of this topic, or None."""
        return self._proxies.get(topic)

    # -- owner broker ----------------------------------------------------------------------------------------------

    def broker_of(self, topic: str, done: Callable[[LookupResult | ClientFailure], None]) -> None:
        """Find the broker that serves a topic."""
        if self._first(("broker", topic), done):
            self._find(self._hosts.next(), topic, authoritative=False, redirects=0)

    def _find(self, host: Address, topic: str, *, authoritative: bool, redirects: int) -> None:
        settings = self._engine.settings
        if 0 < settings.maxLookupRedirects < redirects:
            most = settings.maxLookupRedirects
            self._complete(("broker", topic), ClientFailure("Lookup", f"{topic}: too many redirects: {most}"))
            return
        body = pb.CommandLookupTopic(topic=topic, authoritative=authoritative)
        if settings.listenerName:
            body.advertised_listener_name = settings.listenerName

        def on_response(response: Event | ClientFailure) -> None:
            if isinstance(response, ClientFailure):
                self._complete(("broker", topic), response)
            else:
                self._found(response.body, host, topic, redirects)

        self._ask(host, lambda connection: body, on_response)

    def _found(self, body: pb.CommandLookupTopicResponse, host: Address, topic: str, redirects: int) -> None:
        broker = address_of(body.brokerServiceUrlTls if self._engine.url.tls else body.brokerServiceUrl)
        if isinstance(broker, ClientFailure):
            self._complete(("broker", topic), broker)
        elif body.response == pb.CommandLookupTopicResponse.Redirect:
            self._find(broker, topic, authoritative=body.authoritative, redirects=redirects + 1)
        else:
            through = host if body.proxy_through_service_url else None
            if through is None:
                self._proxies.pop(topic, None)
            else:
                self._proxies[topic] = through
            self._complete(("broker", topic), LookupResult(broker, through))

    # -- other requests --------------------------------------------------------------------------------------------

    def partitions(self, topic: str, done: Callable[[int | ClientFailure], None], *, create: bool) -> None:
        """Get the number of partitions of a topic, or 0 if it is not partitioned."""
        key = ("partitions", topic, create)
        if not self._first(key, done):
            return

        def send_request(then: Callable[[Any], None]) -> None:
            def number(response: Event | ClientFailure) -> None:
                then(response if isinstance(response, ClientFailure) else response.body.partitions)

            def body(connection: ClientConnection) -> pb.CommandPartitionedTopicMetadata:
                may = create or not connection.features.supports_get_partitioned_metadata_without_auto_creation
                return pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=may)

            self._ask(self._hosts.next(), body, number)

        retry(self._engine, send_request, lambda result: self._complete(key, result))

    def topics_of(
        self,
        namespace: str,
        mode: Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[Topics | ClientFailure], None],
    ) -> None:
        """List the topics of a namespace."""

        def send_request(then: Callable[[Any], None]) -> None:
            body = pb.CommandGetTopicsOfNamespace(namespace=namespace, mode=mode)
            if pattern:
                body.topics_pattern = pattern
            if known_hash:
                body.topics_hash = known_hash
            self._ask(self._hosts.next(), lambda connection: body, _body_for(then))

        retry(self._engine, send_request, done)

    def schema(
        self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | ClientFailure], None]
    ) -> None:
        """Get a schema by its version, or the newest schema."""
        body = pb.CommandGetSchema(topic=topic)
        if version:
            body.schema_version = version
        self._ask(self._hosts.next(), lambda connection: body, _body_for(done))

    # -- requests in progress --------------------------------------------------------------------------------------

    def _ask(
        self, host: Address, body: Callable[[ClientConnection], Any], done: Callable[[Event | ClientFailure], None]
    ) -> None:
        def opened(connection: ClientConnection | ClientFailure) -> None:
            if isinstance(connection, ClientFailure):
                done(connection)
            else:
                connection.request(body(connection), done)

        self._engine.pool.connection_to(host, opened)

    def _first(self, key: Any, done: Callable[[Any], None]) -> bool:
        """Register ``done`` for the result. Return True if no equal request is in progress."""
        first = key not in self._asked
        self._asked.setdefault(key, []).append(done)
        return first

    def _complete(self, key: Any, result: Any) -> None:
        for done in self._asked.pop(key):
            done(result)


def _body_for(done: Callable[[Any], None]) -> Callable[[Event | ClientFailure], None]:
    return lambda response: done(response if isinstance(response, ClientFailure) else response.body)


def retry(
    engine: ClientContext, send_request: Callable[[Callable[[Any], None]], None], done: Callable[[Any], None]
) -> None:
    """Send a request. If it fails and the failure is retriable, retry it until ``lookupTimeoutMs`` has passed."""
    settings = engine.settings
    end = engine.now + settings.lookupTimeoutMs
    waits = settings.initialBackoffIntervalMs, settings.maxBackoffIntervalMs, 2 * settings.lookupTimeoutMs
    backoff = Backoff(*waits, engine.random)

    def on_response(result: Any) -> None:
        wait = min(backoff.next(engine.now), end - engine.now)
        if not isinstance(result, ClientFailure) or not result.retriable or result.error in _HOPELESS or wait <= 0:
            done(result)
        else:
            engine.call_at(engine.now + wait, lambda: send_request(on_response))

    send_request(on_response)


_HOPELESS = ("AuthenticationError", "Closed")
