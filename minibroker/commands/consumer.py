"""Commands of consumers: SEEK, GET_LAST_MESSAGE_ID, CONSUMER_STATS, UNSUBSCRIBE, CLOSE_CONSUMER."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.bits import set_of
from pcli.codec.wire.constants import MINUS_ONE
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.minibroker.errors import Refused
from pcli.minibroker.timestamps import date_text
from pcli.minibroker.topics.consumer import Consumer
from pcli.minibroker.topics.dispatcher import EXCLUSIVE, FAILOVER

if TYPE_CHECKING:
    from pcli.minibroker.compaction.compacted_topic import MessagePosition
    from pcli.minibroker.connection import Connection
    from pcli.minibroker.storage.entry import Entry


def _consumer(connection: Connection, consumer_id: int) -> Consumer:
    consumer = connection.consumers.get(consumer_id)
    if consumer is None:
        raise Refused(pb.MetadataError, "Consumer not found")
    return consumer


def seek(connection: Connection, command: pb.CommandSeek, frame: Frame) -> None:
    """Handle SEEK: send CLOSE_CONSUMER, then SUCCESS. On a non-persistent topic, send only SUCCESS."""
    by_id = command.HasField("message_id")
    if not by_id and not command.HasField("message_publish_time"):
        raise Refused(pb.MetadataError, "Message id and message publish time were not present")
    subscription = _consumer(connection, command.consumer_id).subscription
    ledger, compaction = subscription.topic.ledger, subscription.topic.compaction
    if ledger is not None and compaction is not None:
        bits = None
        if by_id:
            place = command.message_id
            ledger_id, entry_id = signed(place.ledgerId), signed(place.entryId)
            offset = -1 if ledger_id < 0 else compaction.next_valid(ledger_id, max(0, entry_id))
            if place.ack_set and offset == ledger.offset_of(ledger_id, entry_id):
                bits = set_of(place.ack_set)
        else:
            offset = subscription.offset_at(signed(command.message_publish_time))
        subscription.reset(offset, bits)
    connection.answer_success(command.request_id)


def get_last_message_id(connection: Connection, command: pb.CommandGetLastMessageId, frame: Frame) -> None:
    """Handle GET_LAST_MESSAGE_ID: send the last deliverable message id and the subscription's mark-delete position."""
    consumer = _consumer(connection, command.consumer_id)
    topic, cursor = consumer.subscription.topic, consumer.subscription.cursor
    if topic.compaction is None or cursor is None:
        raise Refused(pb.UnknownError, "Failed to recover Transaction Buffer.")
    last = topic.last_dispatchable_entry()
    compacted = _last_compacted(consumer, last)
    place = pb.MessageIdData(ledgerId=MINUS_ONE, entryId=MINUS_ONE, partition=topic.partition, batch_index=-1)
    if compacted is not None:
        place.ledgerId, place.entryId = compacted.ledger_id & MINUS_ONE, compacted.entry_id & MINUS_ONE
        place.batch_index = compacted.batch_index
    elif last is not None:
        if last.metadata is None:
            raise Refused(pb.MetadataError, "Failed to get batch size for entry")
        place.ledgerId, place.entryId = last.ledger_id, last.entry_id
        if last.metadata.HasField("num_messages_in_batch"):
            place.batch_index = last.messages - 1
    mark_ledger, mark_entry = topic.compaction.mark_delete_position(cursor)
    mark = pb.MessageIdData(ledgerId=mark_ledger, entryId=mark_entry & MINUS_ONE)
    connection.send_command(
        pb.CommandGetLastMessageIdResponse(
            request_id=command.request_id, last_message_id=place, consumer_mark_delete_position=mark
        )
    )


def _last_compacted(consumer: Consumer, last: Entry | None) -> MessagePosition | None:
    """Return the position of the last compacted message, if no entry follows it for a readCompacted consumer."""
    compaction = consumer.subscription.topic.compaction
    if not consumer.read_compacted or compaction is None or compaction.compacted.ledger is None:
        return None
    after_horizon = last is not None and last.offset > compaction.compacted.horizon
    return None if after_horizon else compaction.compacted.last_message_position()


def stats(connection: Connection, command: pb.CommandConsumerStats, frame: Frame) -> None:
    """Handle CONSUMER_STATS. An unknown consumer id closes the connection (verified on 4.2.4)."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None:
        raise RemoteError(f"CONSUMER_STATS of the unknown consumer {command.consumer_id}")
    subscription = consumer.subscription
    host, port = connection.peer
    rates = subscription.topic.broker.rates.of(consumer)
    connection.send_command(
        pb.CommandConsumerStatsResponse(
            request_id=command.request_id,
            msgRateOut=rates.messages_out,
            msgThroughputOut=rates.bytes_out,
            msgRateRedeliver=rates.redelivered,
            consumerName=consumer.name,
            availablePermits=consumer.permits & MINUS_ONE,
            unackedMessages=consumer.unacked,
            blockedConsumerOnUnackedMsgs=consumer.blocked,
            address=f"/{host}:{port}",
            connectedSince=date_text(consumer.connected_since),
            type=pb.CommandSubscribe.SubType.Name(pb.CommandSubscribe.SubType.ValueType(subscription.kind)),
            msgRateExpired=0.0,
            msgBacklog=subscription.backlog,
            messageAckRate=rates.acked,
        )
    )


def unsubscribe(connection: Connection, command: pb.CommandUnsubscribe, frame: Frame) -> None:
    """Handle UNSUBSCRIBE. Raises Refused unless the sender is the only consumer or ``force`` is set.

    Other consumers get CLOSE_CONSUMER; the sender does not.
    """
    consumer = _consumer(connection, command.consumer_id)
    subscription = consumer.subscription
    alone = subscription.consumers == [consumer]
    if subscription.kind in (EXCLUSIVE, FAILOVER):
        alone = alone and subscription.active is consumer
    if not (alone or command.force):
        raise Refused(pb.MetadataError, "Unconnected or shared consumer attempting to unsubscribe")
    for other in list(subscription.consumers):
        if other is not consumer:
            other.disconnect()
    connection.consumers.pop(consumer.id, None)
    consumer.leave()
    subscription.topic.remove_subscription(subscription)
    connection.answer_success(command.request_id)


def close(connection: Connection, command: pb.CommandCloseConsumer, frame: Frame) -> None:
    """Handle CLOSE_CONSUMER. The response is always SUCCESS, even for an unknown or joining consumer."""
    connection.pending_subscribes.pop(command.consumer_id, None)
    consumer = connection.consumers.pop(command.consumer_id, None)
    if consumer is not None:
        consumer.leave()
    connection.answer_success(command.request_id)


HANDLERS = {
    "SEEK": seek,
    "GET_LAST_MESSAGE_ID": get_last_message_id,
    "CONSUMER_STATS": stats,
    "UNSUBSCRIBE": unsubscribe,
    "CLOSE_CONSUMER": close,
}
