"""Snapshots of topics: plain values that describe the state at the time of the call.

Rules of this file
1. A snapshot never changes. It reads stored messages from the broker only on demand. Its cost therefore does not depend
   on the number of messages.
2. Messages are as the application sent them: batches are split, payloads uncompressed and chunks joined. Encrypted
   payloads are not decrypted. Markers are omitted.
3. Message ids are strings as in all of pcli: ledger:entry, then :partition and :batch if present.
4. The snapshot of a partitioned topic contains the snapshots of its partitions, and sums over the partitions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import MessageId
from pcli.minibroker.storage.entry import metadata_bounds

if TYPE_CHECKING:
    from pcli.codec.payload import Message
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.producer import Producer
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic

_ALL: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message in a topic."""

    id: str
    """The message id, ``ledger:entry[:partition][:batch]``."""
    payload: bytes
    """The payload, or the ciphertext of an encrypted message."""
    key: str | None
    """The key; None if there is none. Binary keys are in base64, as on the wire."""
    properties: dict[str, str]
    sequence_id: int
    producer_name: str
    publish_time: int
    """Publish time in milliseconds since 1970, set by the producer."""
    event_time: int
    """Event time in milliseconds since 1970, set by the application; 0 if absent."""
    deliver_at: int
    """Delivery time of a delayed message; 0 for immediate delivery."""
    ordering_key: bytes | None
    encrypted: bool
    offset: int
    """Number of the entry in the topic, from 0."""
    batch_index: int
    """Index in the batch, from 0; -1 if the message is not in a batch."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """One producer."""

    name: str
    client: str
    """``address:port`` of the client."""
    messages_in: int


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """One consumer."""

    name: str
    client: str
    """``address:port`` of the client."""
    permits: int
    """Available permits; a batch can make them negative."""
    unacked: int
    """Number of delivered, unacknowledged messages; always 0 on Exclusive and Failover subscriptions."""
    blocked: bool
    """Whether the consumer has too many unacknowledged messages to receive more."""
    active: bool
    """Whether the consumer receives messages. On Exclusive and Failover subscriptions, only one consumer is active."""
    messages_out: int
    acked: int
    """Number of acknowledgements, as Pulsar counts them (messageAckCounter)."""


class SubscriptionState:
    """One subscription."""

    def __init__(self, subscription: Subscription) -> None:
        self.name = subscription.name
        self.type = pb.CommandSubscribe.SubType.Name(_sub_type(subscription.kind)) if subscription.kind >= 0 else ""
        """Exclusive, Shared, Failover or Key_Shared; empty if the subscription never had a consumer."""
        self.durable = subscription.durable
        self.backlog = subscription.backlog
        """Number of unacknowledged entries (msgBacklog). A batch is one entry."""
        self.consumers = tuple(_consumer(one, subscription) for one in subscription.consumers)
        cursor, ledger = subscription.cursor, subscription.topic.ledger
        self.mark_delete = ""
        """Id of the entry up to which all entries are acknowledged; empty on a non-persistent topic."""
        self._first = -1
        self._acked: list[tuple[int, int]] = []
        self._sets: dict[int, int] = {}
        if cursor is not None and ledger is not None:
            self.mark_delete = str(MessageId(*cursor.mark_delete_position))
            self._first = cursor.mark_delete
            self._acked = cursor.deleted_ranges()
            self._sets = dict(cursor.ack_sets)

    @property
    def unacked(self) -> int:
        """Number of messages that the consumers have not acknowledged."""
        return sum(consumer.unacked for consumer in self.consumers)

    @property
    def permits(self) -> int:
        """Sum of all consumers' permits."""
        return sum(consumer.permits for consumer in self.consumers)

    def acked(self, message: StoredMessage) -> bool:
        """Return whether a message of this topic is acknowledged.

        For a partitioned topic, use the snapshot of the partition that contains the message.
        """
        if message.offset <= self._first:
            return True
        bits = self._sets.get(message.offset)
        if bits is not None and message.batch_index >= 0:
            return not bits >> message.batch_index & 1
        place = bisect_right(self._acked, (message.offset, _ALL)) - 1
        return place >= 0 and message.offset <= self._acked[place][1]

    def __repr__(self) -> str:
        names = ", ".join(
            f"{one.name}{'' if one.active else ' (inactive)'} permits {one.permits} unacked {one.unacked}"
            for one in self.consumers
        )
        return f"{self.name} {self.type or 'no type'} backlog {self.backlog} [{names}]"


class TopicState:
    """One topic, or a partitioned topic with all its partitions."""

    def __init__(
        self,
        name: str,
        *,
        read: Callable[[], list[StoredMessage]],
        producers: Iterable[ProducerState] = (),
        subscriptions: dict[str, SubscriptionState] | None = None,
        partitions: Iterable[TopicState] = (),
        terminated: bool = False,
    ) -> None:
        self.name = name
        """The full name."""
        self.partitions = tuple(partitions)
        """The partitions of a partitioned topic; empty for other topics."""
        self.producers = tuple(producers)
        self.subscriptions = subscriptions or {}
        """Subscriptions by name; empty for a partitioned topic, because they belong to its partitions."""
        self.terminated = terminated
        self._read = read
        self._messages: list[StoredMessage] | None = None

    @property
    def messages(self) -> list[StoredMessage]:
        """Messages that were stored at the time of the snapshot and still exist, in order, partition by partition."""
        if self._messages is None:
            self._messages = self._read()
        return self._messages

    @property
    def payloads(self) -> list[bytes]:
        """The payloads of `messages`."""
        return [message.payload for message in self.messages]

    @property
    def backlog(self) -> int:
        """Number of unacknowledged entries of all subscriptions and partitions."""
        own = sum(one.backlog for one in self.subscriptions.values())
        return own + sum(partition.backlog for partition in self.partitions)

    def __repr__(self) -> str:
        lines = [f"{self.name}: {len(self.producers)} producers, {len(self.subscriptions)} subscriptions"]
        lines += (f"  {one!r}" for one in self.subscriptions.values())
        lines += (f"  {line}" for partition in self.partitions for line in repr(partition).splitlines())
        return "\n".join(lines)


def topic_state(
    topic: Topic, run_in_broker: Callable[[Callable[[], list[StoredMessage]]], list[StoredMessage]]
) -> TopicState:
    """Return the state of a topic. ``run_in_broker`` runs the function that reads messages in the broker's thread."""
    end = topic.ledger.next if topic.ledger is not None else 0
    return TopicState(
        topic.full_name,
        read=lambda: run_in_broker(lambda: _messages(topic, end)),
        producers=[_producer(one) for one in topic.producers.values()],
        subscriptions={one.name: SubscriptionState(one) for one in topic.subscriptions.values()},
        terminated=topic.terminated,
    )


def partitioned_state(name: str, partitions: list[TopicState]) -> TopicState:
    """Return the state of a partitioned topic."""
    return TopicState(
        name,
        read=lambda: [message for partition in partitions for message in partition.messages],
        producers=[producer for partition in partitions for producer in partition.producers],
        partitions=partitions,
    )


def _messages(topic: Topic, end: int) -> list[StoredMessage]:
    from pcli.codec.payload import ChunkJoiner, open_entry

    ledger = topic.ledger
    if ledger is None:
        return []
    found: list[StoredMessage] = []
    chunks = ChunkJoiner()
    at = ledger.first
    while at < end:
        entries = ledger.read(at, min(1000, end - at), _ALL)
        at = entries[-1].offset + 1 if entries else end
        for entry in entries:
            if not entry.parsed:
                entry.parse()
            if entry.metadata is None or entry.marker:
                continue
            payload = entry.data[metadata_bounds(entry.data, entry.block)[1] :]
            place = MessageId(entry.ledger_id, entry.entry_id, topic.partition)
            opened = open_entry(entry.metadata, payload, chunks=chunks, scope=entry.metadata.producer_name)
            found += (_stored(one, place, entry.offset) for one in opened.messages)
    return found


def _stored(message: Message, place: MessageId, offset: int) -> StoredMessage:
    metadata = message.metadata
    return StoredMessage(
        id=str(MessageId(place.ledger, place.entry, place.partition, message.index)),
        payload=message.payload,
        key=message.key,
        properties=dict(message.properties),
        sequence_id=message.sequence_id,
        producer_name=metadata.producer_name,
        publish_time=metadata.publish_time,
        event_time=message.event_time,
        deliver_at=metadata.deliver_at_time,
        ordering_key=message.ordering_key,
        encrypted=bool(metadata.encryption_keys),
        offset=offset,
        batch_index=message.index,
    )


def _producer(producer: Producer) -> ProducerState:
    return ProducerState(producer.name, _client(producer.connection.peer), producer.messages_in)


def _consumer(consumer: Consumer, subscription: Subscription) -> ConsumerState:
    active = subscription.active
    return ConsumerState(
        name=consumer.name,
        client=_client(consumer.connection.peer),
        permits=consumer.permits,
        unacked=consumer.unacked,
        blocked=consumer.blocked,
        active=active is None or active is consumer,
        messages_out=consumer.messages_out,
        acked=consumer.messages_acked,
    )


def _client(peer: tuple[str, int]) -> str:
    return f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"


def _sub_type(kind: int) -> pb.CommandSubscribe.SubType.ValueType:
    return pb.CommandSubscribe.SubType.ValueType(kind)
