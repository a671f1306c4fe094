"""DispatchRateLimiter: the number of entries that a dispatcher may read under its dispatch rates.

The limits of the broker, the topic and the subscription apply together. They are charged after messages are sent: per
message or, if ``dispatchThrottlingOnBatchMessageEnabled`` is set, per entry. If no tokens are left, the dispatcher
retries after one second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pcli.minibroker.scheduler import Runnable
from pcli.minibroker.storage.backlog_size import entries_of_size
from pcli.minibroker.topics.rate_limiters import RateLimiter

if TYPE_CHECKING:
    from pcli.minibroker.storage.cursor import ManagedCursor
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.broker_service import BrokerService

__all__ = ["DispatchRateLimiter"]

_BACK_OFF_MS: Final = 1000
"""Delay in ms before a dispatcher without tokens retries (MESSAGE_RATE_BACKOFF_MS)."""


class _Reader(Runnable, Protocol):
    """A dispatcher that reads entries."""

    cursor: ManagedCursor
    ledger: ManagedLedger


class DispatchRateLimiter:
    """The dispatch rate limits of one subscription."""

    __slots__ = ("_broker", "_limiters", "_waiting")

    def __init__(self, broker: BrokerService, limiters: list[RateLimiter]) -> None:
        self._broker = broker
        self._limiters = limiters
        self._waiting = False

    def entries(self, dispatcher: _Reader, wanted: int) -> int:
        """Return the number of entries that may be read. If the result is 0, the dispatcher is scheduled for later."""
        broker = self._broker
        for limiter in self._limiters:
            messages, size = limiter.available(broker.now)
            wanted = min(wanted, messages) if size > 0 else 0
            if limiter.size is not None and wanted:
                wanted = min(wanted, entries_of_size(dispatcher.ledger, dispatcher.cursor.read_position, size))
        if wanted <= 0 and not self._waiting:
            self._waiting = True
            broker.call_later(_BACK_OFF_MS, lambda: self._retry(dispatcher))
        return max(0, wanted)

    def _retry(self, dispatcher: Runnable) -> None:
        self._waiting = False
        self._broker.schedule(dispatcher)

    def charge(self, messages: int, entries: list[Entry]) -> None:
        """Charge the sent messages to all limits."""
        broker = self._broker
        count = len(entries) if broker.settings.dispatchThrottlingOnBatchMessageEnabled else messages
        size = sum(len(entry.data) for entry in entries)
        for limiter in self._limiters:
            limiter.charge(count, size, broker.now)
