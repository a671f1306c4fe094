"""Where a topic is, over Pulsar's own protocol: partitions, owner, namespaces, schemas (BinaryProtoLookupService).

Rules of this file (BinaryProtoLookupService, PulsarClientImpl.getPartitionedTopicMetadata; 4.2.4)
1. Each question begins at the next host of the service URL. Questions of the same kind for the same topic at the same
   time are one.
2. A redirect is followed to the broker that it names, its ``authoritative`` handed on, at most ``maxLookupRedirects``
   times (0: as often as it comes).
3. ``proxy_through_service_url``: the broker is reached through the address that answered.
4. The number of partitions is asked for again, with back-off, until ``lookupTimeoutMs`` are over, as long as the
   refusal is retriable and not about who we are; the topics of a namespace likewise. A lookup is not: its handler
   tries again as a whole.
5. A broker without PIP-344 that is not to create a topic by being asked is asked all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.client_connection import Link
from pcli.replay.client.connection.connection_pool import Address
from pcli.replay.client.connection.errors import Refusal
from pcli.replay.client.connection.service_hosts import Hosts, address_of

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

__all__ = ["BinaryLookup", "Found", "Lookup", "Mode", "Topics", "retry"]

Mode = pb.CommandGetTopicsOfNamespace.Mode
"""Which topics of a namespace: persistent ones, others, all."""
Topics = pb.CommandGetTopicsOfNamespaceResponse


@dataclass(frozen=True, slots=True)
class Found:
    """Where a topic is served."""

    broker: Address
    through: Address | None = None
    """The proxy that leads there; None: the broker itself takes connections."""


class Lookup(Protocol):
    """Asks where things are; the answers, or Refusals, go to the continuations."""

    def reach(self, done: Callable[[Refusal | None], None]) -> None:
        """Whether the next host of the service URL takes us; a Refusal says why not."""

    def proxy_of(self, topic: str) -> Address | None:
        """The proxy that the last lookup of this topic went through; None: none."""

    def broker_of(self, topic: str, done: Callable[[Found | Refusal], None]) -> None:
        """The broker that serves a topic."""

    def partitions(self, topic: str, done: Callable[[int | Refusal], None], *, create: bool) -> None:
        """How many partitions a topic has; 0: it has none."""

    def topics_of(
        self,
        namespace: str,
        mode: Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[Topics | Refusal], None],
    ) -> None:
        """The topics of a namespace."""

    def schema(self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | Refusal], None]) -> None:
        """A schema by its version, or the newest one."""


class BinaryLookup:
    """Asks brokers."""

    def __init__(self, engine: ClientContext, hosts: Hosts) -> None:
        self._engine = engine
        self._hosts = hosts
        self._asked: dict[Any, list[Callable[[Any], None]]] = {}
        self._proxies: dict[str, Address] = {}

    def reach(self, done: Callable[[Refusal | None], None]) -> None:
        """Whether the next host of the service URL takes us, handshake and all."""
        self._engine.pool.link_to(self._hosts.next(), lambda link: done(link if isinstance(link, Refusal) else None))

    def proxy_of(self, topic: str) -> Address | None:
        """The proxy that the last lookup of this topic went through; None: none."""
        return self._proxies.get(topic)

    # -- the owner -------------------------------------------------------------------------------------------------

    def broker_of(self, topic: str, done: Callable[[Found | Refusal], None]) -> None:
        """The broker that serves a topic."""
        if self._first(("broker", topic), done):
            self._find(self._hosts.next(), topic, authoritative=False, redirects=0)

    def _find(self, host: Address, topic: str, *, authoritative: bool, redirects: int) -> None:
        settings = self._engine.settings
        if 0 < settings.maxLookupRedirects < redirects:
            most = settings.maxLookupRedirects
            self._tell(("broker", topic), Refusal("Lookup", f"{topic}: too many redirects: {most}"))
            return
        body = pb.CommandLookupTopic(topic=topic, authoritative=authoritative)
        if settings.listenerName:
            body.advertised_listener_name = settings.listenerName

        def answered(answer: Event | Refusal) -> None:
            if isinstance(answer, Refusal):
                self._tell(("broker", topic), answer)
            else:
                self._found(answer.body, host, topic, redirects)

        self._ask(host, lambda link: body, answered)

    def _found(self, body: pb.CommandLookupTopicResponse, host: Address, topic: str, redirects: int) -> None:
        broker = address_of(body.brokerServiceUrlTls if self._engine.url.tls else body.brokerServiceUrl)
        if isinstance(broker, Refusal):
            self._tell(("broker", topic), broker)
        elif body.response == pb.CommandLookupTopicResponse.Redirect:
            self._find(broker, topic, authoritative=body.authoritative, redirects=redirects + 1)
        else:
            through = host if body.proxy_through_service_url else None
            if through is None:
                self._proxies.pop(topic, None)
            else:
                self._proxies[topic] = through
            self._tell(("broker", topic), Found(broker, through))

    # -- other questions -------------------------------------------------------------------------------------------

    def partitions(self, topic: str, done: Callable[[int | Refusal], None], *, create: bool) -> None:
        """How many partitions a topic has; 0: it has none."""
        key = ("partitions", topic, create)
        if not self._first(key, done):
            return

        def ask(then: Callable[[Any], None]) -> None:
            def number(answer: Event | Refusal) -> None:
                then(answer if isinstance(answer, Refusal) else answer.body.partitions)

            def body(link: Link) -> pb.CommandPartitionedTopicMetadata:
                may = create or not link.features.supports_get_partitioned_metadata_without_auto_creation
                return pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=may)

            self._ask(self._hosts.next(), body, number)

        retry(self._engine, ask, lambda result: self._tell(key, result))

    def topics_of(
        self,
        namespace: str,
        mode: Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[Topics | Refusal], None],
    ) -> None:
        """The topics of a namespace."""

        def ask(then: Callable[[Any], None]) -> None:
            body = pb.CommandGetTopicsOfNamespace(namespace=namespace, mode=mode)
            if pattern:
                body.topics_pattern = pattern
            if known_hash:
                body.topics_hash = known_hash
            self._ask(self._hosts.next(), lambda link: body, _body_for(then))

        retry(self._engine, ask, done)

    def schema(self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | Refusal], None]) -> None:
        """A schema by its version, or the newest one."""
        body = pb.CommandGetSchema(topic=topic)
        if version:
            body.schema_version = version
        self._ask(self._hosts.next(), lambda link: body, _body_for(done))

    # -- how it is done --------------------------------------------------------------------------------------------

    def _ask(self, host: Address, body: Callable[[Link], Any], done: Callable[[Event | Refusal], None]) -> None:
        def opened(link: Link | Refusal) -> None:
            if isinstance(link, Refusal):
                done(link)
            else:
                link.request(body(link), done)

        self._engine.pool.link_to(host, opened)

    def _first(self, key: Any, done: Callable[[Any], None]) -> bool:
        """Whether this question is not on its way yet; ``done`` hears its answer in either case."""
        first = key not in self._asked
        self._asked.setdefault(key, []).append(done)
        return first

    def _tell(self, key: Any, result: Any) -> None:
        for done in self._asked.pop(key):
            done(result)


def _body_for(done: Callable[[Any], None]) -> Callable[[Event | Refusal], None]:
    return lambda answer: done(answer if isinstance(answer, Refusal) else answer.body)


def retry(engine: ClientContext, ask: Callable[[Callable[[Any], None]], None], done: Callable[[Any], None]) -> None:
    """Ask again with back-off until ``lookupTimeoutMs`` are over, as long as that may help."""
    settings = engine.settings
    end = engine.now + settings.lookupTimeoutMs
    waits = settings.initialBackoffIntervalMs, settings.maxBackoffIntervalMs, 2 * settings.lookupTimeoutMs
    backoff = Backoff(*waits, engine.random)

    def answered(result: Any) -> None:
        wait = min(backoff.next(engine.now), end - engine.now)
        if not isinstance(result, Refusal) or not result.retriable or result.error in _HOPELESS or wait <= 0:
            done(result)
        else:
            engine.call_at(engine.now + wait, lambda: ask(answered))

    ask(answered)


_HOPELESS = ("AuthenticationError", "Closed")
