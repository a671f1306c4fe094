"""A producer of all partitions of a topic, and the function that creates a plain or partitioned producer.

Rules of this file (PulsarClientImpl.createProducerAsync, PartitionedProducerImpl; 4.2.4)
1. The producer of the first partition is created first, and its name from the broker is used for all partitions. Then
   the other producers are created concurrently. If one producer fails, all producers are closed.
2. If ``lazyStartPartitionedProducers`` is set, only the producer of the partition for messages without a key is created
   at the start. Each other producer is created with its first message. The Java client blocks its caller until that
   producer is ready; in this client the messages wait. If the access mode is exclusive, all producers are created at
   the start.
3. ``maxPendingMessagesAcrossPartitions`` is divided by the initial number of partitions.
4. The number of partitions is polled every ``autoUpdatePartitionsIntervalSeconds``, without creating the topic. New
   partitions are used when all their producers are ready, or immediately if the producers are lazy. A lower number is
   ignored.

Rules of the choice of a message's partition (MessageRouterBase and its two subclasses, 4.2.4)
1. The hash of the key determines the partition in all modes. A binary key is hashed as its base64 text.
2. RoundRobinPartition without batching uses the partitions in turn, starting at a random partition.
3. If batching is enabled, the partition changes after ``batchingPartitionSwitchFrequencyByPublishDelay`` publish
   delays. The choice depends on the clock, not on the messages that were sent.
4. SinglePartition uses one random partition.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from pcli.codec.errors import LocalError
from pcli.codec.wire.hashes import partition_of
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.batch_container import Done
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer.producer import Producer
from pcli.replay.client.producer.sequence_ids import DuplicateRisk
from pcli.replay.client.settings import ProducerSettings
from pcli.replay.client.wait_for_all import gather

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

Created = Callable[["Producer | PartitionedProducer | ClientFailure"], None]


def open_producer(engine: ClientContext, topic: str, settings: ProducerSettings, done: Created) -> None:
    """Create a producer of a topic, or of all its partitions if the topic is partitioned."""
    try:
        name = TopicName.parse(topic.strip())
    except LocalError as fault:
        done(ClientFailure("InvalidTopicName", fault.text))
        return

    def found(count: int | ClientFailure) -> None:
        if isinstance(count, ClientFailure):
            done(count)
        elif count:
            PartitionedProducer(engine, name, settings, count, done).start()
        else:
            Producer(engine, topic.strip(), settings, done).start()

    engine.partitions(str(name), found)


class PartitionedProducer:
    """A producer with one `Producer` for each partition."""

    def __init__(
        self, engine: ClientContext, topic: TopicName, settings: ProducerSettings, count: int, created: Created
    ) -> None:
        self.engine = engine
        self.topic = str(topic)
        self.count = count
        """Known number of partitions."""
        self.state = State.CONNECTING
        self.producers: dict[int, Producer] = {}
        """Producers by partition."""
        self._topic = topic
        self.on_room: Callable[[], None] | None = None
        """A function that is called when any partition has space again (`Producer.on_room`)."""
        self.on_possible_duplicate: Callable[[DuplicateRisk, int], None] | None = None
        """A function that is called with each possible duplicate (`Producer.on_possible_duplicate`)."""
        self._settings = _divided(settings, count)
        self._created: Created | None = created
        self._router = MessageRouter(settings, count, engine.random)
        self._lazy = settings.lazyStartPartitionedProducers and settings.accessMode == "Shared"
        self._name = ""
        self._turned_away: tuple[OutgoingMessage, int] | None = None
        self._waiting: dict[int, list[tuple[OutgoingMessage, Done | None]]] = {}
        self._update: Timer | None = None

    @property
    def name(self) -> str:
        """Name of all partition producers; empty until the broker has assigned it."""
        return self._name

    def start(self) -> None:
        """Create the producers, then call ``created``."""
        first = self._router.choose(OutgoingMessage(b""), self.count, self.engine.now) if self._lazy else 0
        self._make(first, self._first_made)

    def send(self, message: OutgoingMessage, done: Done | None = None) -> bool:
        """Send a message with the producer of its partition (`Producer.send`).

        A message that was not accepted because the queue was full keeps its partition.
        """
        away, self._turned_away = self._turned_away, None
        if away is not None and away[0] is message:
            partition = away[1]
        else:
            partition = self._router.choose(message, self.count, self.engine.now)
        producer = self.producers.get(partition)
        if producer is not None and partition not in self._waiting:
            if producer.send(message, done):
                return True
            self._turned_away = message, partition
            return False
        if self.state is not State.READY:
            if done is not None:
                done(ClientFailure("Closed", "the producer is closed"))
            return True
        self._waiting.setdefault(partition, []).append((message, done))
        if producer is None:
            self._make(partition, lambda made: self._lazily_made(partition, made))
        return True

    def flush(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Send the waiting batches. ``done`` is called when every message has its receipt or has failed."""
        gather(self.producers.values(), Producer.flush, done)

    def trigger_flush(self) -> bool:
        """Send the waiting batches now. Return whether there were waiting batches."""
        flushed = [producer.trigger_flush() for producer in self.producers.values()]
        return any(flushed)

    def close(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Close all producers. ``done`` is called with the first failure, or None."""
        if self.state in (State.CLOSING, State.CLOSED):
            done(None)
            return
        self.state = State.CLOSING
        if self._update is not None:
            self._update.cancel()

        def closed(failure: ClientFailure | None) -> None:
            self.state = State.CLOSED if failure is None else State.FAILED
            done(failure)

        gather(self.producers.values(), Producer.close, closed)

    def _room(self) -> None:
        if self.on_room is not None:
            self.on_room()

    def _doubt(self, doubt: DuplicateRisk, sequence_id: int) -> None:
        if self.on_possible_duplicate is not None:
            self.on_possible_duplicate(doubt, sequence_id)

    # -- creation --------------------------------------------------------------------------------------------------

    def _make(self, partition: int, made: Callable[[Producer | ClientFailure], None]) -> None:
        topic = str(self._topic.with_partition(partition))
        producer = Producer(self.engine, topic, self._settings, made, name=self._name)
        producer.on_room, producer.on_possible_duplicate = self._room, self._doubt
        self.producers[partition] = producer
        producer.start()

    def _make_all(self, partitions: range, done: Callable[[ClientFailure | None], None]) -> None:
        """Create the producers of these partitions. ``done`` is called once, after the last result."""

        def make(partition: int, completed: Callable[[ClientFailure | None], None]) -> None:
            self._make(partition, lambda made: completed(made if isinstance(made, ClientFailure) else None))

        gather(partitions, make, done)

    def _first_made(self, made: Producer | ClientFailure) -> None:
        if isinstance(made, ClientFailure):
            self._all_made(made)
            return
        self._name = made.name
        if self._lazy or self.count == 1:
            self._all_made(None)
        else:
            self._make_all(range(1, self.count), self._all_made)

    def _all_made(self, failure: ClientFailure | None) -> None:
        created, self._created = self._created, None
        assert created is not None
        if failure is not None:
            self.close(lambda _: created(failure))
            return
        self.state = State.READY
        if self._settings.autoUpdatePartitions:
            self._plan_update()
        created(self)

    def _lazily_made(self, partition: int, made: Producer | ClientFailure) -> None:
        waiting = self._waiting.pop(partition)
        if isinstance(made, ClientFailure):
            del self.producers[partition]
        for message, done in waiting:
            if isinstance(made, Producer):
                made.send(message, done)
            elif done is not None:
                done(made)

    # -- partition updates -----------------------------------------------------------------------------------------

    def _plan_update(self) -> None:
        due = self.engine.now + self._settings.autoUpdatePartitionsIntervalSeconds * 1000
        self._update = self.engine.call_at(due, self._ask)

    def _ask(self) -> None:
        self.engine.partitions(self.topic, self._counted, create=False)

    def _counted(self, count: int | ClientFailure) -> None:
        if self.state is not State.READY or self.engine.closed:
            return
        self._plan_update()
        if isinstance(count, ClientFailure) or count <= self.count:
            return
        if self._lazy:
            self.count = count
            return
        new = range(self.count, count)

        def made(failure: ClientFailure | None) -> None:
            if failure is None:
                self.count = count
                return
            for partition in new:
                self.producers.pop(partition).close(lambda _: None)

        self._make_all(new, made)


def _divided(settings: ProducerSettings, count: int) -> ProducerSettings:
    """Return the settings for one partition's producer."""
    most = settings.maxPendingMessagesAcrossPartitions // count
    if not settings.maxPendingMessagesAcrossPartitions:
        return settings
    own = settings.maxPendingMessages
    return dataclasses.replace(settings, maxPendingMessages=min(own, most) if own else most)


class MessageRouter:
    """The router of one partitioned producer with ``count`` partitions. ``random`` returns numbers in [0, 1)."""

    def __init__(self, settings: ProducerSettings, count: int, random: Callable[[], float]) -> None:
        self._start = self._next = int(random() * count)
        self._murmur = settings.hashingScheme == "Murmur3_32Hash"
        micros = settings.batchingPartitionSwitchFrequencyByPublishDelay * settings.batchingMaxPublishDelayMicros
        self._switch_ms = max(1, micros // 1000)
        if settings.messageRoutingMode == "SinglePartition":
            self._choose = self._single
        elif settings.batchingEnabled:
            self._choose = self._by_time
        else:
            self._choose = self._by_turns

    def choose(self, message: OutgoingMessage, count: int, now: int) -> int:
        """Return the partition of a message, from 0 to ``count`` - 1. ``now`` is in milliseconds since 1970."""
        if message.key is not None:
            return partition_of(message.key, count, murmur=self._murmur)
        return self._choose(count, now)

    def _single(self, count: int, now: int) -> int:
        return self._start

    def _by_time(self, count: int, now: int) -> int:
        return (now // self._switch_ms + self._start) % count

    def _by_turns(self, count: int, now: int) -> int:
        chosen = self._next % count
        self._next += 1
        return chosen
