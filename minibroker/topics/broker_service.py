"""BrokerService: the interface of the broker that topics, subscriptions and dispatchers use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pcli.minibroker.scheduler import HashedWheelTimer, Scheduler

if TYPE_CHECKING:
    from pcli.minibroker.policies.policy_store import Policies
    from pcli.minibroker.schema.registry import SchemaRegistry
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.storage.broker_storage import BrokerStorage
    from pcli.minibroker.storage.ledger import EntryCache
    from pcli.minibroker.storage.spilling_storage import Pool
    from pcli.minibroker.topics.rate_limiters import PublishThrottle, RateLimiter, ResourceGroupThrottles
    from pcli.minibroker.topics.topic_list_watchers import TopicListWatchers
    from pcli.minibroker.topics.unacked_message_limit import UnackedMessageLimit
    from pcli.minibroker.transactions.scalable_transactions import ScalableTransactions
    from pcli.minibroker.versions import Version


@dataclass(frozen=True, slots=True)
class Rate:
    """The rates of one producer, consumer or subscription, each per second."""

    messages_in: float = 0.0
    bytes_in: float = 0.0
    messages_out: float = 0.0
    bytes_out: float = 0.0
    redelivered: float = 0.0
    """Redelivered messages."""
    acked: float = 0.0
    """Acknowledged messages."""
    dropped: float = 0.0
    """Messages dropped because no consumer had permits; only for subscriptions of non-persistent topics."""
    expired: float = 0.0
    """Expired messages; only for subscriptions of persistent topics."""


class StorageRate(NamedTuple):
    """The entries of one topic in the last interval of 60 s (ManagedLedgerMBeanImpl)."""

    written: int = 0
    """Number of entries written."""
    writes: float = 0.0
    """Entries written per second."""
    reads: float = 0.0
    """Entries read per second."""


class ClientRates(Protocol):
    """The measured rates of all clients (implemented by `stats.rates.Rates`)."""

    def of(self, client: object) -> Rate:
        """Return the rates of a producer, a consumer or a subscription."""

    def of_storage(self, topic: object) -> StorageRate:
        """Return the rates of the storage of a topic."""


class BrokerService(Scheduler, Protocol):
    """The state of a broker that all its topics share (class BrokerService; implemented by `broker.Broker`)."""

    settings: Settings
    version: Version
    """The version of Pulsar that the broker reproduces."""
    policies: Policies
    schemas: SchemaRegistry
    watchers: TopicListWatchers
    pool: Pool
    storage: BrokerStorage
    cache: EntryCache
    scalable_transactions: ScalableTransactions
    publish_throttle: PublishThrottle
    """The publish rate limit of the whole broker, or None."""
    resource_group_throttles: ResourceGroupThrottles
    dispatch_rate: RateLimiter | None
    """The dispatch rate limit of the whole broker, or None."""
    unacked_message_limit: UnackedMessageLimit | None
    """The limit on unacknowledged messages of the whole broker, or None."""
    delayed_delivery_timer: HashedWheelTimer
    """The ticks at which the timers of delayed delivery expire."""

    @property
    def address(self) -> str:
        """Host and port of the REST API, which identify the broker (brokerId)."""

    @property
    def rates(self) -> ClientRates:
        """The rates of producers, consumers and subscriptions."""

    def next_ledger_id(self) -> int:
        """Return the id of a new ledger; ids increase across all topics."""

    def remove_topic(self, full_name: str) -> None:
        """Remove a non-persistent topic that was unloaded."""
