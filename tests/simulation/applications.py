"""Applications: programs that produce and consume with a client.

Rules of this file
1. Each message has a payload of its own: the number of the application and of the message.
2. An exact producer gives each message its number as sequence id. After a crash it sends all messages without a
   receipt again, with the same ids, as an application that uses deduplication does.
3. A consumer takes a random time for each message. It acknowledges, returns or keeps the message at random. When the
   run ends it acknowledges everything (``drain``).
4. A consumer returns at most 500 messages and keeps the next ones. Without batch index acks, a batch is redelivered as
   a whole, and hardly ever all of its messages are acknowledged at random: the batch would be redelivered until the
   end of the run.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random
from typing import Any

from simulation.clients import Client

from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ConsumerSettings, KeySharedPolicy, ProducerSettings

_MAX_NACKS = 500
_PAUSE_CHECK_MS = 500
"""The interval in which the application of a paused client checks whether the pause has ended."""


class ProducerApplication:
    """A program with one producer."""

    def __init__(self, client: Client, number: int, topic: str, step: dict[str, Any]) -> None:
        self.client, self.number, self.topic, self.step = client, number, topic, step
        self.exact = bool(step["exact"])
        self.closed = False
        self.failed = False
        self.receipts: dict[bytes, Any] = {}
        """The id of each message with a receipt; its ledger is -1 for a duplicate."""
        self.sent: dict[bytes, OutgoingMessage] = {}
        self._waiting: deque[tuple[bytes, OutgoingMessage]] = deque()
        """Messages that wait for the producer, or for space in it."""
        self._producer: Any = None
        self._count = 0
        client.on_start.append(self._restart)
        self._open()

    def _open(self) -> None:
        step = self.step
        settings = ProducerSettings(
            producerName=step["name"] or (f"exact-{self.number}" if self.exact else ""),
            accessMode=step["access"],
            batchingEnabled=step["batch"] > 1 and not self.exact,
            batchingMaxMessages=step["batch"],
            batcherBuilder=step["batcher"],
            batchingMaxPublishDelayMicros=5000,
            sendTimeoutMs=0 if self.exact else 30_000,
        )
        engine = self.client.engine

        def opened(result: Any) -> None:
            if engine is not self.client.engine:
                return
            if isinstance(result, ClientFailure):
                self.failed = True
                return
            self._producer = result
            result.on_room = self._send_waiting
            self._send_waiting()

        self.client.turn(lambda: engine.produce(self.topic, settings, opened))

    @property
    def is_open(self) -> bool:
        """Whether the producer exists."""
        return self._producer is not None and not self.closed

    def _restart(self) -> None:
        self._producer = None
        if self.closed or self.failed:
            return
        self._waiting.clear()
        if self.exact:
            self._waiting.extend((text, message) for text, message in self.sent.items() if text not in self.receipts)
        self._open()

    def send(self, count: int, keys: int, delay_ms: int) -> None:
        """Send messages; ``keys`` is the number of different keys, or 0 for no keys."""
        if self.closed or self.failed:
            return
        self.client.turn(lambda: self._send_some(count, keys, delay_ms))

    def _send_some(self, count: int, keys: int, delay_ms: int) -> None:
        now = self.client.network.now
        for _ in range(count):
            text = b"%d.%d" % (self.number, self._count)
            key = f"k{self._count * 7 % keys}" if keys else None
            deliver_at = now + delay_ms if delay_ms else None
            sequence = self._count if self.exact else None
            message = OutgoingMessage(text, key=key, deliver_at=deliver_at, sequence_id=sequence)
            self._count += 1
            self.sent[text] = message
            self._waiting.append((text, message))
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._waiting and self._producer is not None:
            text, message = self._waiting.popleft()
            if not self._producer.send(message, partial(self._done, text)):
                self._waiting.appendleft((text, message))
                return

    def _done(self, text: bytes, result: Any) -> None:
        if not isinstance(result, ClientFailure):
            self.receipts[text] = result

    def close(self) -> None:
        """Close the producer."""
        self.closed = True
        if self._producer is not None and not self.client.down:
            self.client.turn(lambda: self._producer.close(lambda _: None))


class ConsumerApplication:
    """A program with one consumer."""

    def __init__(self, client: Client, number: int, topic: str, step: dict[str, Any]) -> None:
        self.client, self.number, self.topic, self.step = client, number, topic, step
        self.random = Random(client.network.seed * 31 + number)
        self.closed = self.failed = False
        self.draining = False
        self.received: list[tuple[bytes, Any]] = []
        """Payload and id of each received message, in order."""
        self.held: list[Any] = []
        """Messages that are neither acknowledged nor returned."""
        self._consumer: Any = None
        self._nacks = 0
        self._unsubscribing = False
        self._busy = False
        client.on_start.append(self._restart)
        self._open()

    def settings(self) -> ConsumerSettings:
        """Return the settings of the consumer."""
        step = self.step
        key_shared = None
        if step["type"] == "Key_Shared" and step["out_of_order"]:
            key_shared = KeySharedPolicy(allowOutOfOrderDelivery=True)
        return ConsumerSettings(
            topicNames=(self.topic,),
            subscriptionName=step["subscription"],
            subscriptionType=step["type"],
            subscriptionMode="Durable" if step["durable"] else "NonDurable",
            subscriptionInitialPosition=step["position"],
            consumerName=f"c{self.number}",
            priorityLevel=step["priority"],
            receiverQueueSize=step["queue"],
            readCompacted=self.is_compacted,
            acknowledgementsGroupTimeMicros=step["group_ms"] * 1000,
            batchIndexAckEnabled=step["batch_acks"],
            ackReceiptEnabled=step["receipts"],
            negativeAckRedeliveryDelayMicros=200_000,
            negativeAckPrecisionBitCnt=4,
            ackTimeoutMillis=step["ack_timeout_ms"],
            keySharedPolicy=key_shared,
            resetIncludeHead=True,
        )

    def _open(self) -> None:
        settings, engine = self.settings(), self.client.engine

        def opened(result: Any) -> None:
            if engine is not self.client.engine:
                return
            if isinstance(result, ClientFailure):
                self.failed = True
                return
            self._consumer = result
            if self.closed:
                self.close()
                return
            result.on_message = self._wake
            self._wake()

        self.client.turn(lambda: engine.subscribe(settings, opened))

    def _restart(self) -> None:
        self._consumer = None
        self._unsubscribing = False
        self.held = []
        if not self.closed and not self.failed:
            self._open()

    @property
    def is_live(self) -> bool:
        """Whether the consumer exists or is being created."""
        return not (self.closed or self.failed)

    @property
    def is_compacted(self) -> bool:
        """Whether the consumer reads the compacted topic."""
        return bool(self.step["compacted"]) and self.step["type"] in ("Exclusive", "Failover")

    # -- messages ------------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._busy:
            self._busy = True
            network = self.client.network
            network.at(network.now + self.random.choice((0, 1, 1, 3, 10)), self._work)

    def _work(self) -> None:
        self._busy = False
        if self._consumer is not None and not self.client.down:
            network = self.client.network
            if self.client.paused_until > network.now:
                self._busy = True
                network.at(min(self.client.paused_until, network.now + _PAUSE_CHECK_MS), self._work)
            else:
                self.client.turn(self._receive)

    def _receive(self) -> None:
        for _ in range(self.random.choice((1, 2, 5, 20)) if not self.draining else 100):
            message = self._consumer.receive()
            if message is None:
                return
            self.received.append((message.data, message.id))
            self._handle(message)
        self._wake()

    def _handle(self, message: Any) -> None:
        drawn, step = self.random.random(), self.step
        if self._unsubscribing:
            self.held.append(message)  # the client, like the Java client, would refuse the acknowledgement
        elif self.draining or drawn < step["ack"] / 100:
            self._acknowledge(message.id)
        elif drawn < (step["ack"] + step["nack"]) / 100 and self._nacks < _MAX_NACKS:
            self._nacks += 1
            self._consumer.negative_acknowledge(message.id, message.redelivery_count)
        else:
            self.held.append(message)

    def _acknowledge(self, id_: ClientMessageId) -> None:
        if self.step["cumulative"] and not self._consumer.individual:
            self.held = []
            self._consumer.acknowledge_cumulative(id_)
        else:
            self._consumer.acknowledge(id_)

    # -- steps of the plan ---------------------------------------------------------------------------------------------

    def _call(self, action: Any) -> None:
        if self._consumer is not None and not self.client.down:
            self.client.turn(action)

    def acknowledge(self, count: int) -> None:
        """Acknowledge messages that are held, oldest first."""
        if self._unsubscribing:
            return
        some, self.held = self.held[:count], self.held[count:]
        self._call(lambda: [self._consumer.acknowledge(message.id) for message in some])

    def redeliver(self, count: int) -> None:
        """Return messages that are held, or all unacknowledged messages if ``count`` is 0."""
        if not count:
            if self._unsubscribing:
                return  # the client, like the Java client, would ignore the request
            self.held = []
            self._call(lambda: self._consumer.redeliver_unacknowledged())
            return
        some, self.held = self.held[:count], self.held[count:]
        self._call(lambda: self._consumer.redeliver({message.id.whole for message in some}) if some else None)

    def seek(self, target: Any) -> None:
        """Move the cursor to an id or a time. The messages that are held are forgotten if this succeeds."""

        def done(result: Any) -> None:
            if not isinstance(result, ClientFailure):
                self.held = []

        self._call(lambda: self._consumer.seek(target, done))

    def unsubscribe(self) -> None:
        """Delete the subscription, if the consumer exists."""
        if self._consumer is None or self.client.down:
            return

        def done(result: Any) -> None:
            self._unsubscribing = False
            if not isinstance(result, ClientFailure):
                self.closed = True
            elif self.closed:
                self.close()
            elif self.draining:
                self.drain()

        self._unsubscribing = True
        self.client.turn(lambda: self._consumer.unsubscribe(done))

    def close(self) -> None:
        """Close the consumer; during an UNSUBSCRIBE, wait for its response."""
        self.closed = True
        if not self._unsubscribing:
            self._call(lambda: self._consumer.close(lambda _: None))

    def redeliver_if_outdated(self) -> None:
        """Request redelivery if the broker sends messages with an old epoch, which the client drops.

        This happens if redelivery was requested between SUBSCRIBE and its response, as in the Java client.
        """
        session = self.session
        if session is not None and session.sends_epoch and session.epoch < self._consumer.consumer_epoch:
            self.redeliver(0)

    @property
    def session(self) -> Any:
        """The consumer inside the broker, or None."""
        if self._consumer is None or self._consumer.connection is None:
            return None
        for link in self.client.live_links():
            if link.handle[1] is self._consumer.connection:
                return link.broker_connection.consumers.get(self._consumer.number)
        return None

    def drain(self) -> None:
        """Acknowledge everything from now on."""
        self.draining = True
        self.acknowledge(len(self.held))
        self._wake()
