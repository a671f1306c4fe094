"""A consumer inside the broker: permits, pending acks, and the MESSAGE frames sent to it (class Consumer).

Rules of this file
1. Permits are counted in messages. An entry is sent whole while at least one permit is left, so the permits can become
   negative. Only FLOW adds permits.
2. On Shared and Key_Shared subscriptions, a sent entry is pending until it is acknowledged or redelivered, or until the
   consumer leaves. A consumer with too many unacknowledged messages is blocked: it receives nothing, and permits from
   its FLOWs are stored until it is unblocked.
3. Parts of an entry that an old client cannot read are removed here: the checksum and the broker entry metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.codec.wire.bits import left_of, words_of
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.constants import CHECKSUM_MAGIC
from pcli.codec.wire.message_id import signed
from pcli.minibroker.error_responses import NOBODY
from pcli.minibroker.topics.frame_writers import MessageFrameWriter

if TYPE_CHECKING:
    from pcli.minibroker.storage.entry import Entry
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.transport_cnx import TransportCnx

_CHECKSUM: Final = CHECKSUM_MAGIC.to_bytes(2, "big")

_block = attrgetter("block")
_messages = attrgetter("messages")


class Consumer:
    """One consumer of a subscription."""

    __slots__ = (
        "_write",
        "_write_run",
        "auto_consume",
        "avg_messages_per_entry",
        "blocked",
        "bytes_out",
        "closed",
        "connected_since",
        "connection",
        "epoch",
        "fast_path",
        "first_consumed",
        "first_flow",
        "hashes",
        "id",
        "individual",
        "key_shared_meta",
        "last_acked",
        "last_consumed",
        "last_flow",
        "max_unacked",
        "messages_acked",
        "messages_out",
        "messages_redelivered",
        "metadata",
        "name",
        "partition",
        "pending",
        "permits",
        "permits_while_blocked",
        "priority",
        "read_compacted",
        "sends_epoch",
        "starts_at_earliest",
        "subscription",
        "unacked",
    )

    def __init__(
        self, subscription: Subscription, connection: TransportCnx, command: pb.CommandSubscribe, *, individual: bool
    ) -> None:
        self.subscription = subscription
        self.connection = connection
        self.id = command.consumer_id
        self.name = command.consumer_name
        self.priority = command.priority_level
        self.metadata = {pair.key: pair.value for pair in command.metadata}
        self.key_shared_meta = command.keySharedMeta if command.HasField("keySharedMeta") else None
        self.auto_consume = command.schema.type == pb.Schema.AutoConsume
        """Whether the consumer accepts any schema (AutoConsume) and therefore declares none for the topic."""
        self.read_compacted = command.read_compacted
        """Whether the consumer reads the compacted ledger before the topic."""
        start = command.start_message_id
        self.starts_at_earliest = not command.HasField("start_message_id") or signed(start.ledgerId) == -1
        """Whether the first read of a readCompacted consumer starts at the first compacted message."""
        self.sends_epoch = not (individual or command.read_compacted or subscription.cursor is None)
        """Whether the epoch is sent to the client. It is sent on Exclusive and Failover subscriptions of persistent
        topics without readCompacted."""
        self.epoch = signed(command.consumer_epoch) if command.HasField("consumer_epoch") and self.sends_epoch else -1
        """The consumer epoch, sent with every delivery, or -1."""
        self.individual = individual
        """Whether single entries are tracked, as on Shared and Key_Shared subscriptions of persistent topics."""
        self.permits = 0
        self.permits_while_blocked = 0
        """Permits from FLOWs that were received while the consumer was blocked."""
        self.unacked = 0
        """Messages sent but not acknowledged; always 0 if single entries are not tracked."""
        self.blocked = False
        self.max_unacked = 0
        """The effective ``maxUnackedMessagesPerConsumer``; 0 is unlimited."""
        self.pending: dict[int, int] = {}
        """Pending acks: the number of unacknowledged messages in each entry, by offset."""
        self.hashes: dict[int, int] = {}
        """Slots of the pending entries by offset, on Key_Shared subscriptions."""
        self.partition = subscription.topic.partition
        frames = MessageFrameWriter(self.id, self.partition)
        self._write, self._write_run = frames.write, frames.write_run
        self.closed = False
        self.connected_since = subscription.topic.broker.now
        self.avg_messages_per_entry = 0.0
        self.messages_out = self.bytes_out = self.messages_redelivered = self.messages_acked = 0
        self.last_flow = self.last_consumed = self.last_acked = 0
        self.first_flow = self.first_consumed = 0
        self.fast_path = connection.session.plain_delivery
        """Whether entries are sent as they are stored."""

    def __str__(self) -> str:
        """The text of the consumer in errors of the real broker, without the numbers of its channel."""
        subscription, (host, port) = self.subscription, self.connection.peer[:2]
        place = f"PersistentSubscription{{topic={subscription.topic.full_name}, name={subscription.name}}}"
        return (
            f"Consumer{{subscription={place}, consumerId={self.id}, consumerName={self.name}, address=/{host}:{port}}}"
        )

    @property
    def available(self) -> bool:
        """Whether a dispatcher may send to this consumer (isConsumerAvailable)."""
        return self.permits > 0 and not self.blocked and not self.closed and self.connection.writable

    def flow(self, permits: int) -> int:
        """Add permits. Return how many of the added permits are available immediately: 0 if the consumer is blocked."""
        self.last_flow = self.subscription.last_flow = self.subscription.topic.broker.now
        if not self.first_flow:
            self.first_flow = self.last_flow
        if self.blocked:
            self.permits_while_blocked += permits
            return 0
        self.permits += permits
        return permits

    def unacked_room(self) -> int:
        """Return how many messages may be sent within the limit on unacknowledged messages; 1 << 62 if unlimited."""
        return self.max_unacked - self.unacked if self.max_unacked > 0 else 1 << 62

    # -- delivery ------------------------------------------------------------------------------------------------------

    def deliver(self, entries: list[Entry], counts: Mapping[int, int], ack_sets: Mapping[int, int]) -> int:
        """Send entries whose metadata has been parsed. Return the permits used.

        ``counts`` maps offsets to redelivery counts; ``ack_sets`` maps offsets to the bits that are not acknowledged.
        """
        if self.fast_path and not (counts or ack_sets or any(map(_block, entries))) and self.epoch < 0:
            return self._deliver_run(entries)
        total = size = everything = 0
        pending = self.pending if self.individual else None
        send, write = self.connection.send, self._write
        fast_path = self.fast_path and not ack_sets and self.epoch < 0
        for entry in entries:
            offset, messages = entry.offset, entry.messages
            count = counts.get(offset, 0) if counts else 0
            if count:
                self.messages_redelivered += messages
            left = messages
            if fast_path and not entry.block:
                data = entry.data
                send(write(entry.ledger_id, entry.entry_id, count, data))
            else:
                ack_set = ack_sets.get(offset)
                if ack_set is not None:
                    left = left_of(ack_set, messages)
                if messages > 1 and not self.connection.session.reads_batches:
                    # The client receives nothing more, but all entries remain pending until it disconnects.
                    self.connection.close()
                data = self._visible(entry)
                send(self._frame(entry, count, ack_set, data))
            if pending is not None:
                pending[offset] = left
            total += left
            everything += messages
            size += len(data)
        self.messages_out += everything
        self._account(total, everything / len(entries), size)
        return total

    def _deliver_run(self, entries: list[Entry]) -> int:
        """Send entries as they are stored, for the first time. Return the permits used."""
        self.connection.send_pieces(self._write_run(entries))
        messages: int = sum(map(_messages, entries))
        if self.individual:
            self.pending.update((entry.offset, entry.messages) for entry in entries)
        self.messages_out += messages
        self._account(messages, messages / len(entries), sum([len(entry.data) for entry in entries]))
        return messages

    def _account(self, total: int, average: float, size: int) -> None:
        self.permits -= total
        self.bytes_out += size
        self.last_consumed = self.subscription.topic.broker.now
        if not self.first_consumed:
            self.first_consumed = self.last_consumed
        old = self.avg_messages_per_entry
        self.avg_messages_per_entry = old * 0.9 + average * 0.1 if old else average
        if self.individual:
            self.unacked += total
            if 0 < self.max_unacked <= self.unacked:
                self.blocked = True

    def _visible(self, entry: Entry) -> bytes:
        """Return the bytes of an entry that this client can read."""
        session, start = self.connection.session, entry.block
        if start and session.reads_broker_entry:
            start = 0
        elif not session.reads_checksum and entry.data[start : start + 2] == _CHECKSUM:
            start += 6
        return entry.data[start:] if start else entry.data

    def _frame(self, entry: Entry, count: int, ack_set: int | None, data: bytes) -> bytes:
        if ack_set is None and self.epoch < 0:
            return self._write(entry.ledger_id, entry.entry_id, count, data)
        place = pb.MessageIdData(ledgerId=entry.ledger_id, entryId=entry.entry_id, partition=self.partition)
        message = pb.CommandMessage(consumer_id=self.id, message_id=place)
        if ack_set is not None:
            message.ack_set.extend(words_of(ack_set))
        if count:
            message.redelivery_count = count
        if self.epoch >= 0:
            message.consumer_epoch = self.epoch
        return push_frame(message, data)

    # -- pending acks --------------------------------------------------------------------------------------------------

    def unblock(self, *, requested: bool = False) -> int:
        """Unblock if at most half of the limit is still unacknowledged, or if redelivery was requested.

        Returns the stored permits that become available.
        """
        if not self.blocked or not (requested or self.max_unacked <= 0 or self.unacked <= self.max_unacked // 2):
            return 0
        self.blocked = False
        parked, self.permits_while_blocked = self.permits_while_blocked, 0
        self.permits += parked
        if parked or not requested:
            self.subscription.last_flow = self.subscription.topic.broker.now  # flowConsumerBlockedPermits
        return parked

    # -- commands to the client ----------------------------------------------------------------------------------------

    def send_active_consumer_change(self, *, active: bool) -> None:
        """Send ACTIVE_CONSUMER_CHANGE if the client supports it (version 12)."""
        if self.connection.session.supports_command("ACTIVE_CONSUMER_CHANGE"):
            self.connection.send_command(pb.CommandActiveConsumerChange(consumer_id=self.id, is_active=active))

    def send_reached_end_of_topic(self) -> None:
        """Send REACHED_END_OF_TOPIC if the client supports it (version 9)."""
        if self.connection.session.supports_command("REACHED_END_OF_TOPIC"):
            self.connection.send_command(pb.CommandReachedEndOfTopic(consumer_id=self.id))

    def disconnect(self) -> None:
        """Close the consumer with CLOSE_CONSUMER, or close the connection of clients below version 5."""
        if not self.closed:
            # Otherwise a different consumer can have this id by now.
            self.connection.removed_consumer(self.id)
            self.leave()
            self.send_close()

    def send_close(self) -> None:
        """Send CLOSE_CONSUMER, or close the connection of clients below version 5."""
        if self.connection.session.supports_close:
            self.connection.send_command(pb.CommandCloseConsumer(consumer_id=self.id, request_id=NOBODY))
        else:
            self.connection.close()

    def leave(self) -> None:
        """Remove the consumer from its subscription."""
        if not self.closed:
            self.closed = True
            self.subscription.remove_consumer(self)
