"""PersistentDispatcherMultipleConsumersClassic: Shared as it was before 4.0.

Chosen by ``subscriptionSharedUseClassicPersistentImplementation``. A slice is rounded down instead of up. (There a
consumer whose socket takes nothing at the moment was not passed over; here it is, because its memory is bounded.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer

__all__ = ["PersistentDispatcherMultipleConsumersClassic"]


class PersistentDispatcherMultipleConsumersClassic(PersistentDispatcherMultipleConsumers):
    """The Classic kind of Shared."""

    def slice_size(self, consumer: Consumer, messages: int, average: float) -> int:
        """Entries of one turn, rounded down."""
        possible = min(
            messages, consumer.permits, self.settings.dispatcherMaxRoundRobinBatchSize, consumer.unacked_room()
        )
        return max(1, int(possible // average))
