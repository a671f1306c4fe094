"""PersistentDispatcherMultipleConsumersClassic: the dispatcher for Shared before Pulsar 4.0.

The setting ``subscriptionSharedUseClassicPersistentImplementation`` selects it. The size of a slice is rounded down
instead of up. (Pulsar's class also sends to consumers whose socket is not writable. This class skips them, to limit the
memory that they use.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer

__all__ = ["PersistentDispatcherMultipleConsumersClassic"]


class PersistentDispatcherMultipleConsumersClassic(PersistentDispatcherMultipleConsumers):
    """The classic dispatcher for Shared subscriptions."""

    def slice_size(self, consumer: Consumer, messages: int, average: float) -> int:
        """Return the number of entries in one slice, rounded down."""
        possible = min(
            messages, consumer.permits, self.settings.dispatcherMaxRoundRobinBatchSize, consumer.unacked_room()
        )
        return max(1, int(possible // average))
