"""FLOW and REDELIVER_UNACKNOWLEDGED_MESSAGES. They have no response and are ignored if the consumer is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed

if TYPE_CHECKING:
    from pcli.minibroker.connection import Connection

__all__ = ["HANDLERS", "HOT_HANDLERS"]

_MAX: Final = (1 << 31) - 1


def hot_flow(connection: Connection, consumer_id: int, permits: int) -> None:
    """Handle FLOW. Raises RemoteError if the permits are not between 1 and the maximum Java int."""
    consumer = connection.consumers.get(consumer_id)
    if consumer is None:
        return
    if not 0 < permits <= _MAX:
        raise RemoteError(f"FLOW of {permits} permits")
    counted = consumer.flow(permits)
    dispatcher = consumer.subscription.dispatcher
    if counted and dispatcher is not None:
        dispatcher.add_permits(consumer, counted)


def flow(connection: Connection, command: pb.CommandFlow, frame: Frame) -> None:
    """Handle FLOW with any fields."""
    hot_flow(connection, command.consumer_id, command.messagePermits)


def redeliver(connection: Connection, command: pb.CommandRedeliverUnacknowledgedMessages, frame: Frame) -> None:
    """Handle REDELIVER_UNACKNOWLEDGED_MESSAGES for the given ids, or for all pending entries."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None or consumer.subscription.dispatcher is None:
        return
    epoch = signed(command.consumer_epoch) if command.HasField("consumer_epoch") else -1
    ledger = consumer.subscription.topic.ledger
    offsets = None
    if command.message_ids and ledger is not None:
        found = (ledger.offset_of(signed(one.ledgerId), signed(one.entryId)) for one in command.message_ids)
        offsets = [offset for offset in found if offset is not None]
    if not command.message_ids and ledger is not None:
        consumer.subscription.last_flow = connection.broker.now  # flowConsumerBlockedPermits
    consumer.subscription.dispatcher.redeliver(consumer, offsets, epoch)


HOT_HANDLERS = {"FLOW": hot_flow}
HANDLERS = {"FLOW": flow, "REDELIVER_UNACKNOWLEDGED_MESSAGES": redeliver}
