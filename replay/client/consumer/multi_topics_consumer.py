"""A consumer of several topics, or of all partitions of one topic.

Rules of this file (MultiTopicsConsumerImpl; 4.2.4)
1. For several topics, the number of partitions of each topic is requested.
2. Each topic or partition has a child consumer. The children send permits only after all have subscribed; if one child
   fails, all children are closed. The partitions of a topic share ``maxTotalReceiverQueueSizeAcrossPartitions``.
3. The multi-topics consumer tracks the ack timeout of each message, and its children request the redelivery. Consumers
   of Exclusive and Failover subscriptions request the redelivery of all messages.
4. An id without a topic cannot be acknowledged, negatively acknowledged or used in a seek, unless it is the beginning
   or the end.
5. After a seek each child sends permits for its whole queue again.
6. The number of partitions is polled every ``autoUpdatePartitionsIntervalSeconds``. A child with a queue of full size
   is created for each new partition. A lower number is ignored.

Rules of the shared queue (MultiTopicsConsumerImpl: receiveMessageFromConsumer and the methods that resume it; 4.2.4)
1. A child's messages are moved in steps of half the child's queue size. If the shared queue is full after a step, or
   more than half full while other children wait, the child also waits. Its queue then fills, and it sends no more
   permits.
2. Waiting children continue when the shared queue is at most half full, in the order in which they stopped.
3. The shared queue has the size of one consumer's queue, at least 2 and at least the number of children.

Java allows a child one millisecond to fill a step; in this client a step contains the messages that are present.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.ack_grouping_tracker import AckDone
from pcli.replay.client.consumer.consumer import Consumer, Listener
from pcli.replay.client.consumer.cursor_requests import SeekDone
from pcli.replay.client.consumer.incoming_entry import IncomingMessage
from pcli.replay.client.consumer.unacked_message_tracker import UnackedMessageTracker
from pcli.replay.client.message_ids import EARLIEST, LATEST, ClientMessageId
from pcli.replay.client.random_names import alphanumeric
from pcli.replay.client.settings import ConsumerSettings
from pcli.replay.client.wait_for_all import collect, gather

if TYPE_CHECKING:
    from pcli.codec.session.timers import Timer
    from pcli.replay.client.client_context import ClientContext

Created = Callable[["Consumer | MultiTopicsConsumer | ClientFailure"], None]


class MultiTopicsConsumer:
    """A consumer of several topics. ``created`` is called once, with the consumer or the ClientFailure."""

    def __init__(
        self, engine: ClientContext, settings: ConsumerSettings, created: Created, *, create: bool = True
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.name = settings.consumerName or alphanumeric(engine.random)
        self.state = State.CONNECTING
        self.consumers: dict[str, Consumer] = {}
        """Children by full topic name with the partition."""
        self.partitions: dict[str, int] = {}
        """Number of consumed partitions by topic."""
        self.create = create
        self.queue = MultiTopicsQueue(settings.receiverQueueSize)
        self.unacked = UnackedMessageTracker(engine, settings, self._redeliver)
        self.on_message: Callable[[], None] | None = None
        """A function that is called when messages have arrived."""
        self.on_fault: Callable[[ClientFailure], None] | None = None
        """A function that is called when a topic was deleted."""
        self.found_schema: pb.Schema | None = None
        self._created: Created | None = created
        self._listener: Listener | None = None
        self._paused = settings.startPaused
        self._update: Timer | None = None

    # -- subscribing -------------------------------------------------------------------------------------------------

    def start(self, topics: Mapping[str, int | None]) -> None:
        """Subscribe to topics with these numbers of partitions. If a number is None, it is requested first."""
        self._plan_update()
        for topic in topics:
            self.partitions[topic] = 0
        gather(topics, lambda topic, done: self._begin(topic, topics[topic], done), self._started)

    def _begin(self, topic: str, count: int | None, done: SeekDone) -> None:
        def found(number: int | ClientFailure) -> None:
            if isinstance(number, ClientFailure):
                done(number)
            else:
                self._subscribe(topic, number, done)

        if count is None:
            self.engine.partitions(topic, found)
        else:
            found(count)

    def _subscribe(self, topic: str, count: int, done: SeekDone) -> None:
        self.partitions[topic] = count
        size = self.settings.receiverQueueSize
        if count:
            size = min(size, max(1, self.settings.maxTotalReceiverQueueSizeAcrossPartitions // count))
        gather(_names(topic, 0, count), lambda name, completed: self._add_child(name, size, completed), done)

    def _add_child(self, topic: str, queue_size: int, done: SeekDone) -> None:
        settings = dataclasses.replace(self.settings, receiverQueueSize=queue_size, startPaused=self._paused)

        def created(result: Consumer | ClientFailure) -> None:
            if isinstance(result, ClientFailure):
                self.consumers.pop(topic, None)
                done(result)
            else:
                done(None)

        child = Consumer(
            self.engine, topic, settings, created, parent=self, create=self.create, found_schema=self.found_schema
        )
        child.on_fault = self._topic_gone
        self.consumers[topic] = child
        child.start()

    def _topic_gone(self, failure: ClientFailure) -> None:
        if self.on_fault is not None:
            self.on_fault(failure)

    def _started(self, failure: ClientFailure | None) -> None:
        if failure is not None:
            failed = failure
            self.close(lambda _: self._tell(failed))
            return
        if self.state is State.CONNECTING:
            self.state = State.READY
            self._tell(self)
            self._ask_all(self.consumers.values())

    def _ask_all(self, children: Any) -> None:
        """Send permits for the whole queue of each child."""
        self.queue.size = max(self.queue.size, len(self.consumers))
        for child in list(children):
            child.queue.increase(child.queue.size)

    # -- topic changes -----------------------------------------------------------------------------------------------

    def _plan_update(self) -> None:
        if self.settings.autoUpdatePartitions:
            wait = self.settings.autoUpdatePartitionsIntervalSeconds * 1000
            self._update = self.engine.call_at(self.engine.now + wait, self._ask_partitions)

    def _ask_partitions(self) -> None:
        for topic, count in self.partitions.items():
            if count:
                self.engine.partitions(topic, lambda found, topic=topic: self._extended(topic, found), create=False)  # type: ignore[misc]
        self._plan_update()

    def _extended(self, topic: str, found: int | ClientFailure) -> None:
        before = self.partitions.get(topic, 0)
        if isinstance(found, ClientFailure) or found <= before or self.state is not State.READY:
            return
        self.partitions[topic] = found
        names = _names(topic, before, found)
        size = self.settings.receiverQueueSize

        def added(_: ClientFailure | None) -> None:
            self._ask_all(self.consumers[name] for name in names if name in self.consumers)

        gather(names, lambda name, completed: self._add_child(name, size, completed), added)

    def add_topics(self, topics: list[str], done: SeekDone) -> None:
        """Subscribe to more topics."""

        def add(topic: str, completed: SeekDone) -> None:
            def begun(failure: ClientFailure | None) -> None:
                names = _names(topic, 0, self.partitions.get(topic, 0))
                self._ask_all(self.consumers[name] for name in names if name in self.consumers)
                completed(failure)

            self._begin(topic, None, begun)

        gather([topic for topic in topics if topic not in self.partitions], add, done)

    def _remove_child(self, name: str, done: SeekDone) -> None:
        child = self.consumers.pop(name)
        self.queue.remove_child(child)
        self.unacked.remove_topic(name)
        child.close(done)

    # -- receiving ---------------------------------------------------------------------------------------------------

    @property
    def listens(self) -> bool:
        """Whether a listener returns the permits."""
        return self._listener is not None

    def arrived(self, child: Consumer) -> None:
        """Process new messages of a child."""
        self.queue.fill(child)
        if self._listener is not None:
            self._call_listener()
        elif self.queue.messages and self.on_message is not None:
            self.on_message()

    def receive(self) -> IncomingMessage | None:
        """Return the next message.

        If it is None, `on_message` is called later. Raises LocalError if there is a listener.
        """
        if self._listener is not None:
            raise LocalError("a consumer with a listener does not support receive")
        if not self.queue.messages:
            return None
        message = self.queue.messages.popleft()
        if self.unacked.enabled:
            self.unacked.add(message.id, message.redelivery_count)
        self.queue.go_on()
        return message

    def listen(self, listener: Listener) -> None:
        """Call a function with each message when it arrives."""
        self._listener = listener
        self._call_listener()

    def _call_listener(self) -> None:
        while self.queue.messages and self._listener is not None:
            message = self.queue.messages.popleft()
            child = self.consumers.get(message.topic)
            if child is not None and message.arrival.connection is child.connection:
                child.queue.increase()
            self.unacked.add(message.id, message.redelivery_count)
            self._listener(message)
            self.queue.go_on()

    def pause(self) -> None:
        """Stop sending permits."""
        self._paused = True
        for child in self.consumers.values():
            child.pause()

    def resume(self) -> None:
        """Send permits again."""
        self._paused = False
        for child in self.consumers.values():
            child.resume()

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def _child(self, id_: ClientMessageId) -> Consumer | ClientFailure:
        if self.state is not State.READY:
            return ClientFailure("Closed", "the consumer is closed")
        child = self.consumers.get(id_.topic)
        return ClientFailure("NotAllowed", f"{id_} belongs to no consumed topic") if child is None else child

    def acknowledge(self, id_: ClientMessageId, done: AckDone | None = None) -> None:
        """Acknowledge a message."""
        child = self._child(id_)
        if isinstance(child, Consumer):
            child.acknowledge(id_, done)
            self.unacked.remove(id_)
        elif done is not None:
            done(child)

    def acknowledge_cumulative(
        self, id_: ClientMessageId, done: AckDone | None = None, properties: Mapping[str, int] | None = None
    ) -> None:
        """Acknowledge all messages of the topic up to this id."""
        child = self._child(id_)
        if isinstance(child, Consumer):
            child.acknowledge_cumulative(id_, done, properties)
            self.unacked.remove_till(id_)
        elif done is not None:
            done(child)

    def negative_acknowledge(self, id_: ClientMessageId, redelivery_count: int = 0) -> None:
        """Request redelivery of a message after a delay."""
        child = self._child(id_)
        if isinstance(child, Consumer):
            child.negative_acknowledge(id_, redelivery_count)
            self.unacked.remove(id_)

    def reconsume_later(
        self,
        message: IncomingMessage,
        delay_ms: int,
        properties: Mapping[str, str] | None = None,
        done: AckDone | None = None,
    ) -> None:
        """Send a message to the retry letter topic for delivery after a delay, and acknowledge it."""
        child = self._child(message.id)
        if isinstance(child, Consumer):
            origin = str(TopicName.parse(message.topic).base)
            child.reconsume_later(message, delay_ms, properties, done, origin=origin)
            self.unacked.remove(message.id)
        elif done is not None:
            done(child)

    def redeliver_unacknowledged(self) -> None:
        """Request redelivery of all unacknowledged messages."""
        for child in self.consumers.values():
            child.redeliver_unacknowledged()
        self.queue.messages.clear()
        self.unacked.clear()
        self.queue.go_on()

    def _redeliver(self, ids: set[ClientMessageId]) -> None:
        if self.settings.subscriptionType not in ("Shared", "Key_Shared"):
            self.redeliver_unacknowledged()
            return
        while self.queue.messages and self.queue.messages[0].id in ids:
            self.queue.messages.popleft()
        for topic, child in list(self.consumers.items()):
            child.redeliver({id_ for id_ in ids if id_.topic == topic})
        self.queue.go_on()

    # -- seek and close ----------------------------------------------------------------------------------------------

    def seek(self, target: ClientMessageId | int, done: SeekDone) -> None:
        """Move the cursors of all topics to a publish time, the beginning or the end, or one cursor to an id."""
        if isinstance(target, int) or target in (EARLIEST, LATEST):
            children = list(self.consumers.values())
        else:
            child = self._child(target)
            if isinstance(child, ClientFailure):
                done(child)
                return
            children = [child]
        self.queue.held = True
        self.unacked.clear()
        self.queue.messages.clear()

        def sought(failure: ClientFailure | None) -> None:
            self.queue.held = False
            self._ask_all(self.consumers.values())
            for child in self.consumers.values():
                self.arrived(child)
            done(failure)

        gather(children, lambda child, completed: child.seek(target, completed), sought)

    def has_message_available(self, done: Callable[[bool | ClientFailure], None]) -> None:
        """Call ``done`` with True if any topic has a message after the last received message, or else with False."""
        if self.queue.messages:
            done(bool(self.queue.messages))
        else:
            collect(self.consumers.values(), Consumer.has_message_available, any, done)

    def last_message_ids(self, done: Callable[[list[ClientMessageId] | ClientFailure], None]) -> None:
        """Pass ``done`` the last message id of each topic."""
        collect(self.consumers.values(), Consumer.last_message_ids, lambda found: [*chain(*found)], done)

    def unsubscribe(self, done: SeekDone, *, force: bool = False) -> None:
        """Delete the subscription of all topics. If ``force`` is set, delete it even if it has other consumers."""

        def ended(failure: ClientFailure | None) -> None:
            if failure is None:
                self._stop()
            done(failure)

        gather(self.consumers.values(), lambda child, completed: child.unsubscribe(completed, force=force), ended)

    def close(self, done: SeekDone) -> None:
        """Close the consumers of all topics."""
        self._stop()
        gather(self.consumers.values(), lambda child, completed: child.close(completed), done)

    def _stop(self) -> None:
        self.state = State.CLOSED
        self.unacked.close()
        if self._update is not None:
            self._update.cancel()

    def _tell(self, result: MultiTopicsConsumer | ClientFailure) -> None:
        created, self._created = self._created, None
        if created is not None:
            created(result)


def _names(topic: str, first: int, count: int) -> list[str]:
    """Return the full names of the partitions starting with ``first``, or the topic name if there are no partitions."""
    name = TopicName.parse(topic)
    return [str(name.with_partition(index)) for index in range(first, count)] if count else [topic]


class MultiTopicsQueue:
    """The messages that wait for the application, and the children that wait for space."""

    def __init__(self, size: int) -> None:
        self.size = max(2, size)
        self.messages: deque[IncomingMessage] = deque()
        self.held = False
        """Whether a seek is in progress. During a seek, no messages are moved from children."""
        self._paused: deque[Consumer] = deque()

    def fill(self, child: Consumer) -> None:
        """Move messages from a child."""
        if self.held or child in self._paused:
            return
        step = max(1, child.queue.size // 2)
        while child.queue.messages:
            for _ in range(step):
                message = child.receive()
                if message is None:
                    break
                self.messages.append(message)
            count = len(self.messages)
            if count >= self.size or (count > self.size // 2 and self._paused):
                self._paused.append(child)
                return

    def go_on(self) -> None:
        """Continue with the waiting children if there is space."""
        while self._paused and len(self.messages) <= self.size // 2:
            self.fill(self._paused.popleft())

    def remove_child(self, child: Consumer) -> None:
        """Remove a closed child."""
        if child in self._paused:
            self._paused.remove(child)
