"""The dispatchers of earlier versions of Pulsar, which settings select.

PersistentDispatcherMultipleConsumersClassic is the dispatcher for Shared before Pulsar 4.0. The setting
``subscriptionSharedUseClassicPersistentImplementation`` selects it. The size of a slice is rounded down instead of up.
(Pulsar's class also sends to consumers whose socket is not writable. This class skips them, to limit the memory that
they use.)

PersistentStickyKeyDispatcherMultipleConsumersClassic is that for Key_Shared, without draining hashes. The setting
``subscriptionKeySharedUseClassicPersistentImplementation`` selects it. A consumer that joins while other consumers have
pending entries is *recently joined*: it receives only entries that were read before it joined, until all of them are
acknowledged. Entries of all keys wait for these acknowledgements; with draining hashes only entries of the affected
keys wait. The ring has the size of an int, so keys are mapped to different consumers.

PersistentStreamingDispatcherSingleActiveConsumer and …MultipleConsumers are those of Pulsar 2.8 to 3.0. The setting
``streamingDispatch`` selects them. Each entry is dispatched as soon as it is read, not in a batch. The only visible
difference is that consumers of Shared subscriptions receive single entries in turn, not slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.consumer_selectors import INT_RANGE, ConsistentHashing, ConsumerSelector
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.dispatch.single_active import PersistentDispatcherSingleActiveConsumer
from pcli.minibroker.dispatch.sticky_key import PersistentStickyKeyDispatcherMultipleConsumers, make_selector

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription


class PersistentDispatcherMultipleConsumersClassic(PersistentDispatcherMultipleConsumers):
    """The classic dispatcher for Shared subscriptions."""

    def slice_size(self, consumer: Consumer, messages: int, average: float) -> int:
        """Return the number of entries in one slice, rounded down."""
        possible = min(
            messages, consumer.permits, self.settings.dispatcherMaxRoundRobinBatchSize, consumer.unacked_room()
        )
        return max(1, int(possible // average))


class PersistentStickyKeyDispatcherMultipleConsumersClassic(PersistentStickyKeyDispatcherMultipleConsumers):
    """The classic dispatcher for Key_Shared subscriptions."""

    def __init__(self, subscription: Subscription, meta: pb.KeySharedMeta | None) -> None:
        super().__init__(subscription, meta)
        self.recently_joined: dict[Consumer, int] = {}
        """Recently joined consumers, in order of joining, and the read position when each one joined."""

    def create_selector(self, meta: pb.KeySharedMeta | None) -> ConsumerSelector:
        """Return the selector; the ring has the size of an int."""
        selector = make_selector(meta, self.settings)
        if isinstance(selector, ConsistentHashing):
            return ConsistentHashing(self.settings.subscriptionKeySharedConsistentHashingReplicaPoints, INT_RANGE)
        return selector

    @property
    def drains_hashes(self) -> bool:
        """False, because this dispatcher does not drain hashes."""
        return False

    def add(self, consumer: Consumer) -> None:
        """Add a consumer. It is recently joined if more than one entry was read after the mark-delete position."""
        unacked = self.cursor.read_position - self.cursor.mark_delete - 1
        late = bool(self.consumers) and unacked > 1 and not self.out_of_order
        super().add(consumer)
        if late:
            self.recently_joined[consumer] = self.cursor.read_position

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer. If only one consumer remains, it is no longer recently joined."""
        super().remove(consumer)
        self.recently_joined.pop(consumer, None)
        if len(self.consumers) <= 1:
            self.recently_joined.clear()

    def run(self) -> None:
        """Release the recently joined consumers whose wait is over, then read and send."""
        while self.recently_joined:
            consumer, position = next(iter(self.recently_joined.items()))
            if self.cursor.mark_delete + 1 < position:
                break
            del self.recently_joined[consumer]
        super().run()

    def entry_acknowledged(self, offset: int) -> None:
        """Remove an acknowledged entry. Recently joined consumers may be released."""
        super().entry_acknowledged(offset)
        if self.recently_joined:
            self._replay_blocked = False
            self.broker.schedule(self)

    def can_replay(self, offset: int, slot: int) -> bool:
        """Return whether a waiting entry may be sent to its consumer now."""
        return self._can_receive(offset, replay=True)

    def dispatch(self, entries: list[Entry], *, replay: bool = False) -> bool:
        """Distribute entries. Entries that a recently joined consumer may not receive yet wait."""
        if not self.recently_joined:
            return super().dispatch(entries, replay=replay)
        free = []
        for entry in entries:
            if self._can_receive(entry.offset, replay=replay, key_hash=entry.hash):
                free.append(entry)
            else:
                self.replay.add(entry.offset, self.selector.slot(entry.hash))
        return super().dispatch(free, replay=replay) if free else False

    def _can_receive(self, offset: int, *, replay: bool, key_hash: int = -1) -> bool:
        """Return whether the consumer of the key may receive an entry.

        A recently joined consumer may receive only entries read before it joined.
        """
        slot = self.replay.waiting.get(offset, 0) if key_hash < 0 else self.selector.slot(key_hash)
        owner = self.selector.select(slot) if slot else None
        if owner is None or owner not in self.recently_joined:
            return True
        bound = min(self.recently_joined.values()) if replay else self.recently_joined[owner]
        return offset < bound


class PersistentStreamingDispatcherSingleActiveConsumer(PersistentDispatcherSingleActiveConsumer):
    """The streaming dispatcher for Exclusive and Failover subscriptions."""

    def read(self, count: int) -> list[Entry]:
        """Read one entry."""
        return super().read(1)


class PersistentStreamingDispatcherMultipleConsumers(PersistentDispatcherMultipleConsumers):
    """The streaming dispatcher for Shared subscriptions."""

    def read(self, count: int) -> list[Entry]:
        """Read one entry."""
        return super().read(1)

    def replay_offsets(self, size: int) -> list[int]:
        """Return one offset to redeliver."""
        return super().replay_offsets(1)
