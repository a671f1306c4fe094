"""PersistentStickyKeyDispatcherMultipleConsumersClassic: Key_Shared as it was before 4.0, without draining slots.

Chosen by ``subscriptionKeySharedUseClassicPersistentImplementation``. A consumer that joins while others hold
something is *recently joined*: until all that was read before it came is acknowledged, it gets only entries from
before. So a newcomer waits for everybody, where the present kind waits for the keys concerned. The ring is as wide
as an int, so keys belong to other consumers than with the present kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.consumer_selectors import INT_RANGE, ConsistentHashing, ConsumerSelector
from pcli.minibroker.dispatch.sticky_key import PersistentStickyKeyDispatcherMultipleConsumers, make_selector

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["PersistentStickyKeyDispatcherMultipleConsumersClassic"]


class PersistentStickyKeyDispatcherMultipleConsumersClassic(PersistentStickyKeyDispatcherMultipleConsumers):
    """The Classic kind of Key_Shared."""

    def __init__(self, subscription: Subscription, meta: pb.KeySharedMeta | None) -> None:
        super().__init__(subscription, meta)
        self.recently_joined: dict[Consumer, int] = {}
        """Who joined late, with the read position of that moment, in order of joining."""

    def create_selector(self, meta: pb.KeySharedMeta | None) -> ConsumerSelector:
        """The same selectors, but the ring is as wide as an int."""
        selector = make_selector(meta, self.settings)
        if isinstance(selector, ConsistentHashing):
            return ConsistentHashing(self.settings.subscriptionKeySharedConsistentHashingReplicaPoints, INT_RANGE)
        return selector

    @property
    def drains_hashes(self) -> bool:
        """Nothing drains here."""
        return False

    def add(self, consumer: Consumer) -> None:
        """Join; with others there and more than one entry unacknowledged, as recently joined."""
        unacked = self.cursor.read_position - self.cursor.mark_delete - 1
        late = bool(self.consumers) and unacked > 1 and not self.out_of_order
        super().add(consumer)
        if late:
            self.recently_joined[consumer] = self.cursor.read_position

    def remove(self, consumer: Consumer) -> None:
        """Leave; with one left there is nobody to wait for."""
        super().remove(consumer)
        self.recently_joined.pop(consumer, None)
        if len(self.consumers) <= 1:
            self.recently_joined.clear()

    def run(self) -> None:
        """Read and send, once those who joined long enough ago are like all others."""
        while self.recently_joined:
            consumer, position = next(iter(self.recently_joined.items()))
            if self.cursor.mark_delete + 1 < position:
                break
            del self.recently_joined[consumer]
        super().run()

    def entry_acknowledged(self, offset: int) -> None:
        """An acknowledgement may end the waiting of those who joined late."""
        super().entry_acknowledged(offset)
        if self.recently_joined:
            self._replay_blocked = False
            self.broker.schedule(self)

    def can_replay(self, offset: int, slot: int) -> bool:
        """Nothing that somebody who joined late may not have yet."""
        return self._can_receive(offset, replay=True)

    def dispatch(self, entries: list[Entry], *, replay: bool = False) -> bool:
        """Hold back what goes to those who joined late, and what is behind it."""
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
        """Whether an entry may go to the owner of its key: to a late one only what was read before it came."""
        slot = self.replay.waiting.get(offset, 0) if key_hash < 0 else self.selector.slot(key_hash)
        owner = self.selector.select(slot) if slot else None
        if owner is None or owner not in self.recently_joined:
            return True
        bound = min(self.recently_joined.values()) if replay else self.recently_joined[owner]
        return offset < bound
