"""Defects of dispatchers: order, active consumers, draining slots, redelivery, delays."""

from __future__ import annotations

from typing import Any

from simulation.mutants.registry import mutant, nth

from pcli.minibroker.dispatch.delayed_delivery import InMemoryDelayedDeliveryTracker
from pcli.minibroker.dispatch.draining_hashes import DrainingHashesTracker
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.dispatch.redelivery_controller import MessageRedeliveryController
from pcli.minibroker.dispatch.single_active import PersistentDispatcherSingleActiveConsumer
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.topics.subscription import Subscription


@mutant(PersistentDispatcherSingleActiveConsumer, "_send")
def double_delivery(original: Any) -> Any:
    """Every 5th read of an Exclusive or Failover subscription is sent twice."""
    is_nth = nth(5)

    def send(self: Any, consumer: Any, entries: Any) -> None:
        original(self, consumer, entries)
        if is_nth():
            original(self, consumer, entries)

    return send


@mutant(PersistentDispatcherMultipleConsumers, "send")
def delivery_to_two_consumers(original: Any) -> Any:
    """Every 8th slice of a Shared or Key_Shared subscription remains in the queue of entries to redeliver."""
    is_nth = nth(8)

    def send(self: Any, consumer: Any, entries: Any, *, replay: bool) -> Any:
        sent = original(self, consumer, entries, replay=replay)
        if is_nth():
            for entry in sent:
                self.replay.add(entry.offset)
        return sent

    return send


@mutant(PersistentDispatcherSingleActiveConsumer, "_send")
def skipped_entry(original: Any) -> Any:
    """The last entry of every 5th read of several entries is not sent."""
    is_nth = nth(5)

    def send(self: Any, consumer: Any, entries: Any) -> None:
        original(self, consumer, entries[:-1] if len(entries) > 1 and is_nth() else entries)

    return send


@mutant(ManagedCursor, "rewind")
def no_rewind(original: Any) -> Any:
    """A new active consumer continues where the previous one stopped."""

    def rewind(self: Any) -> None:
        pass

    return rewind


@mutant(PersistentDispatcherSingleActiveConsumer, "run")
def standby_receives(original: Any) -> Any:
    """The last consumer of a Failover subscription receives the entries instead of the active one."""

    def run(self: Any) -> None:
        active = self._active
        if self.failover and self._activated and len(self.consumers) > 1:
            self._active = self.consumers[-1]
        original(self)
        self._active = active

    return run


@mutant(Subscription, "blocking_consumer")
def second_exclusive_consumer(original: Any) -> Any:
    """An Exclusive subscription accepts a second consumer."""

    def blocking_consumer(self: Any, kind: int, meta: Any) -> Any:
        pass

    return blocking_consumer


@mutant(DrainingHashesTracker, "blocks")
def draining_ignored(original: Any) -> Any:
    """An entry of a draining slot is sent although the previous consumer has entries of the slot."""

    def blocks(self: Any, slot: int, consumer: Any) -> bool:
        original(self, slot, consumer)
        return False

    return blocks


@mutant(DrainingHashesTracker, "entry_released")
def draining_never_ends(original: Any) -> Any:
    """A slot remains draining although its last entry was acknowledged."""

    def entry_released(self: Any, slot: int, consumer: Any) -> bool:
        return False

    return entry_released


@mutant(MessageRedeliveryController, "holds")
def waiting_entry_overtaken(original: Any) -> Any:
    """On Key_Shared, a new entry is sent although an entry of its slot waits."""

    def holds(self: Any, slot: int) -> bool:
        return False

    return holds


@mutant(MessageRedeliveryController, "count")
def lost_redelivery_count(original: Any) -> Any:
    """Redelivery counts are not increased."""

    def count(self: Any, offsets: Any) -> None:
        pass

    return count


@mutant(MessageRedeliveryController, "count")
def redelivery_count_restarts(original: Any) -> Any:
    """The redelivery count is 1 after every redelivery."""

    def count(self: Any, offsets: Any) -> None:
        offsets = list(offsets)
        original(self, offsets)
        self.counts.update(dict.fromkeys(offsets, 1))

    return count


@mutant(PersistentDispatcherMultipleConsumers, "remove")
def pending_entries_lost(original: Any) -> Any:
    """The pending entries of a consumer that leaves are not sent to the others."""

    def remove(self: Any, consumer: Any) -> None:
        consumer.pending.clear()
        original(self, consumer)

    return remove


@mutant(InMemoryDelayedDeliveryTracker, "add")
def delay_ignored(original: Any) -> Any:
    """Messages with a delivery time are sent at once."""

    def add(self: Any, offset: int, deliver_at: int, now: int) -> bool:
        return False

    return add


@mutant(PersistentDispatcherMultipleConsumers, "_set_delay_timer")
def delayed_message_forgotten(original: Any) -> Any:
    """No timer is set for messages with a delivery time."""

    def set_delay_timer(self: Any) -> None:
        pass

    return set_delay_timer
