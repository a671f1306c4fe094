"""Defects of flow control: permits, and limits on unacknowledged messages."""

from __future__ import annotations

from typing import Any

from simulation.mutants.registry import mutant, nth

from pcli.minibroker.broker import Broker
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.topics.consumer import Consumer


@mutant(Consumer, "flow")
def lost_permits(original: Any) -> Any:
    """Every 6th FLOW is ignored."""
    is_nth = nth(6)

    def flow(self: Any, permits: int) -> int:
        return 0 if is_nth() else original(self, permits)

    return flow


@mutant(Consumer, "flow")
def permits_granted_twice(original: Any) -> Any:
    """Every 6th FLOW counts twice."""
    is_nth = nth(6)

    def flow(self: Any, permits: int) -> int:
        return original(self, permits * (2 if is_nth() else 1))

    return flow


@mutant(Consumer, "_account")
def batch_uses_one_permit(original: Any) -> Any:
    """The messages of one read use one permit."""

    def account(self: Any, total: int, average: float, size: int) -> None:
        original(self, total, average, size)
        self.permits += total - 1

    return account


@mutant(Consumer, "unblock")
def stored_permits_lost(original: Any) -> Any:
    """The permits that a blocked consumer granted are lost when it is unblocked."""

    def unblock(self: Any, *, requested: bool = False) -> int:
        if self.blocked:
            self.permits_while_blocked = 0
        return original(self, requested=requested)

    return unblock


@mutant(Consumer, "_account")
def consumer_limit_ignored(original: Any) -> Any:
    """A consumer is never blocked on unacknowledged messages."""

    def account(self: Any, total: int, average: float, size: int) -> None:
        original(self, total, average, size)
        self.blocked = False

    return account


@mutant(PersistentDispatcherMultipleConsumers, "send")
def subscription_limit_ignored(original: Any) -> Any:
    """Reading never pauses at the limit on unacknowledged messages of the subscription."""

    def send(self: Any, consumer: Any, entries: Any, *, replay: bool) -> Any:
        sent = original(self, consumer, entries, replay=replay)
        self.blocked = False
        return sent

    return send


@mutant(Broker, "_update_writable")
def slow_reader_not_resumed(original: Any) -> Any:
    """A client that reads again after a pause gets no entries until it sends a command."""

    def update(self: Any, connection: Any) -> None:
        connection.writable = not connection.congested and not connection.closing

    return update
