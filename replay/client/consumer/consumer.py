"""A consumer of one topic or one partition.

Rules of this file (ConsumerImpl, ConsumerBase; 4.2.4)
1. The base class in `consumer_connection` subscribes. Before each SUBSCRIBE, the queue and the dead letter candidates
   are cleared, and the start of a non-durable subscription is computed (`receiver_queue.start_again`). Afterwards the
   consumer sends permits for the whole queue. After its first SUBSCRIBE, a child of a multi-topics consumer waits for
   its parent instead.
2. When the application receives a message that arrived on the current connection, its permit is returned and the
   message is tracked for the ack timeout. If there is a listener, both happen when the listener is called.
3. Acks and redelivery follow `message_ids`, `ack_grouping_tracker`, `negative_acks_tracker` and
   `unacked_message_tracker`.
4. Only subscription types with one active consumer support cumulative acks.
5. Closing sends the waiting acks, then CLOSE_CONSUMER.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.codec.wire.hot import push_flow
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.ack_grouping_tracker import AckDone, AckGroupingTracker
from pcli.replay.client.consumer.consumer_connection import ConsumerConnection
from pcli.replay.client.consumer.cursor_requests import LastMessageId, SeekDone, SeekOperation
from pcli.replay.client.consumer.dead_letter_policy import DeadLetterSender
from pcli.replay.client.consumer.incoming_entry import IncomingMessage
from pcli.replay.client.consumer.message_reception import MessageReception
from pcli.replay.client.consumer.negative_acks_tracker import NegativeAcksTracker
from pcli.replay.client.consumer.receiver_queue import ReceiverQueue, start_again
from pcli.replay.client.consumer.redelivery_requests import redeliver_all, redeliver_some
from pcli.replay.client.consumer.subscribe_command import subscribe_command
from pcli.replay.client.consumer.unacked_message_tracker import UnackedMessageTracker
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.random_names import alphanumeric

if TYPE_CHECKING:
    from pcli.codec.proto.pulsar_api_pb2 import Schema
    from pcli.replay.client.client_context import ClientContext
    from pcli.replay.client.settings import ConsumerSettings

Listener = Callable[[IncomingMessage], None]
"""A function that is called with each message when it arrives, instead of `receive`."""

_INDIVIDUAL: Final = ("Shared", "Key_Shared")
_CLOSED: Final = ClientFailure("Closed", "the consumer is closed")


class Parent(Protocol):
    """The interface of a multi-topics consumer for its children."""

    name: str
    """The consumer name of all children."""

    @property
    def listens(self) -> bool:
        """Whether a listener returns the permits."""

    def arrived(self, child: Consumer) -> None:
        """Process new messages of a child."""


class Consumer(ConsumerConnection):
    """A consumer of one topic. ``created`` is called once, with the consumer or the ClientFailure."""

    takes_batches: ClassVar[bool] = True

    def __init__(
        self,
        engine: ClientContext,
        topic: str,
        settings: ConsumerSettings,
        created: Callable[[Consumer | ClientFailure], None],
        *,
        parent: Parent | None = None,
        create: bool = True,
        written: str = "",
        found_schema: Schema | None = None,
    ) -> None:
        super().__init__(engine, topic, created)
        parsed = TopicName.parse(topic)
        self.settings = settings
        self.parent = parent
        self.written = written or topic
        """The topic name that the application specified, short or long."""
        self.create = create
        """Whether the broker may create the topic."""
        self.found_schema = found_schema
        """The topic's schema, which is requested for AUTO_CONSUME."""
        self.partition = parsed.partition
        self.persistent = parsed.persistent
        self.individual = settings.subscriptionType in _INDIVIDUAL
        """Whether messages are acknowledged and redelivered individually."""
        self.name = settings.consumerName or (alphanumeric(engine.random) if parent is None else parent.name)
        self.consumer_epoch = 0
        start = settings.startMessageId
        self.start_id = start.first or start if start is not None and settings.resetIncludeHead else start
        """The id after (or at) which a non-durable subscription starts."""
        self.last_taken: IncomingMessage | None = None
        """The last message that the application has received since the last seek, or None."""
        self.ended = False
        """Whether the topic is terminated and all messages were received."""
        self.active: bool | None = None
        """Whether this is the active consumer (Failover); None until the broker has reported it."""
        self.on_message: Callable[[], None] | None = None
        """A function that is called when messages have arrived."""
        self.on_active: Callable[[bool], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.queue = ReceiverQueue(settings.receiverQueueSize, self._flow, paused=settings.startPaused)
        self.unacked = UnackedMessageTracker(engine, settings, self._redeliver_timed_out)
        self.acks = AckGroupingTracker(engine, self, settings)
        self.dead = None if settings.deadLetterPolicy is None else DeadLetterSender(self)
        self.seeking = SeekOperation(self)
        self._last = LastMessageId(self)
        self._reception = MessageReception(self)
        self._nacks = NegativeAcksTracker(engine, settings, self._redeliver_timed_out)
        self._listener: Listener | None = None
        self._tracks = settings.ackTimeoutMillis > 0

    # -- connection --------------------------------------------------------------------------------------------------

    def prepare(self) -> int:
        """Clear the queue."""
        if self.seeking.under_way:
            self.acks.flush_and_clean()
        waited = len(self.queue.messages)
        waiting = self.queue.messages[0].id if waited else None
        self.queue.clear()
        if not self.seeking.reconnected() and self.settings.subscriptionMode != "Durable":
            taken = None if self.last_taken is None else self.last_taken.id
            self.start_id = start_again(waiting, taken, self.start_id)
        if self.dead is not None:
            self.dead.possible.clear()
        return waited

    def command(self, version: int) -> pb.CommandSubscribe:
        """Return SUBSCRIBE for the current state of this consumer."""
        return subscribe_command(self, version)

    def begin(self, *, first: bool, waited: int) -> None:
        """Send permits for the whole queue. After its first SUBSCRIBE, a child waits for its parent instead."""
        del waited
        if not first or self.parent is None:
            self.queue.increase(self.queue.size)

    def ready(self) -> None:
        """Enter the state READY after the broker's response. Acks can now be sent, but no permits are granted yet."""
        super().ready()
        self.acks.connection = self.connection
        self.queue.subscribed()

    def lost(self) -> None:
        """Keep the acks for the next connection."""
        self.acks.connection = None

    def received(self, event: Event) -> None:
        """Process MESSAGE, ACTIVE_CONSUMER_CHANGE and REACHED_END_OF_TOPIC."""
        if event.name == "MESSAGE":
            if self.connection is not None:
                self._reception.take(event, self.connection)
        elif event.name == "ACTIVE_CONSUMER_CHANGE":
            self.active = event.body.is_active
            if self.on_active is not None:
                self.on_active(event.body.is_active)
        elif event.name == "REACHED_END_OF_TOPIC":
            self.ended = True
            if self.on_end is not None:
                self.on_end()

    def _flow(self, permits: int) -> None:
        if self.connection is not None:
            self.connection.write(push_flow(self.number, permits))

    # -- receiving ---------------------------------------------------------------------------------------------------

    def receive(self) -> IncomingMessage | None:
        """Return the next message.

        If it is None, `on_message` is called later. Raises LocalError if there is a listener.
        """
        if self._listener is not None:
            raise LocalError("a consumer with a listener does not support receive")
        messages = self.queue.messages
        if not messages:
            return None
        message = self.last_taken = messages.popleft()
        if message.arrival.connection is self.connection:
            if self.parent is None or not self.parent.listens:
                self.queue.increase()
            if self._tracks:
                self.track(message.id, message.redelivery_count)
        return message

    def listen(self, listener: Listener) -> None:
        """Call a function with each message when it arrives."""
        self._listener = listener
        self._call_listener()

    def enqueue(self, messages: list[IncomingMessage]) -> None:
        """Add received messages to the queue."""
        self.queue.messages.extend(messages)
        if self._listener is not None:
            self._call_listener()
        elif self.parent is not None:
            self.parent.arrived(self)
        elif self.on_message is not None:
            self.on_message()

    def _call_listener(self) -> None:
        while self.queue.messages and self._listener is not None and self.may_connect:
            message = self.last_taken = self.queue.messages.popleft()
            if message.arrival.connection is self.connection:
                self.queue.increase()
            if self.individual or not -1 < message.arrival.epoch < self.consumer_epoch:
                self.unacked.add(message.id.whole, message.redelivery_count)
                self._listener(message)

    def reject_batch(self, id_: ClientMessageId) -> None:
        """Reject a batch. Only a consumer without a queue overrides this."""
        raise NotImplementedError

    def track(self, id_: ClientMessageId, redelivery_count: int) -> None:
        """Track a message for the ack timeout. If there is a parent, it tracks the messages of its children."""
        if self.parent is not None:
            self.unacked.remove(id_.whole)
        elif self._listener is None:
            self.unacked.add(id_.whole, redelivery_count)

    def pause(self) -> None:
        """Stop sending permits."""
        self.queue.pause()

    def resume(self) -> None:
        """Send permits again."""
        self.queue.resume()

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def acknowledge(self, id_: ClientMessageId, done: AckDone | None = None) -> None:
        """Acknowledge a message."""
        state = self.state
        if state is State.READY or state is State.CONNECTING:
            self.acks.add(id_, done)
        elif done is not None:
            done(_CLOSED)

    def acknowledge_cumulative(
        self, id_: ClientMessageId, done: AckDone | None = None, properties: Mapping[str, int] | None = None
    ) -> None:
        """Acknowledge all messages up to this id. The broker stores the properties with the subscription's cursor."""
        if self.individual:
            _refuse(
                done,
                ClientFailure("InvalidConfiguration", "cumulative acks require an Exclusive or Failover subscription"),
            )
        elif not self.may_connect:
            _refuse(done, _CLOSED)
        else:
            self.acks.add_cumulative(id_, done, properties)

    def negative_acknowledge(self, id_: ClientMessageId, redelivery_count: int = 0) -> None:
        """Request redelivery of a message after a delay. Only a redelivery back-off uses the count."""
        self._nacks.add(id_, redelivery_count)
        self.unacked.remove(id_.whole)

    def reconsume_later(
        self,
        message: IncomingMessage,
        delay_ms: int,
        properties: Mapping[str, str] | None = None,
        done: AckDone | None = None,
        *,
        origin: str = "",
    ) -> None:
        """Send a message to the retry letter topic for delivery after a delay, and acknowledge it."""
        if self.dead is None or not self.settings.retryEnable:
            _refuse(done, ClientFailure("NotAllowed", "reconsumeLater requires retryEnable and a dead letter policy"))
            return
        if not self.may_connect:
            _refuse(done, _CLOSED)
            return

        def sent(response: object) -> None:
            if isinstance(response, ClientFailure):
                self.unacked.remove(message.id)
                self.redeliver({message.id})
                _refuse(done, response)
            else:
                self.acknowledge(message.id, done)

        self.dead.put_off(message, origin or message.topic, delay_ms, properties or {}, sent)

    def settled(self, id_: ClientMessageId) -> None:
        """Process the acknowledgement of an entry."""
        whole = id_.whole
        self.unacked.remove(whole)
        if self.dead is not None and self.dead.possible:
            self.dead.possible.pop(whole, None)

    def settled_till(self, last: ClientMessageId) -> None:
        """Process the acknowledgement of all messages up to this message."""
        self.unacked.remove_till(last)

    # -- redelivery and position -------------------------------------------------------------------------------------

    def redeliver_unacknowledged(self) -> None:
        """Request redelivery of all unacknowledged messages."""
        redeliver_all(self)

    def redeliver(self, ids: set[ClientMessageId]) -> None:
        """Request redelivery of these entries, or of all entries if the subscription type supports only that."""
        redeliver_some(self, ids)

    def _redeliver_timed_out(self, ids: set[ClientMessageId]) -> None:
        """Request redelivery of entries, and of all chunks of chunked messages."""
        for id_ in list(ids):
            chunks = self.acks.chunks.pop(id_, None)
            if chunks is not None:
                ids.update(chunks)
        self.redeliver(ids)

    def seek(self, target: ClientMessageId | int, done: SeekDone) -> None:
        """Move the cursor to an id or a publish time (ms since 1970)."""
        self.seeking.seek(target, done)

    def has_message_available(self, done: Callable[[bool | ClientFailure], None]) -> None:
        """Call ``done`` with True if there is a message after the last received message, or else with False."""
        self._last.available(done)

    def last_message_ids(self, done: Callable[[list[ClientMessageId] | ClientFailure], None]) -> None:
        """Pass ``done`` the last message id of the topic."""
        self._last.request(lambda last, _: done(last if isinstance(last, ClientFailure) else [last]))

    # -- closing -----------------------------------------------------------------------------------------------------

    def unsubscribe(self, done: SeekDone, *, force: bool = False) -> None:
        """Delete the subscription. If ``force`` is set, delete it even if it has other consumers."""
        connection = self.connected
        if connection is None:
            done(
                _CLOSED
                if not self.may_connect
                else ClientFailure("Disconnected", "there is no connection for UNSUBSCRIBE")
            )
            return
        self.state = State.CLOSING

        def on_response(response: Event | ClientFailure) -> None:
            if isinstance(response, ClientFailure):
                self.state = State.READY
                done(response)
            else:
                self.end(State.CLOSED)
                done(None)

        connection.request(pb.CommandUnsubscribe(consumer_id=self.number, force=force), on_response)

    def close(self, done: SeekDone) -> None:
        """Close the consumer at the broker."""
        connection = self.connected
        if connection is None:
            self.end(State.CLOSED)
            done(None)
            return
        self._stop()
        self.state = State.CLOSING

        def on_response(response: Event | ClientFailure) -> None:
            self.end(State.CLOSED)
            done(response if isinstance(response, ClientFailure) and connection.close_reason is None else None)

        connection.request(pb.CommandCloseConsumer(consumer_id=self.number), on_response)

    def _stop(self) -> None:
        """Stop timers and clear the queue (closeConsumerTasks)."""
        self.unacked.close()
        self.acks.close()
        self._nacks.close()
        self._reception.chunks.clear()
        self.queue.clear()
        if self.dead is not None:
            self.dead.close()

    def end(self, state: State) -> None:
        """Enter a final state and stop."""
        self._stop()
        self.acks.connection = None
        self.give_up(state)


def _refuse(done: AckDone | None, failure: ClientFailure) -> None:
    if done is not None:
        done(failure)
