"""The limit on unacknowledged messages of the whole broker (BrokerService.checkUnAckMessageDispatching).

Rules of this file
1. The sum of all Shared and Key_Shared subscriptions is compared with maxUnackedMessagesPerBroker every 30 s, for the
   first time 10 min after the start. At the limit, each large subscription is blocked: its unacknowledged messages
   exceed a share of the limit (maxUnackedMessagesPerSubscriptionOnBrokerBlocked).
2. While the broker is over the limit, a subscription that becomes large is blocked at once, and one that falls below
   half of the share is unblocked. Below half of the limit, a check unblocks all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from pcli.minibroker.scheduler import Scheduler

_FIRST_CHECK: Final = 600_000
_INTERVAL: Final = 30_000


class _Dispatcher(Protocol):
    """A dispatcher of a Shared or Key_Shared subscription."""

    total_unacked: int
    blocked: bool

    def unblock(self) -> None:
        """Read again."""


class UnackedMessageLimit:
    """The number of unacknowledged messages of a broker, and the dispatchers that it blocks."""

    def __init__(self, broker: Scheduler, limit: int, share: float) -> None:
        self._broker = broker
        self._limit = limit
        self._share = int(limit * share)
        self.over = False
        """Whether the last check has found the limit exceeded."""
        self._unacked: dict[_Dispatcher, int] = {}
        """Unacknowledged messages of each dispatcher that has any."""
        self._blocked: set[_Dispatcher] = set()
        broker.call_later(_FIRST_CHECK, self._check)

    def changed(self, dispatcher: _Dispatcher) -> None:
        """Count the changed number of unacknowledged messages of a dispatcher."""
        if dispatcher.total_unacked:
            self._unacked[dispatcher] = dispatcher.total_unacked
        else:
            self._unacked.pop(dispatcher, None)
        if not self.over:
            return
        if not dispatcher.blocked and dispatcher.total_unacked > self._share:
            self._block(dispatcher)
        elif dispatcher.blocked and dispatcher.total_unacked < self._share // 2:
            self._unblock(dispatcher)

    def _check(self) -> None:
        self._broker.call_later(_INTERVAL, self._check)
        total = sum(self._unacked.values())
        if not self.over and total >= self._limit:
            self.over = True
            for dispatcher, unacked in self._unacked.items():
                if unacked > self._share:
                    self._block(dispatcher)
        elif self.over and total < self._limit // 2:
            self.over = False
            for dispatcher in list(self._blocked):
                self._unblock(dispatcher)

    def _block(self, dispatcher: _Dispatcher) -> None:
        dispatcher.blocked = True
        self._blocked.add(dispatcher)

    def _unblock(self, dispatcher: _Dispatcher) -> None:
        self._blocked.discard(dispatcher)
        dispatcher.unblock()
