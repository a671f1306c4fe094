"""Asking for messages again: all that are not acknowledged, or some.

Rules of this file (ConsumerImpl.redeliverUnacknowledgedMessages; 4.2.4)
1. All: the queue and the tracker are forgotten, the command names no ids but the consumer epoch, and the permits of
   what was in the queue are given anew. Exclusive and Failover raise the epoch with it, connected or not: what was on
   its way before carries a lower one and is dropped.
2. Some: Shared and Key_Shared alone; the others ask for all. The messages are taken out of the queue, the ids go in
   commands of at most 1000, without partition and batch index. Ids that are dead letters by now are sent there
   instead; a command waits for those that share it.
3. Without a subscription nothing is said: the broker delivers everything again anyway to one that comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.consumer import Consumer

__all__ = ["redeliver_all", "redeliver_some"]

_MOST: Final = 1000
"""MAX_REDELIVER_UNACKNOWLEDGED."""


def redeliver_all(consumer: Consumer) -> None:
    """Ask for all that is not acknowledged."""
    if not consumer.individual:
        consumer.consumer_epoch += 1
    waiting = consumer.queue.clear()
    consumer.unacked.clear()
    connection = consumer.connected
    if connection is not None:
        epoch = consumer.consumer_epoch
        connection.send(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer.number, consumer_epoch=epoch))
        if waiting:
            consumer.queue.increase(waiting)


def redeliver_some(consumer: Consumer, ids: set[ClientMessageId]) -> None:
    """Ask for these entries, or for all where the type of subscription knows no other way."""
    if not ids:
        return
    if not consumer.individual:
        redeliver_all(consumer)
        return
    connection = consumer.connected
    if connection is None:
        return
    waiting = consumer.queue.remove(ids)
    ordered = sorted(ids)
    for first in range(0, len(ordered), _MOST):
        _Request(consumer, connection, ordered[first : first + _MOST])
    if waiting:
        consumer.queue.increase(waiting)


class _Request:
    """One command, as soon as it is known which of its ids are dead letters."""

    def __init__(self, consumer: Consumer, connection: ClientConnection, ids: list[ClientMessageId]) -> None:
        self._body = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer.number)
        self._connection = connection
        self._open = len(ids)
        for id_ in ids:
            if consumer.dead is None:
                self._settle(id_, dead=False)
            else:
                consumer.dead.send(id_, lambda dead, id_=id_: self._settle(id_, dead=dead))  # type: ignore[misc]

    def _settle(self, id_: ClientMessageId, *, dead: bool) -> None:
        if not dead:
            self._body.message_ids.add(ledgerId=id_.ledger & (1 << 64) - 1, entryId=id_.entry & (1 << 64) - 1)
        self._open -= 1
        if not self._open and self._body.message_ids:
            self._connection.send(self._body)
