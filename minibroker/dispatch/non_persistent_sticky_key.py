"""NonPersistentStickyKeyDispatcherMultipleConsumers: Key_Shared on non-persistent topics, without draining hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.non_persistent import NonPersistentDispatcher
from pcli.minibroker.dispatch.sticky_key import is_sticky, make_selector, overlapping_consumer_in

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Subscription

__all__ = ["NonPersistentStickyKeyDispatcherMultipleConsumers"]


class NonPersistentStickyKeyDispatcherMultipleConsumers(NonPersistentDispatcher):
    """The dispatcher that selects the consumer by the key of the entry."""

    def __init__(self, subscription: Subscription, meta: pb.KeySharedMeta | None) -> None:
        super().__init__(subscription)
        self.sticky = is_sticky(meta)
        self.selector = make_selector(meta, self.settings)

    def overlapping_consumer(self, meta: pb.KeySharedMeta) -> Consumer | None:
        """Return a consumer whose declared ranges overlap the ranges in ``meta``, or None."""
        return overlapping_consumer_in(self.selector, meta)

    def accepts_mode(self, meta: pb.KeySharedMeta | None) -> bool:
        """Return whether the mode is the same as the first consumer's mode."""
        return is_sticky(meta) == self.sticky

    def add(self, consumer: Consumer) -> None:
        """Add a consumer and assign its slots."""
        self.selector.add(consumer)
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.selector.remove(consumer)
        self.consumers.remove(consumer)

    def select_consumer(self, entry: Entry) -> Consumer | None:
        """Return the consumer of the key if it is available, or else None."""
        consumer = self.selector.select(self.selector.slot(entry.hash))
        return consumer if consumer is not None and consumer.available else None
