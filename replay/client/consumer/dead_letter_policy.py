"""Dead letters for messages that were redelivered too often, and retry letters for later delivery.

Rules of this file (ConsumerImpl.processPossibleToDLQ, doReconsumeLater, RetryMessageUtil; 4.2.4)
1. An entry with ``maxRedeliverCount`` redeliveries becomes a candidate. When its redelivery is requested, or when it is
   delivered once more, its messages are sent to the dead letter topic and the entry is acknowledged. If the messages
   cannot be sent, redelivery of the entry is requested.
2. Candidates are dropped on each new connection, and a candidate is dropped when it is acknowledged.
3. A letter is sent with the consumer's schema, even for bytes (AUTO_PRODUCE_BYTES), so that the broker registers the
   schema. The letter has the payload, key, ordering key, event time and properties of the message. REAL_TOPIC,
   ORIGIN_MESSAGE_ID (also under the misspelt name that old clients read) and REAL_SUBSCRIPTION are added if they are
   missing.
4. A retry letter contains the number of retries in RECONSUMETIMES and the delay in DELAY_TIME. After more than
   ``maxRedeliverCount`` retries it is sent to the dead letter topic.
5. The producers are created when they are first needed, with chunking instead of batching. A failed creation is retried
   with back-off.

If ``retryEnable`` is set, the names of the topics are those of ConsumerBuilderImpl.subscribeAsync. The retry letter
topic is consumed together with the other topics. A missing name is composed of the first topic and the subscription. If
a topic exists under the name that old clients use (which contains only the subscription), that name is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.backoff import Backoff
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.random_names import alphanumeric
from pcli.replay.client.settings import ConsumerSettings, DeadLetterPolicy, ProducerSettings
from pcli.replay.client.wait_for_all import gather

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext
    from pcli.replay.client.consumer.consumer import Consumer
    from pcli.replay.client.consumer.incoming_entry import IncomingMessage

DLQ: Final = "-DLQ"
RETRY: Final = "-RETRY"
"""Suffixes of the default letter topics, for example ``<topic>-<subscription>-DLQ``."""

_BYTES: Final = pb.Schema(name="Bytes", schema_data=b"", type=pb.Schema.Type.Value("None"))

_RECONSUMETIMES: Final = "RECONSUMETIMES"
_LONGEST_WAIT: Final = 60_000


class DeadLetterSender:
    """The sender of the dead letters and retry letters of one consumer that has a dead letter policy."""

    def __init__(self, consumer: Consumer) -> None:
        policy = consumer.settings.deadLetterPolicy
        assert policy is not None
        subscription = consumer.settings.subscriptionName
        self.most = policy.maxRedeliverCount
        self.possible: dict[ClientMessageId, list[IncomingMessage]] = {}
        """Candidates: entries that are sent to the dead letter topic when their redelivery is requested."""
        self._consumer = consumer
        dead_topic = policy.deadLetterTopic or f"{consumer.written}-{subscription}{DLQ}"
        retry_topic = policy.retryLetterTopic or f"{consumer.written}-{subscription}{RETRY}"
        schema = consumer.settings.schema
        self._schema = schema or _BYTES
        plain = ProducerSettings(batchingEnabled=False, chunkingEnabled=True, schema=schema)
        self._retry = _DeadLetterProducer(consumer, retry_topic, lambda: plain)

        def named() -> ProducerSettings:
            """Return settings with a new random producer name for each attempt."""
            name = f"{consumer.topic}-{subscription}-{consumer.name}-{alphanumeric(consumer.engine.random)}{DLQ}"
            return ProducerSettings(
                producerName=name,
                initialSubscriptionName=policy.initialSubscriptionName,
                batchingEnabled=False,
                chunkingEnabled=True,
                schema=schema,
            )

        self._dead = _DeadLetterProducer(consumer, dead_topic, named)

    def send(self, id_: ClientMessageId, done: Callable[[bool], None]) -> None:
        """Send the messages of a candidate and acknowledge it.

        Pass ``done`` False if the entry is not a candidate or if sending failed, or else True.
        """
        messages = self.possible.get(id_.whole)
        if messages is None:
            done(messages is not None)
            return
        results: list[bool] = []

        def report(*, sent: bool) -> None:
            if not results:
                results.append(sent)
                done(sent)

        def sent_one(response: object) -> None:
            if isinstance(response, ClientFailure):
                report(sent=False)
            else:
                self.possible.pop(id_, None)
                self._consumer.acknowledge(id_, lambda failure: report(sent=failure is None))

        for message in messages:
            self._dead.post(_letter(message, self._properties(message, message.topic), self._schema), sent_one)

    def put_off(
        self,
        message: IncomingMessage,
        origin: str,
        delay_ms: int,
        properties: Mapping[str, str],
        done: Callable[[object], None],
    ) -> None:
        """Send a message to the retry letter or dead letter topic. ``origin`` is the value of REAL_TOPIC."""
        named = self._properties(message, origin) | dict(properties)
        try:
            times = int(named.get(_RECONSUMETIMES, "0")) + 1
        except ValueError:
            done(ClientFailure("InvalidMessage", f"RECONSUMETIMES is {named[_RECONSUMETIMES]!r}"))
            return
        named |= {_RECONSUMETIMES: str(times), "DELAY_TIME": str(max(delay_ms, 0))}
        if times > self.most:
            self._dead.post(_letter(message, named, self._schema), done)
        else:
            deliver_at = self._consumer.engine.now + delay_ms if delay_ms > 0 else None
            self._retry.post(_letter(message, named, self._schema, deliver_at), done)

    def close(self) -> None:
        """Drop all candidates and close the producers."""
        self.possible.clear()
        self._dead.close()
        self._retry.close()

    def _properties(self, message: IncomingMessage, origin: str) -> dict[str, str]:
        id_ = message.id
        text = f"{id_.ledger}:{id_.entry}:{id_.partition}" + (f":{id_.batch_index}" if id_.batch_index >= 0 else "")
        added = {
            "REAL_TOPIC": origin,
            "ORIGIN_MESSAGE_IDY_TIME": text,
            "ORIGIN_MESSAGE_ID": text,
            "REAL_SUBSCRIPTION": self._consumer.settings.subscriptionName,
        }
        return dict(sorted((added | dict(message.content.properties)).items()))


class _DeadLetterProducer:
    """A producer that is created when the first letter is sent."""

    def __init__(self, consumer: Consumer, topic: str, settings: Callable[[], ProducerSettings]) -> None:
        self._engine = consumer.engine
        self._topic = topic
        self._settings = settings
        self._producer: Any = None
        self._waiting: list[tuple[OutgoingMessage, Callable[[object], None]]] = []
        self._backoff = Backoff(100, _LONGEST_WAIT, self._engine.settings.operationTimeoutMs * 2, self._engine.random)
        self._failed = False
        self._closed = False

    def post(self, letter: OutgoingMessage, done: Callable[[object], None]) -> None:
        """Send a letter. ``done`` is called with the letter's id or a ClientFailure."""
        if self._producer is not None:
            if not self._producer.send(letter, done):
                done(ClientFailure("ProducerQueueIsFull", f"no message can be sent to {self._topic} now"))
            return
        self._waiting.append((letter, done))
        if len(self._waiting) > 1:
            return
        if self._failed:
            engine = self._engine
            engine.call_at(engine.now + self._backoff.next(engine.now), self._open)
        else:
            self._open()

    def _open(self) -> None:
        self._engine.produce(self._topic, self._settings(), self._opened)

    def _opened(self, producer: Any) -> None:
        waiting, self._waiting = self._waiting, []
        self._failed = isinstance(producer, ClientFailure)
        if self._failed:
            for _, done in waiting:
                done(producer)
            return
        self._backoff.reset()
        self._producer = producer
        for letter, done in waiting:
            self.post(letter, done)
        if self._closed:
            producer.close(lambda *_: None)

    def close(self) -> None:
        self._closed = True
        if self._producer is not None:
            self._producer.close(lambda *_: None)


def _letter(
    message: IncomingMessage, properties: Mapping[str, str], schema: pb.Schema | None, deliver_at: int | None = None
) -> OutgoingMessage:
    content = message.content
    return OutgoingMessage(
        message.data,
        key=content.key,
        key_is_bytes=content.key_is_bytes,
        ordering_key=content.ordering_key,
        properties=properties,
        event_time=content.event_time,
        schema=schema,
        deliver_at=deliver_at,
    )


def with_dead_letter_topics(
    engine: ClientContext, settings: ConsumerSettings, done: Callable[[ConsumerSettings], None]
) -> None:
    """Pass ``done`` the settings with both letter topics, and with the retry letter topic in the topic names."""
    policy = settings.deadLetterPolicy or DeadLetterPolicy()
    first = TopicName.parse(settings.topicNames[0])
    suffixes = {"retryLetterTopic": RETRY, "deadLetterTopic": DLQ}
    names = {kind: getattr(policy, kind) for kind in suffixes}

    def look(kind: str, completed: Callable[[ClientFailure | None], None]) -> None:
        local = f"{settings.subscriptionName}{suffixes[kind]}"
        old = str(dataclasses.replace(first, local=local))

        def on_response(response: int | ClientFailure) -> None:
            names[kind] = f"{first}-{local}" if isinstance(response, ClientFailure) else old
            completed(None)

        engine.partitions(old, on_response, create=False)

    def looked(_: ClientFailure | None) -> None:
        whole = dataclasses.replace(policy, **names)
        topics = tuple(dict.fromkeys((*settings.topicNames, whole.retryLetterTopic)))
        done(dataclasses.replace(settings, deadLetterPolicy=whole, topicNames=topics))

    gather([kind for kind, name in names.items() if not name], look, looked)
