"""A producer of one topic or one partition. Its registration is in `producer_registration`.

Rules of this file (ProducerImpl, 4.2.4)
1. Messages are accepted while the producer is connected or reconnecting, and are sent in order.
2. Before a message that is not batched (no batching, a delivery time, or an unregistered schema) is sent, the waiting
   batch is sent to keep the order.
3. If a message has no receipt ``sendTimeoutMs`` after its entry was built, all pending messages also fail, because
   their order would be broken. The time of a batch that waits for a connection starts when the batch would have been
   sent.
4. A receipt that matches no entry closes the connection. After an unknown error the producer registers again, usually
   on the same connection, and resends all entries. Receipts that arrive before the new registration are processed; a
   receipt for an entry after the failed entry is a mismatch.
5. Closing sends no messages. Messages in the batch fail immediately. Messages without a receipt fail when the response
   to CLOSE_PRODUCER arrives, even if the response is an error; in that case the Java client leaves them pending.
6. An encrypting producer renews its data key every four hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.session import Event
from pcli.codec.wire.constants import DEFAULT_MAX_MESSAGE_SIZE
from pcli.codec.wire.message_id import MessageId, signed
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.periodic_tasks import PeriodicTasks
from pcli.replay.client.producer.batch_container import (
    BatchContainer,
    BatchTimer,
    Container,
    Done,
    KeyBasedBatchContainer,
)
from pcli.replay.client.producer.entry_builder import EntryBuilder
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer.pending_sends import MISMATCH, OpSendMsg
from pcli.replay.client.producer.producer_registration import ProducerRegistration
from pcli.replay.client.producer.send_queue import SendQueue
from pcli.replay.client.producer.sequence_ids import DuplicateRisk, SequenceIds
from pcli.replay.client.settings import ProducerSettings

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext

_READY: Final = State.READY
_CONNECTING: Final = State.CONNECTING

_DATA_KEY_LIFE: Final = 4 * 3600 * 1000

_NOWHERE: Final = MessageId(-1, -1)
"""The message id of a duplicate, which the broker's receipt also contains."""

_ENDS: Final = {
    State.CLOSING: ClientFailure("Closed", "the producer is closed"),
    State.CLOSED: ClientFailure("Closed", "the producer is closed"),
    State.TERMINATED: ClientFailure("TopicTerminatedError", "the topic accepts no more messages"),
    State.PRODUCER_FENCED: ClientFailure("ProducerFenced", "another producer has fenced this producer"),
    State.FAILED: ClientFailure("Disconnected", "the producer could not be created"),
}
"""The failure of messages that are sent in a final state."""


class Producer(ProducerRegistration):
    """A producer of one topic. ``created`` is called once, with the producer or the ClientFailure."""

    def __init__(
        self,
        engine: ClientContext,
        topic: str,
        settings: ProducerSettings,
        created: Callable[[Producer | ClientFailure], None],
        *,
        name: str = "",
    ) -> None:
        super().__init__(engine, topic, settings, created)
        parsed = TopicName.parse(topic)
        self.partition = parsed.partition
        self.ids = SequenceIds(settings.initialSequenceId)
        self._outbox = SendQueue(topic, self._release)
        self.pending = self._outbox.pending
        self.on_room: Callable[[], None] | None = None
        """A function that is called when there is space again after `send` returned False."""
        self.on_possible_duplicate: Callable[[DuplicateRisk, int], None] | None = None
        """A function that is called with each possible duplicate and its sequence id."""
        self._writer = EntryBuilder(self.number, settings, chunks=settings.chunkingEnabled and parsed.persistent)
        self._writer.name = name or settings.producerName
        self._writer.largest = DEFAULT_MAX_MESSAGE_SIZE
        kind = KeyBasedBatchContainer if settings.batcherBuilder == "KEY_BASED" else BatchContainer
        limits = settings.batchingMaxMessages, settings.batchingMaxBytes
        self._batch: Container | None = kind(*limits) if settings.batchingEnabled else None
        self._batch_timer = BatchTimer(
            engine, settings.publish_delay, ready=lambda: self.state is State.READY, flush=self.trigger_flush
        )
        self._most = settings.maxPendingMessages
        self._short_of_room = False
        self._version = b""
        self._multi_schema = False
        self._last_connection: ClientConnection | None = None
        self._tasks = PeriodicTasks(engine)

    def start(self) -> None:
        """Connect to the broker, then call ``created``."""
        if self._writer.keys is not None:
            try:
                self._writer.keys.renew()
            except LocalError as fault:
                self.end(State.FAILED, ClientFailure("Crypto", fault.text))
                return
            self._tasks.begin(_DATA_KEY_LIFE, self._renew_data_key)
        if self.settings.sendTimeoutMs > 0:
            self._tasks.begin(self.settings.sendTimeoutMs, self._check_timeout)
        super().start()

    @property
    def name(self) -> str:
        """The producer's name; empty until the broker has assigned it."""
        return self._writer.name

    @property
    def waiting(self) -> int:
        """Number of messages without a receipt, including the batch."""
        return self.pending.messages + (0 if self._batch is None else self._batch.count)

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, message: OutgoingMessage, done: Done | None = None) -> bool:
        """Send a message. Return False, without sending, if the queue is full.

        ``done`` is called with the message id or a failure. The limits of the queue are ``maxPendingMessages`` and, for
        the bytes of all producers, ``memoryLimitBytes``.
        """
        batch, engine = self._batch, self.engine
        size = len(message.payload)
        if self.state is not _READY and self.state is not _CONNECTING:
            _tell((done,), _ENDS[self.state])
            return True
        if self._most and self._most <= self.waiting:
            self._short_of_room = True
            return False
        if not engine.memory.reserve(size):
            self._short_of_room = True
            engine.memory.when_available(self._tell_room)
            return False
        if batch is None or message.deliver_at is not None or message.schema is not None:
            return self._send_unusual(message, done)
        ids = self.ids
        sequence_id = message.sequence_id
        if sequence_id is None:
            sequence_id = ids.next
            ids.next = sequence_id + 1
        if (
            sequence_id <= ids.pushed
            or ids.suspected
            or self._multi_schema
            or batch.size + size > batch.most_bytes
            or batch.count >= batch.most
        ):
            self._join_batch(batch, message, sequence_id, self._version, done)
            return True
        ids.pushed = sequence_id
        if batch.add(message, sequence_id, done, engine.now, self._version):
            self.trigger_flush()
        elif self._batch_timer.timer is None:
            self._batch_timer.message_waits()
        return True

    def flush(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Send the batch. ``done`` is called when every message sent so far has its receipt or has failed."""
        self.trigger_flush()
        if self.pending.ops:
            self.pending.ops[-1].flushes.append(done)
        else:
            done(None)

    def trigger_flush(self) -> bool:
        """Send the batch now.

        Return whether there was a batch. Every blocking send calls this method (TypedMessageBuilder).
        """
        container = self._batch
        if container is None or not container.count:
            return False
        self._batch_timer.sent()
        for batch in container.take():
            op = self._writer.batch(batch, self.engine.now)
            if isinstance(op, ClientFailure):
                self._release(batch.size)
                _tell(batch.dones, op)
            else:
                self._outbox.add(op)
        return True

    def _send_unusual(self, message: OutgoingMessage, done: Done | None) -> bool:
        """Send a message that may need a separate entry."""
        version = self._version_for(message)
        ids = self.ids
        if self._batch is not None and message.deliver_at is None and version is not None:
            sequence_id = ids.take(message.sequence_id)
            self._join_batch(self._batch, message, sequence_id, version, done)
            return True
        now, size = self.engine.now, len(message.payload)
        sequence_id = ids.peek(message.sequence_id)

        def write(version: bytes) -> list[OpSendMsg] | ClientFailure:
            return self._writer.message(message, sequence_id, version, done, now)

        if version is None:
            op = OpSendMsg(sequence_id, -1, (done,), size, now)
            op.schema, op.write = message.schema, write
            ops: list[OpSendMsg] | ClientFailure = [op]
        else:
            ops = write(version)
        if isinstance(ops, ClientFailure):
            self._release(size)
            _tell((done,), ops)
            return True
        if 0 < self._most < self.waiting + len(ops):
            self._release(size)
            return self._refuse_chunks(len(ops), done)
        ids.take(message.sequence_id)
        ids.pushed = max(ids.pushed, sequence_id)
        self.trigger_flush()
        for op in ops:
            self._outbox.add(op)
        return True

    def _refuse_chunks(self, count: int, done: Done | None) -> bool:
        """Handle chunks that do not fit into the queue: wait if they may fit later, or else fail the message."""
        self._short_of_room = count <= self._most
        if not self._short_of_room:
            text = f"{count} chunks exceed maxPendingMessages, {self._most}"
            _tell((done,), ClientFailure("InvalidMessage", text))
        return not self._short_of_room

    def _join_batch(
        self, batch: Container, message: OutgoingMessage, sequence_id: int, version: bytes, done: Done | None
    ) -> None:
        """Add a message to the current batch, or send that batch first (canAddToCurrentBatch)."""
        ids = self.ids
        alone = True
        space = batch.size + len(message.payload) <= batch.most_bytes and batch.count < batch.most
        if space and (not self._multi_schema or batch.has_same_schema(message, version)):
            doubt, alone = ids.judge(sequence_id)
            if doubt is not DuplicateRisk.NONE and self.on_possible_duplicate is not None:
                self.on_possible_duplicate(doubt, sequence_id)
        if alone:
            self.trigger_flush()
        ids.pushed = max(ids.pushed, sequence_id)
        if batch.add(message, sequence_id, done, self.engine.now, version):
            self.trigger_flush()
        else:
            self._batch_timer.message_waits()

    def _version_for(self, message: OutgoingMessage) -> bytes | None:
        """Return the schema version of a message, or None if its schema must be registered."""
        schema = message.schema
        if schema is None or schema == self.settings.schema:
            return self._version
        self._multi_schema = True
        return self._outbox.version_of(schema)

    # -- commands from the broker ----------------------------------------------------------------------------------

    def received(self, event: Event) -> None:
        """Process SEND_RECEIPT or SEND_ERROR."""
        if event.name == "SEND_RECEIPT":
            self._receipt(event.body)
            return
        body = event.body
        error = pb.ServerError.Name(body.error)
        if error == "ChecksumError":
            self._outbox.checksum_error(body.sequence_id)
        elif error == "TopicTerminatedError":
            self.end(State.TERMINATED, ClientFailure(error, body.message))
        elif error == "NotAllowedError":
            self._outbox.refuse(body.sequence_id, ClientFailure(error, body.message))
        else:
            self.lost()
            self.reconnect()
            if self._last_connection is not None:
                self._last_connection.attach(self)

    def _receipt(self, body: pb.CommandSendReceipt) -> None:
        op = self.pending.receipt(body.sequence_id, signed(body.highest_sequence_id))
        if op is None:
            return
        if op == MISMATCH:
            first = self.pending.ops[0].sequence_id
            text = f"a receipt for {body.sequence_id} was received; a receipt for {first} was expected"
            assert self._last_connection is not None
            self._last_connection.close(ClientFailure("Disconnected", text))
            return
        assert isinstance(op, OpSendMsg)
        self.ids.published = max(self.ids.published, op.named)
        self._release(op.size)
        place = MessageId.of(body.message_id) if body.HasField("message_id") else _NOWHERE
        op.complete(MessageId(place.ledger, place.entry, self.partition))

    # -- connecting and closing ------------------------------------------------------------------------------------

    def prepare(self, connection: ClientConnection) -> None:
        """Set the connection's maximum message size."""
        self._last_connection = connection
        self._writer.largest = connection.max_message_size
        if self._batch is not None:
            self._batch.may_hold(connection.max_message_size)

    def begin(self, connection: ClientConnection, body: pb.CommandProducerSuccess) -> None:
        """Send or resend all waiting messages."""
        self._writer.name = self.name or body.producer_name
        self._version = body.schema_version
        self.ids.learn(body.last_sequence_id)
        resent = self._outbox.resume(connection)
        if self._batch is not None and not resent:
            self._batch_timer.set(0)
        elif self._batch is not None and self._batch.count:
            self._batch_timer.message_waits()

    def lost(self) -> None:
        """Stop sending. New messages are kept for the next connection."""
        self._outbox.pause()

    def close(self, done: Callable[[ClientFailure | None], None]) -> None:
        """Close the producer at the broker. ``done`` is called with the broker's error, or None."""
        if self.state in (State.CLOSING, State.CLOSED):
            done(None)
            return
        connection, ready = self.connection, self.state is State.READY
        self.state = State.CLOSING
        self._outbox.pause()
        self._tasks.stop()
        if connection is None or not ready:
            self.end(State.CLOSED, _ENDS[State.CLOSED])
            done(None)
            return

        def on_response(response: Event | ClientFailure) -> None:
            self.end(State.CLOSED, _ENDS[State.CLOSED])
            done(response if isinstance(response, ClientFailure) and connection.close_reason is None else None)

        connection.request(pb.CommandCloseProducer(producer_id=self.number), on_response)

    def end(self, state: State, failure: ClientFailure) -> None:
        """Enter a final state and fail the waiting messages."""
        self._outbox.pause()
        self._tasks.stop()
        self.give_up(state)
        self.fail_pending(_ENDS[state] if state is State.CLOSED else failure)
        self.finish_creation(failure)

    def fail_pending(self, failure: ClientFailure) -> None:
        """Fail all waiting messages."""
        self._outbox.fail(failure)
        for batch in () if self._batch is None else self._batch.take():
            self._release(batch.size)
            _tell(batch.dones, failure)

    # -- space and timeouts ----------------------------------------------------------------------------------------

    def _release(self, size: int) -> None:
        self.engine.memory.release(size)
        if self._short_of_room:
            self._tell_room()

    def _tell_room(self) -> None:
        if self._short_of_room and (not self._most or self.waiting < self._most):
            self._short_of_room = False
            if self.on_room is not None:
                self.on_room()

    def _renew_data_key(self) -> int:
        assert self._writer.keys is not None
        self._writer.keys.renew()
        return _DATA_KEY_LIFE

    def _check_timeout(self) -> int:
        """Fail messages that wait too long. Return the delay until the next check."""
        limit, first, batch = self.settings.sendTimeoutMs, self.pending.ops, self._batch
        if first:
            made = first[0].time
        elif batch is not None and batch.count:
            made = batch.time + self.settings.publish_delay
        else:
            return limit
        left = made + limit - self.engine.now
        if left > 0:
            return left
        self.fail_pending(ClientFailure("TimeOut", f"no receipt within {limit} ms"))
        return limit


def _tell(dones: Iterable[Done | None], failure: ClientFailure) -> None:
    for done in dones:
        if done is not None:
            done(failure)
