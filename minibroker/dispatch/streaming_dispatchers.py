"""PersistentStreamingDispatcherSingleActiveConsumer and …MultipleConsumers: the read pipeline of 2.8 to 3.0.

Chosen by ``streamingDispatch``. Entries are handed on one by one as they are read, instead of in batches. The one
difference that a client sees: Shared deals single entries in turn, not slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.dispatch.single_active import PersistentDispatcherSingleActiveConsumer

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry

__all__ = ["PersistentStreamingDispatcherMultipleConsumers", "PersistentStreamingDispatcherSingleActiveConsumer"]


class PersistentStreamingDispatcherSingleActiveConsumer(PersistentDispatcherSingleActiveConsumer):
    """The Streaming kind of Exclusive and Failover."""

    def read(self, count: int) -> list[Entry]:
        """One entry."""
        return super().read(1)


class PersistentStreamingDispatcherMultipleConsumers(PersistentDispatcherMultipleConsumers):
    """The Streaming kind of Shared."""

    def read(self, count: int) -> list[Entry]:
        """One entry."""
        return super().read(1)

    def replay_offsets(self, size: int) -> list[int]:
        """One of those that wait."""
        return super().replay_offsets(1)
