"""PersistentStreamingDispatcherSingleActiveConsumer and …MultipleConsumers: the streaming read of Pulsar 2.8 to 3.0.

The setting ``streamingDispatch`` selects them. Each entry is dispatched as soon as it is read, not in a batch. The only
visible difference is that consumers of Shared subscriptions receive single entries in turn, not slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.dispatch.single_active import PersistentDispatcherSingleActiveConsumer

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry

__all__ = ["PersistentStreamingDispatcherMultipleConsumers", "PersistentStreamingDispatcherSingleActiveConsumer"]


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
