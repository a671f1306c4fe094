"""Requests for the redelivery of all or of some unacknowledged messages.

Rules of this file (ConsumerImpl.redeliverUnacknowledgedMessages; 4.2.4)
1. A request for all messages clears the queue and the tracker and returns the permits of the queued messages. The
   command contains the consumer epoch but no ids. On Exclusive and Failover subscriptions, the epoch is incremented
   even if there is no connection. Messages that were sent before the request have a lower epoch and are dropped.
2. Only consumers of Shared and Key_Shared subscriptions can request individual messages; all other consumers request
   all messages. The messages are removed from the queue, and the ids are sent in commands of at most 1000, without
   partition or batch index. Dead letter candidates are sent to the dead letter topic instead. A command is sent after
   the candidates among its ids have been handled.
3. If the consumer is not subscribed, no command is sent: the broker redelivers everything to a consumer that
   reconnects. While UNSUBSCRIBE or CLOSE_CONSUMER has no response, a request for individual messages closes the
   connection for this purpose, and a request for all messages is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.message_ids import ClientMessageId

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.consumer import Consumer

_MOST: Final = 1000
"""Maximum number of ids in one command (MAX_REDELIVER_UNACKNOWLEDGED)."""


def redeliver_all(consumer: Consumer) -> None:
    """Request redelivery of all unacknowledged messages."""
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
    """Request redelivery of these entries, or of all entries if the subscription type supports only that."""
    if not ids:
        return
    if not consumer.individual:
        redeliver_all(consumer)
        return
    connection = consumer.connected
    if connection is None:
        if consumer.state is State.CLOSING and consumer.connection is not None:
            consumer.connection.close(ClientFailure("Disconnected", "closed to request redelivery"))
        return
    waiting = consumer.queue.remove(ids)
    ordered = sorted(ids)
    for first in range(0, len(ordered), _MOST):
        _Request(consumer, connection, ordered[first : first + _MOST])
    if waiting:
        consumer.queue.increase(waiting)


class _Request:
    """One command. It is sent when every id has been added to it or sent as a dead letter."""

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
