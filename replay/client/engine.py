"""The client: turns in, actions out. No socket, no clock, no loop, no chance of its own.

Rules of this file
1. A turn is one call from outside: a connection that came to be, bytes, a timer. What it causes is done when the call
   returns, and what is to be done with sockets waits in `take`; bytes of one turn are one write per connection.
2. Time is given and never runs backwards. Timers that were due before the bytes came run before them, each at its time.
3. Whoever asks for something hands in a continuation, which is called exactly once; it may be called at once.
4. Connections are found through a lookup, then shared through the pool (PulsarClientImpl.getConnection).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.codec.session.timers import Timer, Timers
from pcli.replay.client.actions import Action, Fetch, Write
from pcli.replay.client.connection.binary_lookup import BinaryLookup, Found, Lookup
from pcli.replay.client.connection.client_connection import Link
from pcli.replay.client.connection.connection_pool import Pool
from pcli.replay.client.connection.errors import Refusal
from pcli.replay.client.connection.http_lookup import HttpLookup
from pcli.replay.client.connection.service_hosts import Hosts, address_of
from pcli.replay.client.memory_limit import Memory
from pcli.replay.client.wait_for_all import gather

if TYPE_CHECKING:
    from pcli.codec.proto import pb
    from pcli.replay.client.client_settings import ClientSettings
    from pcli.replay.client.connection.connection_handler import Handler, Kind
    from pcli.replay.client.consumer.consumer import Consumer
    from pcli.replay.client.consumer.multi_topics_consumer import MultiTopicsConsumer
    from pcli.replay.client.consumer.reader import Reader
    from pcli.replay.client.consumer_settings import ConsumerSettings, ReaderSettings
    from pcli.replay.client.producer.partitioned_producer import PartitionedProducer
    from pcli.replay.client.producer.producer import Producer
    from pcli.replay.client.producer_settings import ProducerSettings
    from pcli.replay.service_url import ServiceUrl

__all__ = ["Engine"]


class Engine:
    """One client. All of it belongs to one loop, or to a test."""

    def __init__(self, url: ServiceUrl, settings: ClientSettings, *, now: int, random: Callable[[], float]) -> None:
        self.url = url
        self.settings = settings
        self.now = now
        """Milliseconds since 1970 of this turn."""
        self.random = random
        """Numbers in [0, 1)."""
        self.actions: list[Action] = []
        self.dirty: dict[Link, None] = {}
        """Links that may have something to be written."""
        self.pool = Pool(self)
        self.memory = Memory(settings.memoryLimitBytes)
        self._clusters: dict[ServiceUrl, Lookup] = {}
        self.lookup = self._lookup_in(url)
        self.handlers: dict[Handler, None] = {}
        """Producers, consumers and watchers that have not given up."""
        self.closed = False
        self._timers = Timers()
        self._numbers = {kind: itertools.count() for kind in ("producer", "consumer", "watcher")}
        self._fetch_numbers = itertools.count()
        self._fetches: dict[int, Callable[[int, bytes], None]] = {}

    # -- turns -----------------------------------------------------------------------------------------------------

    def connected(self, link: Link, now: int) -> None:
        """The shell has opened this connection."""
        self.advance(now)
        if link.gone is None:
            link.begin()

    def received(self, link: Link, data: bytes, now: int) -> None:
        """Bytes of a broker."""
        self.advance(now)
        if link.gone is None:
            link.receive(data)

    def disconnected(self, link: Link, now: int, reason: str) -> None:
        """A connection is gone, or could not be opened; ``reason``: one line for people."""
        self.advance(now)
        link.cut(reason)

    def fetched(self, fetch: Fetch, status: int, body: bytes, now: int) -> None:
        """What an HTTP request came to; status 0: nothing, and ``body`` says why."""
        self.advance(now)
        self._fetches.pop(fetch.number)(status, body)

    def advance(self, now: int) -> None:
        """Run the timers that are due, each at its own time."""
        while (timer := self._timers.pop_due(now)) is not None:
            due, action = timer
            self.now = max(self.now, due)
            action()
        self.now = max(self.now, now)

    @property
    def deadline(self) -> int | None:
        """When the next timer is due; None: there is none."""
        return self._timers.deadline

    def take(self) -> list[Action]:
        """What the shell is to do now, in order."""
        for link in self.dirty:
            self.flush(link)
        self.dirty.clear()
        actions, self.actions = self.actions, []
        return actions

    def flush(self, link: Link) -> None:
        """Let what a link has to say be an action now, before others that follow."""
        data = link.session.output()
        if data and link.gone is None:
            self.actions.append(Write(link, data))

    # -- for handlers ----------------------------------------------------------------------------------------------

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Do something at a time, never within this call."""
        return self._timers.call_at(due, action)

    def next_number(self, kind: Kind) -> int:
        """An id for a new producer, consumer or watcher; each kind counts from 0."""
        return next(self._numbers[kind])

    def link_for(
        self,
        topic: str,
        done: Callable[[Link | Refusal], None],
        *,
        assigned: str = "",
        cluster: ServiceUrl | None = None,
        index: int | None = None,
    ) -> None:
        """A ready link to the broker of a topic; to the one at the URL ``assigned`` without any lookup.

        ``cluster``: another one that is to be asked; ``index``: see `Pool.link_to`.
        """

        def found(place: Found | Refusal) -> None:
            if isinstance(place, Refusal):
                done(place)
            else:
                self.pool.link_to(place.broker, done, through=place.through, index=index)

        if assigned:
            broker = address_of(assigned)
            found(broker if isinstance(broker, Refusal) else Found(broker, self.lookup.proxy_of(topic)))
        else:
            self._lookup_in(cluster or self.url).broker_of(topic, found)

    def _lookup_in(self, cluster: ServiceUrl) -> Lookup:
        if cluster not in self._clusters:
            hosts = Hosts(cluster.hosts, self.random)
            self._clusters[cluster] = HttpLookup(self, hosts) if cluster.http else BinaryLookup(self, hosts)
        return self._clusters[cluster]

    def partitions(self, topic: str, done: Callable[[int | Refusal], None], *, create: bool = True) -> None:
        """How many partitions a topic has, 0: it has none. ``create``: the broker may create it if it is not there."""
        self.lookup.partitions(topic, done, create=create)

    def topics_of(
        self,
        namespace: str,
        mode: pb.CommandGetTopicsOfNamespace.Mode.ValueType,
        pattern: str,
        known_hash: str,
        done: Callable[[pb.CommandGetTopicsOfNamespaceResponse | Refusal], None],
    ) -> None:
        """The topics of a namespace that match; ``known_hash``: of the list that is known already, empty: none is."""
        self.lookup.topics_of(namespace, mode, pattern, known_hash, done)

    def schema(self, topic: str, version: bytes, done: Callable[[pb.CommandGetSchemaResponse | Refusal], None]) -> None:
        """A schema of a topic; an empty version means the newest one. TopicNotFound: it has none."""
        self.lookup.schema(topic, version, done)

    def fetch(self, url: str, headers: dict[str, str], done: Callable[[int, bytes], None]) -> None:
        """Ask over HTTP; ``done`` gets status and body, status 0 with the reason when nothing came."""
        number = next(self._fetch_numbers)
        self._fetches[number] = done
        self.actions.append(Fetch(number, url, headers))

    # -- for applications ------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, settings: ProducerSettings, done: Callable[[Producer | PartitionedProducer | Refusal], None]
    ) -> None:
        """A producer, of all partitions where there are some; ``done`` gets it, or a Refusal."""
        from pcli.replay.client.producer.partitioned_producer import open_producer

        open_producer(self, topic, settings, done)

    def subscribe(
        self, settings: ConsumerSettings, done: Callable[[Consumer | MultiTopicsConsumer | Refusal], None]
    ) -> None:
        """A consumer of one topic, of several, or of those that a pattern matches; or a Refusal."""
        from pcli.replay.client.consumer.consumer_factory import open_consumer

        open_consumer(self, settings, done)

    def read(self, settings: ReaderSettings, done: Callable[[Reader | Refusal], None]) -> None:
        """A reader; or a Refusal."""
        from pcli.replay.client.consumer.reader import open_reader

        open_reader(self, settings, done)

    def close(self, done: Callable[[], None]) -> None:
        """Close what lives, with its leave from the broker, and then all connections."""
        self.closed = True

        def left(_: Refusal | None) -> None:
            for link in self.pool.links:
                link.close(Refusal("Closed", "the client is closed"))
            done()

        gather(self.handlers, lambda handler, told: handler.close(told), left)
