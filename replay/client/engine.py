"""The client engine. It converts events to actions. It has no socket, clock, event loop or random source.

Rules of this file
1. A turn is one external call that reports a new connection, received bytes or a timer. All work of the turn is done
   when the call returns, and `take` returns the actions. The output of one turn is one write per connection.
2. The caller passes the time. If it is earlier than before, the engine keeps the later time. Timers that are due run
   before the input is processed, each at its scheduled time.
3. Operations take a callback, which is called exactly once, possibly before the operation returns.
4. A connection is found with a lookup and shared through the pool (PulsarClientImpl.getConnection).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, get_args

from pcli.codec.session.timers import Timer, Timers
from pcli.replay.client.actions import Action, Fetch, Write
from pcli.replay.client.connection.binary_lookup import BinaryLookup, LookupResult, LookupService
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.connection_handler import Kind
from pcli.replay.client.connection.connection_pool import ConnectionPool, ServiceHosts, address_of
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.connection.http_lookup import HttpLookup
from pcli.replay.client.memory_limit import MemoryLimit
from pcli.replay.client.wait_for_all import gather

if TYPE_CHECKING:
    from pcli.codec.proto import pb
    from pcli.replay.client.connection.connection_handler import ConnectionHandler
    from pcli.replay.client.consumer.consumer import Consumer
    from pcli.replay.client.consumer.multi_topics_consumer import MultiTopicsConsumer
    from pcli.replay.client.consumer.reader import Reader
    from pcli.replay.client.producer.partitioned_producer import PartitionedProducer
    from pcli.replay.client.producer.producer import Producer
    from pcli.replay.client.scalable.scalable_producer import ScalableProducer
    from pcli.replay.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, ReaderSettings
    from pcli.replay.service_url import ServiceUrl

SCALABLE: Final = "topic://"
"""Start of the names of scalable topics."""


class Engine:
    """One client. It belongs to one event loop, or to a test."""

    def __init__(self, url: ServiceUrl, settings: ClientSettings, *, now: int, random: Callable[[], float]) -> None:
        self.url = url
        self.settings = settings
        self.now = now
        """Time of this turn in milliseconds since 1970."""
        self.random = random
        """A function that returns random numbers in [0, 1)."""
        self.actions: list[Action] = []
        self.unflushed: dict[ClientConnection, None] = {}
        """Connections that may have output."""
        self.pool = ConnectionPool(self)
        self.memory = MemoryLimit(settings.memoryLimitBytes)
        self._clusters: dict[ServiceUrl, LookupService] = {}
        self.lookup = self._lookup_in(url)
        self.handlers: dict[ConnectionHandler, None] = {}
        """Producers, consumers and watchers that are not in a final state."""
        self.closed = False
        self._timers = Timers()
        self._numbers = {kind: itertools.count(int(kind == "session")) for kind in get_args(Kind)}
        self._fetch_numbers = itertools.count()
        self._fetches: dict[int, Callable[[int, bytes], None]] = {}

    # -- turns -----------------------------------------------------------------------------------------------------

    def connected(self, connection: ClientConnection, now: int) -> None:
        """Start the handshake of a connection that was opened."""
        self.advance(now)
        if connection.close_reason is None:
            connection.begin()

    def received(self, connection: ClientConnection, data: bytes, now: int) -> None:
        """Process bytes from a broker."""
        self.advance(now)
        if connection.close_reason is None:
            connection.receive(data)

    def disconnected(self, connection: ClientConnection, now: int, reason: str) -> None:
        """Handle a connection that ended or could not be opened. ``reason`` is one line."""
        self.advance(now)
        connection.cut(reason)

    def fetched(self, fetch: Fetch, status: int, body: bytes, now: int) -> None:
        """Process the response to an HTTP request. If there is none, ``status`` is 0 and ``body`` is the reason."""
        self.advance(now)
        self._fetches.pop(fetch.number)(status, body)

    def advance(self, now: int) -> None:
        """Run the timers that are due, each at its scheduled time."""
        while (timer := self._timers.pop_due(now)) is not None:
            due, action = timer
            self.now = max(self.now, due)
            action()
        self.now = max(self.now, now)

    @property
    def deadline(self) -> int | None:
        """The time of the next timer, or None."""
        return self._timers.deadline

    def take(self) -> list[Action]:
        """Return the actions to execute now, in order."""
        for connection in self.unflushed:
            self.flush(connection)
        self.unflushed.clear()
        actions, self.actions = self.actions, []
        return actions

    def flush(self, connection: ClientConnection) -> None:
        """Convert the pending output of a connection to an action, before later actions are added."""
        data = connection.session.output()
        if data and connection.close_reason is None:
            self.actions.append(Write(connection, data))

    # -- for handlers ----------------------------------------------------------------------------------------------

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Schedule ``action`` for the time ``due``. It never runs before this method returns."""
        return self._timers.call_at(due, action)

    def next_number(self, kind: Kind) -> int:
        """Return the id for a new handler. The ids of sessions start at 1, all others at 0."""
        return next(self._numbers[kind])

    def connection_for(
        self,
        topic: str,
        done: Callable[[ClientConnection | ClientFailure], None],
        *,
        assigned: str = "",
        cluster: ServiceUrl | None = None,
        index: int | None = None,
    ) -> None:
        """Pass ``done`` a ready connection to the broker of a topic, or to the URL ``assigned`` without a lookup.

        ``cluster`` is the cluster for the lookup if it is not the client's cluster. `ConnectionPool.connection_to`
        describes ``index``.
        """

        def found(place: LookupResult | ClientFailure) -> None:
            if isinstance(place, ClientFailure):
                done(place)
            else:
                self.pool.connection_to(place.broker, done, through=place.through, index=index)

        if assigned:
            broker = address_of(assigned)
            found(broker if isinstance(broker, ClientFailure) else LookupResult(broker, self.lookup.proxy_of(topic)))
        else:
            self._lookup_in(cluster or self.url).broker_of(topic, found)

    def _lookup_in(self, cluster: ServiceUrl) -> LookupService:
        if cluster not in self._clusters:
            hosts = ServiceHosts(cluster.hosts, self.random)
            self._clusters[cluster] = HttpLookup(self, hosts) if cluster.http else BinaryLookup(self, hosts)
        return self._clusters[cluster]

    def partitions(self, topic: str, done: Callable[[int | ClientFailure], None], *, create: bool = True) -> None:
        """Pass ``done`` the number of partitions, or 0. If ``create`` is set, the broker may create the topic."""
        self.lookup.partitions(topic, done, create=create)

    def topics_of(
        self,
        namespace: str,
        mode: pb.CommandGetTopicsOfNamespace.Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[pb.CommandGetTopicsOfNamespaceResponse | ClientFailure], None],
    ) -> None:
        """Pass ``done`` the topics that match. ``known_hash`` is the hash of the known list, or empty."""
        self.lookup.topics_of(namespace, mode, pattern, known_hash, done)

    def schema(
        self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | ClientFailure], None]
    ) -> None:
        """Pass ``done`` a schema, or TopicNotFound if there is none. An empty version requests the newest schema."""
        self.lookup.schema(topic, version, done)

    def fetch(self, url: str, headers: dict[str, str], done: Callable[[int, bytes], None]) -> None:
        """Send an HTTP GET.

        ``done`` is called with the status and body, or with 0 and the reason if there is no response.
        """
        number = next(self._fetch_numbers)
        self._fetches[number] = done
        self.actions.append(Fetch(number, url, headers))

    # -- for applications ------------------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        settings: ProducerSettings,
        done: Callable[[Producer | PartitionedProducer | ScalableProducer | ClientFailure], None],
    ) -> None:
        """Pass ``done`` a producer (of all partitions or segments of the topic) or a ClientFailure."""
        if topic.strip().startswith(SCALABLE):
            from pcli.replay.client.scalable.scalable_producer import open_scalable_producer

            open_scalable_producer(self, topic.strip(), settings, done)
            return
        from pcli.replay.client.producer.partitioned_producer import open_producer

        open_producer(self, topic, settings, done)

    def subscribe(
        self, settings: ConsumerSettings, done: Callable[[Consumer | MultiTopicsConsumer | ClientFailure], None]
    ) -> None:
        """Pass ``done`` a consumer of one topic, several topics or a topic pattern, or a ClientFailure."""
        if any(topic.startswith(SCALABLE) for topic in settings.topicNames):
            from pcli.replay.client.scalable.scalable_consumer_factory import open_scalable_consumer

            open_scalable_consumer(self, settings, done)
            return
        from pcli.replay.client.consumer.consumer_factory import open_consumer

        open_consumer(self, settings, done)

    def read(self, settings: ReaderSettings, done: Callable[[Reader | ClientFailure], None]) -> None:
        """Pass ``done`` a reader, or a ClientFailure."""
        from pcli.replay.client.consumer.reader import open_reader

        open_reader(self, settings, done)

    def close(self, done: Callable[[], None]) -> None:
        """Close all producers, consumers and watchers at their brokers, then all connections."""
        self.closed = True

        def left(_: ClientFailure | None) -> None:
            for connection in self.pool.connections:
                connection.close(ClientFailure("Closed", "the client is closed"))
            done()

        gather(self.handlers, lambda handler, completed: handler.close(completed), left)
