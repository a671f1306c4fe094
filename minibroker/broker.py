"""The broker: bytes and times in, bytes out. No clock, no socket, no thread.

Rules of this file
1. A turn is one call from outside: bytes of a connection, a frame, timers, a change by REST. Everything it causes is
   done when the call returns: dispatchers that have something to do are asked once (schedule), lost connections let go
   of what they held, and what is to be written waits in `drain`.
2. Time is given and never runs backwards. Timers that were due before the bytes came run before them.
3. An exception that is our own fault costs one connection at most and is kept in `failures`; whoever owns the broker
   says with `on_failure` where it is reported.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Final

from pcli.codec.proto import pb
from pcli.codec.session import Offer
from pcli.codec.session.timers import Timer, Timers
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.commands import HANDLERS, HOT_HANDLERS
from pcli.minibroker.connection import Connection
from pcli.minibroker.dispatch.dispatcher_table import make_dispatcher
from pcli.minibroker.error_responses import NOBODY, error
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.policy_store import Policies
from pcli.minibroker.scheduler import Runnable
from pcli.minibroker.schema.registry import SchemaRegistry
from pcli.minibroker.settings import Settings
from pcli.minibroker.stats.rates import Rates
from pcli.minibroker.storage.ledger import EntryCache
from pcli.minibroker.storage.spilling_storage import Pool
from pcli.minibroker.topic_names import namespace_of
from pcli.minibroker.topics.rate_limiters import PublishThrottle, RateLimiter
from pcli.minibroker.topics.topic import Topic
from pcli.minibroker.topics.topic_list_watchers import TopicListWatchers
from pcli.minibroker.topics.topic_registry import TopicRegistry

__all__ = ["VERSION", "Broker", "Timer"]

VERSION: Final = "4.2.4"
"""The Pulsar that this broker behaves like."""

_FEATURES: Final = (
    "supports_get_partitioned_metadata_without_auto_creation",
    "supports_repl_dedup_by_lid_and_eid",
)
_WATCHING: Final = ("supports_topic_watchers", "supports_topic_watcher_reconcile")


class Broker:
    """One broker. All of it belongs to one event loop, or to a test."""

    def __init__(
        self,
        settings: Settings,
        *,
        instance: int = 0,
        service_url: str = "",
        http_url: str = "",
        pool: Pool | None = None,
        now: int = 0,
    ) -> None:
        self.settings = settings
        self.instance = instance
        """Drawn once per start: part of the names that the broker gives to producers."""
        self.service_url = service_url
        """What LOOKUP answers."""
        self.http_url = http_url
        self.now = now
        """Milliseconds since 1970 of this turn."""
        self.turn_end = now
        """The end of the time that this turn covers; later than ``now`` while timers of a long pause run."""
        self.pool = Pool() if pool is None else pool
        self.cache = EntryCache()
        """The entries that all topics share the room for."""
        self.failures: deque[BaseException] = deque(maxlen=100)
        """Exceptions that are our own fault, the latest ones."""
        self.on_failure: Callable[[BaseException, Connection | None], None] | None = None
        self.offer = _offer(settings)
        self.connections: dict[Connection, None] = {}
        self.dirty: list[Connection] = []
        """Connections with something to be written, or to be closed."""
        self._lost: list[Connection] = []
        self._paused: list[Connection] = []
        self._scheduled: dict[Runnable, None] = {}
        self._timers = Timers()
        self._ledger_ids = itertools.count()
        self._names = itertools.count()
        self.policies = Policies(settings, self.policies_changed)
        self.schemas = SchemaRegistry()
        self.watchers = TopicListWatchers()
        self.topic_registry = TopicRegistry(self, make_dispatcher)
        self.topics = self.topic_registry.topics
        self.stored = self.topic_registry.stored
        publish = settings.brokerPublisherThrottlingMaxMessageRate, settings.brokerPublisherThrottlingMaxByteRate
        limiter = RateLimiter(*publish, now)
        self.publish_throttle = PublishThrottle(self, limiter) if limiter.limits else None
        """The limit of publishing for all topics together; None: there is none."""
        limiter = RateLimiter(settings.dispatchThrottlingRateInMsg, settings.dispatchThrottlingRateInByte, now)
        self.dispatch_rate = limiter if limiter.limits else None
        """The limit of dispatching for all topics together; None: there is none."""
        self.rates = Rates(self, self.topics)

    # -- connections -----------------------------------------------------------------------------------------------

    def connect(self, peer: tuple[str, int], now: int) -> Connection:
        """A client has come. One too many gets an ERROR and is closed with the next drain."""
        self.begin_turn(now)
        connection = Connection(self, peer, HANDLERS, HOT_HANDLERS)
        refused = self._full(peer[0])
        self.connections[connection] = None
        if refused is not None:
            connection.send_command(error(NOBODY, refused))
            connection.fail(refused.text)
            self.finish_turn()
        return connection

    def _full(self, address: str) -> Refused | None:
        most, most_of_one = self.settings.brokerMaxConnections, self.settings.brokerMaxConnectionsPerIp
        if 0 < most <= len(self.connections):
            return Refused(pb.NotAllowedError, "Reached the maximum number of connections")
        if 0 < most_of_one <= sum(one.peer[0] == address for one in self.connections):
            return Refused(pb.NotAllowedError, "Reached the maximum number of connections on address")
        return None

    def receive(self, connection: Connection, data: bytes, now: int) -> None:
        """Bytes of a client."""
        self.begin_turn(now)
        connection.receive(data)
        self.finish_turn()

    def receive_frame(self, connection: Connection, frame: Frame, now: int) -> list[tuple[Connection, bytes]]:
        """One frame of a client; gives all that is to be written."""
        self.begin_turn(now)
        connection.receive_frame(frame)
        self.finish_turn()
        return self.drain()

    def disconnected(self, connection: Connection, now: int) -> None:
        """A client has gone, or its socket was closed for us."""
        self.begin_turn(now)
        self._release(connection)
        self.finish_turn()

    def set_writable(self, connection: Connection, now: int, *, yes: bool) -> None:
        """Whether a client reads what it gets: entries stop, or go on."""
        self.begin_turn(now)
        connection.congested = not yes
        self._update_writable(connection)
        self.finish_turn()

    def drain(self) -> list[tuple[Connection, bytes]]:
        """What is to be written now, joined by connection; connections that are `closing` are to be closed after it.

        A client for which this turn had too much takes more once this is written: call finish_turn afterwards.
        """
        if not self.dirty:
            return []
        dirty, self.dirty = self.dirty, []
        written = []
        for connection in dirty:
            out = connection.out
            written.append((connection, out[0] if len(out) == 1 else b"".join(out)))
            out.clear()
            connection.queued = 0
            if not connection.writable:
                self._update_writable(connection)
        return written

    def _update_writable(self, connection: Connection) -> None:
        was = connection.writable
        connection.writable = not connection.congested and not connection.closing
        if connection.writable and not was:
            if connection.input_paused:
                self.schedule(connection)
            for consumer in connection.consumers.values():
                dispatcher = consumer.subscription.dispatcher
                if dispatcher is not None:
                    dispatcher.add_permits(consumer, 0)

    def connection_closing(self, connection: Connection) -> None:
        """A connection is closing: at the end of this turn it lets go of what it holds."""
        self._lost.append(connection)

    def reading_changed(self, connection: Connection) -> None:
        """The shell is to look whether it may read from a connection."""
        self._paused.append(connection)

    def take_reading_changes(self) -> list[Connection]:
        """Connections whose `reading` may have changed since the last call."""
        changed, self._paused = self._paused, []
        return changed

    # -- turns -----------------------------------------------------------------------------------------------------

    def begin_turn(self, now: int) -> None:
        """It is now that late: what a turn from outside starts with."""
        deadline = self._timers.deadline
        if deadline is not None and deadline <= now:
            self.advance(now)
        elif now > self.now:
            self.now = self.turn_end = now

    def advance(self, now: int) -> None:
        """Run the timers that are due, each at its own time."""
        self.turn_end = max(now, self.now)
        while (timer := self._timers.pop_due(now)) is not None:
            due, action = timer
            self.now = max(self.now, due)
            try:
                action()
            except Exception as fault:
                self.report(fault)
            self.finish_turn()
        self.now = self.turn_end

    @property
    def deadline(self) -> int | None:
        """When the next timer is due; None: there is none."""
        return self._timers.deadline

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Do something after so many milliseconds, at least one: an endless chain must not hold up time."""
        return self._timers.call_at(self.now + max(1, delay_ms), action)

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """The same at a time."""
        return self._timers.call_at(max(due, self.now + 1), action)

    def schedule(self, runnable: Runnable) -> None:
        """Run a dispatcher once at the end of this turn."""
        self._scheduled[runnable] = None

    def finish_turn(self) -> None:
        """Finish the turn: lost connections first, then dispatchers, until nobody asks any more."""
        while self._scheduled or self._lost:
            while self._lost:
                self._release(self._lost.pop(0))
            batch, self._scheduled = self._scheduled, {}
            for dispatcher in batch:
                try:
                    dispatcher.run()
                except Exception as fault:
                    self.report(fault)

    def _release(self, connection: Connection) -> None:
        try:
            connection.release()
        except Exception as fault:
            self.report(fault, connection)
        self.connections.pop(connection, None)

    def report(self, fault: BaseException, connection: Connection | None = None) -> None:
        """An exception that is our own fault."""
        self.failures.append(fault)
        if self.on_failure is not None:
            self.on_failure(fault, connection)

    # -- names and numbers -----------------------------------------------------------------------------------------

    def next_ledger_id(self) -> int:
        """The id of a new ledger: they grow over all topics."""
        return next(self._ledger_ids)

    def next_producer_name(self) -> str:
        """A name for a producer that brought none: ``standalone-0-7``."""
        return f"{self.settings.clusterName}-{self.instance}-{next(self._names)}"

    # -- topics ----------------------------------------------------------------------------------------------------

    def check_owned(self, name: TopicName) -> None:
        """Refused (ServiceNotReady) when the bundle of a topic was never looked up."""
        self.topic_registry.check_owned(name)

    def get_or_create(self, name: TopicName, *, create: bool = True) -> Topic:
        """The topic for a producer or consumer, created if it may be; Refused says why not."""
        return self.topic_registry.get_or_create(name, create=create)

    def remove_topic(self, full_name: str) -> None:
        """Remove a non-persistent topic that was unloaded."""
        self.topics.pop(full_name, None)

    def policies_changed(self, name: str) -> None:
        """Policies of a namespace (``tenant/namespace``) or of a topic (its name without partition) have changed."""
        for topic in list(self.topics.values()):
            if name in (namespace_of(topic.name), str(topic.name.base)):
                topic.policies_changed()

    def create_partitioned(self, name: TopicName, count: int) -> None:
        """Make a topic of so many partitions, or give it more. Refused (NotAllowedError): too many of the namespace."""
        self.topic_registry.check_topic_limit(name, count - self.topic_registry.partitions(name))
        self.topic_registry.set_partitions(name, count)

    def unload(self, topic: Topic) -> None:
        """Close its clients and roll its ledger; what is stored stays."""
        topic.unload()

    def terminate(self, topic: Topic) -> tuple[int, int]:
        """Let a topic take no more messages; ledger id and entry id of the last one."""
        return topic.terminate()

    def delete_topic(self, name: TopicName, *, force: bool = False) -> None:
        """Delete a topic, or one partition. Refused: it is not there, or (without ``force``) somebody is connected."""
        topic = self.topic_registry.load(name)
        if topic is None:
            raise Refused(pb.TopicNotFound, f"Topic {name} not found")
        topic.delete(force=force)
        self.topic_registry.forget(name)

    def close(self) -> None:
        """Tell all clients that it is over, as an unload of every topic does, and close their connections."""
        for topic in list(self.topics.values()):
            topic.unload()
        for connection in list(self.connections):
            connection.close("the broker stops")
        self.finish_turn()


def _offer(settings: Settings) -> Offer:
    watching = settings.enableBrokerTopicListWatcher and settings.enableBrokerSideSubscriptionPatternEvaluation
    return Offer(
        server_version=f"Pulsar Server{VERSION}",
        max_message_size=settings.maxMessageSize,
        features=frozenset(_FEATURES + (_WATCHING if watching else ())),
        expose_broker_entry=settings.exposingBrokerEntryMetadataToClientEnabled,
    )
