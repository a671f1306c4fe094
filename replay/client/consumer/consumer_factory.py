"""Creation of consumers. The settings and the topics determine the class.

Rules of this file (ConsumerBuilderImpl.subscribeAsync, PulsarClientImpl.subscribeAsync; 4.2.4)
1. Invalid settings fail before anything is sent. Default names of dead letter and retry letter topics are added.
2. For one topic, the number of partitions is requested first. A multi-topics consumer is created for a partitioned
   topic, and a plain consumer is created for any other topic. Consumers of several topics or of a pattern request the
   partitions themselves.
3. For AUTO_CONSUME and a single topic, the schema is requested first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.consumer import Consumer
from pcli.replay.client.consumer.dead_letter_policy import with_dead_letter_topics
from pcli.replay.client.consumer.multi_topics_consumer import Created, MultiTopicsConsumer
from pcli.replay.client.consumer.pattern_consumer import open_pattern
from pcli.replay.client.consumer.settings_checks import settings_fault
from pcli.replay.client.consumer.zero_queue_consumer import ZeroQueueConsumer
from pcli.replay.client.message_ids import EARLIEST, LATEST
from pcli.replay.client.settings import ConsumerSettings

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext


def open_consumer(engine: ClientContext, settings: ConsumerSettings, done: Created) -> None:
    """Create a consumer of one topic, several topics or a topic pattern."""
    fault = settings_fault(settings)
    if fault is not None:
        done(fault)
    elif settings.retryEnable and settings.topicNames:
        with_dead_letter_topics(engine, settings, lambda whole: open_unchecked(engine, whole, done))
    else:
        open_unchecked(engine, settings, done)


def open_unchecked(engine: ClientContext, settings: ConsumerSettings, done: Created) -> None:
    """Create a consumer with settings that are known to be valid, such as the settings of a reader."""
    if settings.topicsPattern:
        open_pattern(engine, settings, done)
        return
    topics = sorted({str(TopicName.parse(topic)) for topic in settings.topicNames})
    if len(topics) > 1:
        MultiTopicsConsumer(engine, settings, done).start(dict.fromkeys(topics))
    else:
        _open_one(engine, topics[0], settings, done)


def _open_one(engine: ClientContext, topic: str, settings: ConsumerSettings, done: Created) -> None:
    schema: pb.Schema | None = None

    def has_schema(response: pb.CommandGetSchemaResponse | ClientFailure) -> None:
        nonlocal schema
        if isinstance(response, ClientFailure) and response.error != "TopicNotFound":
            done(response)
            return
        schema = None if isinstance(response, ClientFailure) else response.schema
        engine.partitions(topic, has_partitions)

    def has_partitions(count: int | ClientFailure) -> None:
        if isinstance(count, ClientFailure):
            done(count)
        elif count and settings.startMessageId not in (None, EARLIEST, LATEST):
            done(ClientFailure("InvalidConfiguration", "a reader of partitions starts at the beginning or the end"))
        elif count and not settings.receiverQueueSize:
            done(ClientFailure("InvalidConfiguration", "a receiverQueueSize of 0 requires a topic without partitions"))
        elif count:
            several = MultiTopicsConsumer(engine, settings, done)
            several.found_schema = schema
            several.start({topic: count})
        else:
            kind = Consumer if settings.receiverQueueSize else ZeroQueueConsumer
            written = settings.topicNames[0]
            kind(engine, topic, settings, done, written=written, found_schema=schema).start()

    if settings.schema is not None and settings.schema.type == pb.Schema.AutoConsume:
        engine.schema(topic, b"", has_schema)
    else:
        engine.partitions(topic, has_partitions)
