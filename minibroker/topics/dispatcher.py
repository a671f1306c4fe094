"""What all dispatchers of persistent topics share: the state of a subscription's delivery, and the filter.

A dispatcher decides which consumer gets which entry. It never waits: `run` does what can be done now and returns;
permits, entries, acknowledgements, consumers and timers call it again through ``broker.schedule``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from pcli.codec.proto import pb

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

    DispatcherFactory: TypeAlias = Callable[[Subscription, int, pb.KeySharedMeta | None], "Dispatcher"]

__all__ = ["EXCLUSIVE", "FAILOVER", "KEY_SHARED", "NO_COUNTS", "SHARED", "Dispatcher", "PersistentDispatcher"]

EXCLUSIVE, SHARED = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared
FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared

NO_COUNTS: Mapping[int, int] = {}


class Dispatcher(ABC):
    """The delivery of one subscription (interface Dispatcher)."""

    individual: ClassVar[bool] = False
    """Whether single entries are acknowledged, redelivered and counted (Subscription.isIndividualAckMode)."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.topic = subscription.topic
        self.broker = subscription.topic.broker
        self.settings = subscription.topic.broker.settings
        self.consumers: list[Consumer] = []

    @property
    def active(self) -> Consumer | None:
        """The one that gets the messages, where only one does."""
        return None

    @abstractmethod
    def add(self, consumer: Consumer) -> None:
        """A consumer joins."""

    @abstractmethod
    def remove(self, consumer: Consumer) -> None:
        """A consumer has left: closed, disconnected, or its connection is gone."""

    def run(self) -> None:  # noqa: B027  (on non-persistent topics there is nothing to do)
        """Do what can be done now; a dispatcher that keeps nothing has nothing to do."""

    def publish(self, entry: Entry) -> None:  # noqa: B027
        """Deliver a new entry of a non-persistent topic, or drop it."""

    def add_permits(self, consumer: Consumer, permits: int) -> None:  # noqa: B027
        """A consumer has more permits."""

    def redeliver(self, consumer: Consumer, offsets: list[int] | None, epoch: int) -> None:  # noqa: B027
        """REDELIVER_UNACKNOWLEDGED_MESSAGES; None: all that it holds. ``epoch`` -1: none given."""

    def overlapping_consumer(self, meta: pb.KeySharedMeta) -> Consumer | None:
        """The consumer whose declared ranges overlap these."""
        return None

    def accepts_mode(self, meta: pb.KeySharedMeta | None) -> bool:
        """Whether this dispatcher, without consumers, serves a consumer that asks for this kind of Key_Shared."""
        return True


class PersistentDispatcher(Dispatcher):
    """A dispatcher with a cursor."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        assert subscription.cursor is not None
        self.cursor = subscription.cursor
        assert subscription.topic.ledger is not None
        self.ledger = subscription.topic.ledger
        self.end_of_topic_sent = False
        """Whether the consumers that are there know that the topic ends here."""

    def entries_available(self) -> None:
        """The topic has more entries."""
        self.broker.schedule(self)

    def pending_ack_removed(self, consumer: Consumer, offset: int) -> None:
        """Something that was pending at a consumer is acknowledged."""

    def entry_acknowledged(self, offset: int) -> None:
        """An entry is acknowledged for good: whatever is remembered of it goes."""

    def decrease_unacked(self, messages: int) -> None:
        """So many messages are not unacknowledged any more."""

    def cursor_moved(self) -> None:
        """The cursor was set to another place: by SEEK, skip, expiry."""
        self.broker.schedule(self)

    def read_size(self, permits: int, average: float) -> int:
        """Entries of one read: as many as there are permits, or, to be precise, as they make by the average."""
        if self.settings.preciseDispatcherFlowControl:
            permits = -(-permits // max(1, int(average + 0.5)))
        return max(1, min(permits, self.settings.dispatcherMaxReadBatchSize))

    def read(self, count: int) -> list[Entry]:
        """The next entries; the streaming kinds read them one by one."""
        return self.cursor.read(count, self.settings.dispatcherMaxReadSizeBytes)

    def check_end_of_topic(self) -> None:
        """A read that found nothing more: if the topic is terminated, its consumers are told once."""
        if self.ledger.terminated and not self.end_of_topic_sent and self.subscription.backlog == 0:
            self.end_of_topic_sent = True
            self.subscription.send_reached_end_of_topic()

    def track_delayed(self, entry: Entry) -> bool:
        """Keep an entry that is not due yet; whether it was kept."""
        return False

    def filter_entries(self, entries: list[Entry]) -> list[Entry]:
        """Those that go to a consumer (AbstractBaseDispatcher.filterEntriesForConsumer).

        Entries that cannot be read and markers are acknowledged here, delayed ones are kept by the tracker.
        """
        kept = []
        for entry in entries:
            if entry.broken or entry.marker:
                self.subscription.acknowledge_silently(entry.offset)
            elif not (entry.deliver_at and self.track_delayed(entry)):
                kept.append(entry)
        return kept
