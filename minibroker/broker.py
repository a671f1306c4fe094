"""The broker as a function of bytes and times. It has no clock, socket or thread.

Rules of this file
1. A turn is one external call: for bytes of a connection, a frame, timers, or a change through the REST API. All
   effects are complete when the call returns: scheduled dispatchers have run, and closing connections have released
   their producers and consumers. `drain` then returns the bytes to write.
2. The caller passes the time, which never decreases. Timers that are due run before the bytes are processed.
3. An exception caused by a bug closes at most one connection and is kept in `failures`. `on_failure` reports it.
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
from pcli.minibroker.broker_documents import BrokerDocuments
from pcli.minibroker.commands import HANDLERS, HOT_HANDLERS, SCALABLE_HANDLERS
from pcli.minibroker.connection import Connection
from pcli.minibroker.dispatch.dispatcher_table import make_dispatcher
from pcli.minibroker.error_responses import NOBODY, error
from pcli.minibroker.errors import Refused
from pcli.minibroker.monitors import Monitors
from pcli.minibroker.policies.policy_store import Policies
from pcli.minibroker.scalable.scalable_topic_service import ScalableTopicService
from pcli.minibroker.scheduler import HashedWheelTimer, Runnable
from pcli.minibroker.schema.registry import SchemaRegistry
from pcli.minibroker.security.authentication import AuthenticationService
from pcli.minibroker.security.authorization import AuthorizationService
from pcli.minibroker.settings import Settings
from pcli.minibroker.stats.rates import Rates
from pcli.minibroker.storage.broker_storage import BrokerStorage, MemoryBrokerStorage
from pcli.minibroker.storage.ledger import EntryCache
from pcli.minibroker.storage.spilling_storage import Pool
from pcli.minibroker.topics.client_permissions import disconnect_unauthorized
from pcli.minibroker.topics.rate_limiters import PublishThrottle, RateLimiter, ResourceGroupThrottles
from pcli.minibroker.topics.topic import Topic
from pcli.minibroker.topics.topic_list_watchers import TopicListWatchers
from pcli.minibroker.topics.topic_registry import TopicRegistry
from pcli.minibroker.topics.transaction_buffer_client import TransactionBufferClientImpl
from pcli.minibroker.topics.unacked_message_limit import UnackedMessageLimit
from pcli.minibroker.transactions.metadata_store_service import (
    ASSIGN,
    TransactionBufferClient,
    TransactionMetadataStoreService,
)
from pcli.minibroker.transactions.scalable_transactions import ScalableTransactions

_FEATURES: Final = ("supports_get_partitioned_metadata_without_auto_creation", "supports_repl_dedup_by_lid_and_eid")
_WATCHING: Final = ("supports_topic_watchers", "supports_topic_watcher_reconcile")
_SCALABLE: Final = "supports_scalable_topics"
_SCALABLE_COORDINATORS: Final = "supports_tc_metadata_discovery"


class Broker:
    """One broker. Only one event loop or one test may use it."""

    def __init__(
        self,
        settings: Settings,
        *,
        instance: int = 0,
        service_url: str = "",
        http_url: str = "",
        pool: Pool | None = None,
        storage: BrokerStorage | None = None,
        now: int = 0,
    ) -> None:
        """If ``storage`` is durable, the broker continues with the stored state. By default, it is the memory."""
        self.settings = settings
        self.version = settings.version
        """The version of Pulsar that this broker reproduces."""
        self.instance = instance
        """Number of this start of the broker. Generated producer names contain it."""
        self.service_url = service_url
        """The URL in LOOKUP responses."""
        self.http_url = http_url
        self.service_url_tls = self.http_url_tls = ""
        """The URLs of the TLS ports; empty if there are none."""
        self.created = now
        """Time of the start, in milliseconds since 1970."""
        self.now = now
        """Time of the current turn or timer, in milliseconds since 1970."""
        self.turn_end = now
        """Time at the end of this turn. It is later than ``now`` while overdue timers run."""
        self.pool = Pool() if pool is None else pool
        self.storage: BrokerStorage = MemoryBrokerStorage(self.pool) if storage is None else storage
        self.cache = EntryCache()
        """Cached entries of all topics."""
        self.failures: deque[BaseException] = deque(maxlen=100)
        """The latest exceptions caused by bugs."""
        self.on_failure: Callable[[BaseException, Connection | None], None] | None = None
        self.on_shutdown: Callable[[], None] | None = None
        """The function that closes the ports when the REST API requests it."""
        self.offer = _offer(settings)
        self._handlers = HANDLERS | SCALABLE_HANDLERS if settings.scalableTopicsEnabled else HANDLERS
        self.connections: dict[Connection, None] = {}
        self.connections_accepted = 0
        """Number of all connections since the start."""
        self.dirty: list[Connection] = []
        """Connections with bytes to write, or to close."""
        self._lost: list[Connection] = []
        self._paused: list[Connection] = []
        self._scheduled: dict[Runnable, None] = {}
        self._timers = Timers()
        self.delayed_delivery_timer = HashedWheelTimer(settings.delayedDeliveryTickTimeMillis)
        self._ledger_ids = itertools.count()
        self._names = itertools.count()
        self.policies = Policies(settings, self.policies_changed)
        self.authentication = AuthenticationService(settings) if settings.authenticationEnabled else None
        self.authorization = AuthorizationService(self.policies) if settings.authorizationEnabled else None
        self.schemas = SchemaRegistry()
        self.watchers = TopicListWatchers()
        self.topic_registry = TopicRegistry(self, make_dispatcher)
        self.scalable_topics = ScalableTopicService(self)
        self.transaction_buffers: TransactionBufferClient = TransactionBufferClientImpl(self.topic_registry)
        self.transactions = TransactionMetadataStoreService(self, settings, self.transaction_buffers)
        self.scalable_transactions = ScalableTransactions(self, settings, self.transaction_buffers)
        if settings.transactionCoordinatorEnabled:
            self.policies.partitioned[ASSIGN] = 1
        self.documents: BrokerDocuments | None = None
        """The documents of the broker; None without durable storage."""
        if self.storage.durable:
            self.documents = BrokerDocuments(
                self.storage,
                settings,
                self.policies,
                self.schemas,
                self.topic_registry,
                self.scalable_topics,
                self.transactions,
                self.scalable_transactions,
            )
            self.instance = self.documents.instance
        self.topics = self.topic_registry.topics
        self.stored = self.topic_registry.stored
        self.resource_group_throttles = ResourceGroupThrottles(self, self.policies)
        self.publish_throttle = PublishThrottle(self)
        """The publish rate limit of the whole broker."""
        self.dispatch_rate: RateLimiter | None = None
        """The dispatch rate limit of the whole broker, or None."""
        self._set_rates()
        unacked, share = settings.maxUnackedMessagesPerBroker, settings.maxUnackedMessagesPerSubscriptionOnBrokerBlocked
        self.unacked_message_limit = UnackedMessageLimit(self, unacked, share) if unacked > 0 and share > 0 else None
        """The limit on unacknowledged messages of the whole broker, or None."""
        self.rates = Rates(self, self.topics)
        self.monitors = Monitors(self, self.topics.values, self.delete_topic)

    @property
    def address(self) -> str:
        """Host and port of the REST API, which identify the broker (brokerId)."""
        return self.http_url.rpartition("/")[2]

    @property
    def host(self) -> str:
        """Host of the REST API."""
        return self.address.rpartition(":")[0]

    # -- connections -----------------------------------------------------------------------------------------------

    def connect(self, peer: tuple[str, int], now: int) -> Connection:
        """Accept a client. If a limit is exceeded, send ERROR and close the connection at the next drain."""
        self.begin_turn(now)
        connection = Connection(self, peer, self._handlers, HOT_HANDLERS)
        refused = self._full(peer[0])
        self.connections[connection] = None
        self.connections_accepted += 1
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
        """Process bytes from a client."""
        self.begin_turn(now)
        connection.receive(data)
        self.finish_turn()

    def receive_frame(self, connection: Connection, frame: Frame, now: int) -> list[tuple[Connection, bytes]]:
        """Process one frame from a client. Return all bytes to write."""
        self.begin_turn(now)
        connection.receive_frame(frame)
        self.finish_turn()
        return self.drain()

    def disconnected(self, connection: Connection, now: int) -> None:
        """Release a connection whose socket was closed."""
        self.begin_turn(now)
        self._release(connection)
        self.finish_turn()

    def set_writable(self, connection: Connection, now: int, *, yes: bool) -> None:
        """Set whether a client reads fast enough. Entries are sent only to clients that read fast enough."""
        self.begin_turn(now)
        connection.congested = not yes
        self._update_writable(connection)
        self.finish_turn()

    def drain(self) -> list[tuple[Connection, bytes]]:
        """Return the bytes to write for each connection. Connections that are `closing` must be closed afterwards.

        After the bytes are written, the caller must call finish_turn: a client whose output exceeded the limit can then
        receive more.
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
                connection.input_paused = False
                connection.resume_reading()
            for consumer in connection.consumers.values():
                dispatcher = consumer.subscription.dispatcher
                if dispatcher is not None:
                    dispatcher.add_permits(consumer, 0)

    def connection_closing(self, connection: Connection) -> None:
        """Release a closing connection at the end of this turn."""
        self._lost.append(connection)

    def reading_changed(self, connection: Connection) -> None:
        """Record that a connection's `reading` may have changed."""
        self._paused.append(connection)

    def take_reading_changes(self) -> list[Connection]:
        """Return the connections whose `reading` may have changed since the last call."""
        changed, self._paused = self._paused, []
        return changed

    # -- turns -----------------------------------------------------------------------------------------------------

    def begin_turn(self, now: int) -> None:
        """Start a turn at the given time."""
        deadline = self._timers.deadline
        if deadline is not None and deadline <= now:
            self.advance(now)
        elif now > self.now:
            self.now = self.turn_end = now

    def advance(self, now: int) -> None:
        """Run the due timers. While a timer runs, ``now`` is the time at which it was due."""
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
        """The time of the next timer, or None."""
        return self._timers.deadline

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Call a function after a delay of at least 1 ms. The minimum makes time advance in a chain of timers."""
        return self._timers.call_at(self.now + max(1, delay_ms), action)

    def call_at(self, due: int, action: Callable[[], None]) -> Timer:
        """Call a function at the time ``due``, but at least 1 ms from now."""
        return self._timers.call_at(max(due, self.now + 1), action)

    def schedule(self, runnable: Runnable) -> None:
        """Call an object's `run` at the end of this turn. The object is usually a dispatcher."""
        self._scheduled[runnable] = None

    def finish_turn(self) -> None:
        """Finish the turn: release closing connections and run scheduled objects until there are none."""
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
        """Record an exception caused by a bug."""
        self.failures.append(fault)
        if self.on_failure is not None:
            self.on_failure(fault, connection)

    # -- names and numbers -----------------------------------------------------------------------------------------

    def next_ledger_id(self) -> int:
        """Return the id of a new ledger. Ids increase across all topics."""
        return next(self._ledger_ids) if self.documents is None else self.documents.next_ledger_id()

    def next_producer_name(self) -> str:
        """Return a generated producer name, such as ``standalone-0-7``."""
        return f"{self.settings.clusterName}-{self.instance}-{next(self._names)}"

    # -- topics ----------------------------------------------------------------------------------------------------

    def check_owned(self, name: TopicName) -> None:
        """Raise Refused (ServiceNotReady) if the bundle of a topic was never looked up."""
        self.topic_registry.check_owned(name)

    def get_or_create(self, name: TopicName, *, create: bool = True, missing: str = "") -> Topic:
        """Return the topic for a producer or consumer. Create a missing topic if this is allowed.

        Raises Refused; ``missing`` is the message if the topic may not be created, as in the registry.
        """
        return self.topic_registry.get_or_create(name, create=create, missing=missing)

    def remove_topic(self, full_name: str) -> None:
        """Remove a non-persistent topic that was unloaded."""
        self.topics.pop(full_name, None)

    def policies_changed(self, name: str) -> None:
        """Apply changed policies of a namespace (``tenant/namespace``) or topic (the name without partition)."""
        if self.documents is not None:
            self.documents.policies.changed(name)
        of_topic = "://" in name
        find = self.topic_registry.loaded_with_base if of_topic else self.topic_registry.loaded_in_namespace
        for topic in find(name):
            # On a real broker, the policies of a non-persistent topic do not trigger a check of permissions.
            if self.authorization is not None and (topic.persistent or not of_topic):
                disconnect_unauthorized(topic, self.authorization)
            topic.policies_changed()
            self.monitors.policies_changed(topic)

    def settings_changed(self) -> None:
        """Apply changed settings to all topics."""
        self._set_rates()
        for namespace in self.policies.namespaces:
            self.policies_changed(namespace)

    def _set_rates(self) -> None:
        """Set the rate limits of the whole broker. An unchanged limit keeps its tokens."""
        settings = self.settings
        self.publish_throttle.update(
            settings.brokerPublisherThrottlingMaxMessageRate, settings.brokerPublisherThrottlingMaxByteRate
        )
        rates = settings.dispatchThrottlingRateInMsg, settings.dispatchThrottlingRateInByte
        limiter = RateLimiter(*rates, by_period=True)
        if self.dispatch_rate is None or self.dispatch_rate.terms != limiter.terms:
            self.dispatch_rate = limiter if limiter.limits else None

    def create_partitioned(self, name: TopicName, count: int) -> None:
        """Create a partitioned topic, or add partitions with the durable subscriptions of the first partition.

        Raises Refused (NotAllowedError) if the namespace would exceed its limit of topics.
        """
        existing = self.topic_registry.partitions(name)
        self.topic_registry.check_topic_limit(name, count - existing)
        self.topic_registry.set_partitions(name, count)
        first = self.topic_registry.load(name.with_partition(0)) if existing and name.persistent else None
        if first is not None:
            self._copy_subscriptions(first, [name.with_partition(index) for index in range(existing, count)])

    def _copy_subscriptions(self, source: Topic, names: list[TopicName]) -> None:
        """Create the durable subscriptions of a topic at the ends of other topics (PersistentTopicsBase)."""
        for topic in map(self.topic_registry.load, names):
            for one in source.subscriptions.values():
                if topic is not None and topic.ledger is not None and one.durable:
                    copy = topic.create_subscription(one.name, topic.ledger.next)
                    copy.properties, copy.replicated = dict(one.properties), one.replicated

    def unload(self, topic: Topic) -> None:
        """Close the clients and the ledger of a topic; stored entries remain."""
        topic.unload()

    def terminate(self, topic: Topic) -> tuple[int, int]:
        """Terminate a topic. Return the ledger id and entry id of the last entry."""
        return topic.terminate()

    def delete_topic(self, name: TopicName, *, force: bool = False) -> None:
        """Delete a topic or a partition.

        Raises Refused if it is missing, or if clients are connected and ``force`` is not set.
        """
        topic = self.topic_registry.load(name)
        if topic is None:
            raise Refused(pb.TopicNotFound, f"Topic {name} not found")
        topic.delete(force=force)
        self.topic_registry.forget(name)

    def close(self) -> None:
        """Notify all clients, as an unload of every topic does, and close their connections."""
        self.storage.close()
        for topic in list(self.topics.values()):
            topic.unload()
        for connection in list(self.connections):
            connection.close("the broker is stopping")
        self.finish_turn()


def _offer(settings: Settings) -> Offer:
    features = {*_FEATURES}
    if settings.enableBrokerTopicListWatcher and settings.enableBrokerSideSubscriptionPatternEvaluation:
        features.update(_WATCHING)
    if settings.scalableTopicsEnabled:
        features.add(_SCALABLE)
        if settings.transactionCoordinatorScalableTopicsEnabled:
            features.add(_SCALABLE_COORDINATORS)
    return Offer(
        server_version=f"Pulsar Server{settings.version.name}",
        max_message_size=settings.maxMessageSize,
        features=frozenset(features),
        expose_broker_entry=settings.exposingBrokerEntryMetadataToClientEnabled,
    )
