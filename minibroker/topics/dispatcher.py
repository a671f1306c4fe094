"""The interfaces of dispatchers, and the code that all dispatchers of persistent topics share.

A dispatcher selects the consumer of each entry. It never waits: `run` does the work that is possible now and returns.
New permits, entries, acknowledgements and consumers schedule it again with ``broker.schedule``, and timers do the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from pcli.codec.proto import pb

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

    DispatcherFactory: TypeAlias = Callable[[Subscription, int, pb.KeySharedMeta | None], "Dispatcher"]

_plain = attrgetter("plain")


EXCLUSIVE, SHARED = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared
FAILOVER, KEY_SHARED = pb.CommandSubscribe.Failover, pb.CommandSubscribe.Key_Shared

NO_COUNTS: Mapping[int, int] = {}


class Dispatcher(ABC):
    """The dispatcher of one subscription (interface Dispatcher)."""

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
        """The active consumer, if only one consumer receives messages."""
        return None

    @abstractmethod
    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""

    @abstractmethod
    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer that was closed or disconnected."""

    def run(self) -> None:  # noqa: B027  (on non-persistent topics there is nothing to do)
        """Do the work that is possible now. On non-persistent topics this does nothing."""

    def publish(self, entry: Entry) -> None:  # noqa: B027
        """Deliver a new entry of a non-persistent topic, or drop it."""

    def add_permits(self, consumer: Consumer, permits: int) -> None:  # noqa: B027
        """Record that a consumer has more permits."""

    def redeliver(self, consumer: Consumer, offsets: list[int] | None, epoch: int) -> None:  # noqa: B027
        """Redeliver entries, or all pending entries if ``offsets`` is None. An ``epoch`` of -1 means no epoch."""

    def overlapping_consumer(self, meta: pb.KeySharedMeta) -> Consumer | None:
        """Return a consumer whose declared ranges overlap the ranges in ``meta``, or None."""
        return None

    def accepts_mode(self, meta: pb.KeySharedMeta | None) -> bool:
        """Return whether this dispatcher, if it has no consumers, can serve a consumer with this Key_Shared mode."""
        return True


class PersistentDispatcher(Dispatcher):
    """A dispatcher with a cursor."""

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        assert subscription.cursor is not None
        self.cursor = subscription.cursor
        assert subscription.topic.ledger is not None
        self.ledger = subscription.topic.ledger
        self.transactional = subscription.used_by_transactions
        """Whether a transaction has used the topic or the subscription. If False, no entry is checked for them."""
        self.pending_read_at_end = False
        """Whether a read that was pending when the topic was terminated prevents other reads."""

    def entries_available(self) -> None:
        """Record that the topic has more entries."""
        self.broker.schedule(self)

    def pending_ack_removed(self, consumer: Consumer, offset: int) -> None:
        """Record that a consumer's pending ack was removed."""

    def entry_acknowledged(self, offset: int) -> None:
        """Record that an ACK contained an entry, which is acknowledged unless the ACK had no effect on it."""

    def decrease_unacked(self, messages: int) -> None:
        """Decrease the number of unacknowledged messages of the subscription."""

    def check_ack_state(self, *, pause: bool = True) -> None:
        """Pause or resume, depending on whether all ranges of acknowledged entries can be stored.

        If ``pause`` is False, only resume.
        """

    def cursor_moved(self) -> None:
        """Record that a SEEK, a skip or an expiry moved the cursor."""
        self.broker.schedule(self)

    def read_size(self, permits: int, average: float) -> int:
        """Return the number of entries to read.

        If precise flow control is enabled, the result is the number of permits divided by the average batch size.
        Otherwise it is the number of permits.
        """
        if self.settings.preciseDispatcherFlowControl:
            permits = -(-permits // max(1, int(average + 0.5)))
        return max(1, min(permits, self.settings.dispatcherMaxReadBatchSize))

    def read(self, count: int) -> list[Entry]:
        """Read the next entries; the streaming dispatchers read them one by one."""
        if self.transactional and self.topic.transaction_buffer is not None:
            end = self.topic.transaction_buffer.read_end
            return self.cursor.read_before(end, count, self.settings.dispatcherMaxReadSizeBytes)
        return self.cursor.read(count, self.settings.dispatcherMaxReadSizeBytes)

    def check_end_of_topic(self) -> None:
        """Send REACHED_END_OF_TOPIC after the first empty read of a terminated topic.

        A real cursor keeps this read registered, and refuses later ones (ManagedCursorImpl.asyncReadEntriesOrWait). A
        read that ends before an open transaction is not at the end.
        """
        cursor = self.cursor
        if cursor.waits_at_end or self.pending_read_at_end or not self.ledger.terminated or cursor.has_more:
            return
        self.cursor.waits_at_end = True
        if self.subscription.backlog == 0:
            self.subscription.send_reached_end_of_topic()

    def track_delayed(self, entry: Entry) -> bool:
        """Keep an entry that is not due yet. Return whether it was kept."""
        return False

    def filter_entries(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries to deliver (AbstractBaseDispatcher.filterEntriesForConsumer).

        Unreadable entries, markers and messages of aborted transactions are acknowledged here; the tracker keeps
        delayed entries. Entries in pending acknowledgements are dropped until their transaction is aborted.
        """
        if self.transactional:
            entries = self._drop_aborted(entries)
        if all(map(_plain, entries)):
            return self._drop_pending(entries) if self.transactional else entries
        kept = []
        for entry in entries:
            if entry.broken or entry.marker:
                self.subscription.acknowledge_silently(entry.offset)
            elif not (entry.deliver_at and self.track_delayed(entry)):
                kept.append(entry)
        return self._drop_pending(kept) if self.transactional else kept

    def _drop_aborted(self, entries: list[Entry]) -> list[Entry]:
        """Acknowledge the messages of aborted transactions. Return the other entries."""
        buffer = self.topic.transaction_buffer
        if buffer is None or not buffer.aborted:
            return entries
        kept, aborted = buffer.without_aborted(entries)
        for entry in aborted:
            self.subscription.acknowledge_silently(entry.offset)
        return kept

    def _drop_pending(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries without those in pending acknowledgements."""
        handle = self.subscription.pending_ack_handle
        return entries if handle is None else handle.visible(entries, self.cursor.ack_sets)

    def ack_sets(self, entries: list[Entry]) -> Mapping[int, int]:
        """Return the ack sets with which entries are delivered, by offset, if `transactional` is set."""
        handle, ack_sets = self.subscription.pending_ack_handle, self.cursor.ack_sets
        return ack_sets if handle is None else handle.visible_ack_sets(entries, ack_sets)

    def redeliver_aborted(self, offsets: list[int]) -> None:
        """Redeliver entries that an aborted transaction has acknowledged."""


# -- conflicts of consumers (AbstractSubscription) ---------------------------------------------------------------------


def conflict(active: int, kind: int, active_meta: pb.KeySharedMeta | None, meta: pb.KeySharedMeta | None) -> str:
    """Return why a consumer with the type ``kind`` conflicts with attached ones, or an empty string if it does not."""
    why = _difference("type", pb.CommandSubscribe.SubType.Name, active, kind)
    return _difference_of_meta(active_meta, meta) if not why and kind == KEY_SHARED else why


def _difference(what: str, name: Callable[[Any], str], active: int, new: int) -> str:
    if active == new:
        return ""
    return (
        f"Active subscription {what} of '{name(active)}' is different than "
        f"the connecting consumer's {what} '{name(new)}'."
    )


def _difference_of_meta(active: pb.KeySharedMeta | None, new: pb.KeySharedMeta | None) -> str:
    active, new = active or pb.KeySharedMeta(), new or pb.KeySharedMeta()
    why = _difference("key_shared mode", pb.KeySharedMode.Name, active.keySharedMode, new.keySharedMode)
    if not why and active.entry_bucket_dispatch != new.entry_bucket_dispatch:
        does, other = ("dispatches", "does not") if active.entry_bucket_dispatch else ("does not dispatch", "does")
        return f"Active subscription {does} by entry-bucket while the connecting consumer {other}."
    if why or active.allowOutOfOrderDelivery == new.allowOutOfOrderDelivery:
        return why
    does, other = ("allows", "does not allow") if active.allowOutOfOrderDelivery else ("does not allow", "allows")
    return f"Active subscription {does} out of order delivery while the connecting consumer {other} it."
