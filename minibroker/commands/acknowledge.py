"""ACK, FLOW and REDELIVER_UNACKNOWLEDGED_MESSAGES (ServerCnx.handleAck, Consumer.messageAcked).

A cumulative acknowledgement with several ids, or on a Shared or Key_Shared subscription, has no effect and succeeds. An
ACK for an unknown consumer gets no response.

The other two have no response and are ignored if the consumer is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.minibroker.errors import Refused
from pcli.minibroker.topics import acknowledgements
from pcli.minibroker.transactions.txn_id import txn_of

if TYPE_CHECKING:
    from pcli.minibroker.connection import Connection
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.subscription import Position


def hot_ack(
    connection: Connection, consumer_id: int, kind: int, ids: list[tuple[int, int, int, int]], request_id: int
) -> None:
    """Handle an ACK without ack sets, properties or a transaction.

    ``ids`` is the result of `pull_ack`; ``request_id`` is -1 if the ACK has no request id.
    """
    consumer = connection.consumers.get(consumer_id)
    if consumer is None:
        return
    subscription = consumer.subscription
    answer = pb.CommandAckResponse(consumer_id=consumer_id, request_id=max(0, request_id))
    try:
        if kind == pb.CommandAck.Cumulative:
            if len(ids) == 1:
                place: Position = (ids[0][0], signed(ids[0][1]), None)
                subscription.acknowledge_cumulative(consumer, place, {})
        elif not acknowledgements.acknowledge_next(consumer, ids):
            subscription.acknowledge(consumer, [(one[0], signed(one[1]), None) for one in ids])
    except Refused as refused:
        answer.error, answer.message = pb.ServerError.ValueType(refused.code), refused.text
    if request_id >= 0:
        connection.broker.storage.require()
        connection.send_command(answer)


def acknowledge(connection: Connection, command: pb.CommandAck, frame: Frame) -> None:
    """Handle an ACK with any fields."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None:
        return
    if command.HasField("txnid_least_bits") and command.HasField("txnid_most_bits"):
        _acknowledge_in_transaction(connection, consumer, command)
    else:
        _acknowledge(consumer, command)
    if command.HasField("request_id"):
        connection.broker.storage.require()
        answer = pb.CommandAckResponse(consumer_id=command.consumer_id, request_id=command.request_id)
        connection.send_command(answer)


def _acknowledge(consumer: Consumer, command: pb.CommandAck) -> None:
    places = [(signed(place.ledgerId), signed(place.entryId), _bits(place)) for place in command.message_id]
    if command.ack_type == pb.CommandAck.Cumulative:
        if len(places) == 1:
            properties = {pair.key: signed(pair.value) for pair in command.properties}
            consumer.subscription.acknowledge_cumulative(consumer, places[0], properties)
    else:
        consumer.subscription.acknowledge(consumer, places)


def _acknowledge_in_transaction(connection: Connection, consumer: Consumer, command: pb.CommandAck) -> None:
    """Record an acknowledgement in a transaction. Raises Refused.

    A declared batch size cannot exceed the maximum message size, so that larger sizes need no memory.
    """
    txn, limit = txn_of(command), connection.broker.settings.maxMessageSize
    acks = [
        ((signed(place.ledgerId), signed(place.entryId)), _bits(place), min(max(0, place.batch_size), limit))
        for place in command.message_id
    ]
    if command.ack_type != pb.CommandAck.Cumulative:
        acknowledgements.acknowledge(consumer, txn, acks)
    elif len(acks) == 1 and not consumer.subscription.individual:
        acknowledgements.acknowledge_cumulative(consumer, txn, *acks[0][:2])


def _bits(place: pb.MessageIdData) -> int | None:
    return set_of(place.ack_set) if place.ack_set else None


_MAX_PERMITS: Final = (1 << 31) - 1


def hot_flow(connection: Connection, consumer_id: int, permits: int) -> None:
    """Handle FLOW. Raises RemoteError if the permits are not between 1 and the maximum Java int."""
    consumer = connection.consumers.get(consumer_id)
    if consumer is None:
        return
    if not 0 < permits <= _MAX_PERMITS:
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


HANDLERS = {"ACK": acknowledge, "FLOW": flow, "REDELIVER_UNACKNOWLEDGED_MESSAGES": redeliver}
HOT_HANDLERS: Final[dict[str, Callable[..., None]]] = {"ACK": hot_ack, "FLOW": hot_flow}
