"""Creation of consumers of scalable topics. The setting ``scalableType`` determines the class."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.consumer.multi_topics_consumer import Created
from pcli.replay.client.consumer.settings_checks import settings_fault
from pcli.replay.client.scalable.checkpoint_consumer import CheckpointConsumer, CheckpointGroupConsumer
from pcli.replay.client.scalable.scalable_consumer import QueueConsumer, ScalableConsumer
from pcli.replay.client.scalable.stream_consumer import StreamConsumer
from pcli.replay.client.settings import ConsumerSettings

if TYPE_CHECKING:
    from pcli.replay.client.client_context import ClientContext


def open_scalable_consumer(engine: ClientContext, settings: ConsumerSettings, done: Created) -> None:
    """Create a consumer of a scalable topic, which is created if it does not exist.

    A checkpoint consumer may have no subscription name; otherwise the name is that of its group.
    """
    fault = _fault(settings)
    if fault is not None:
        done(fault)
        return
    kind: type[ScalableConsumer] = StreamConsumer
    if settings.scalableType == "queue":
        kind = QueueConsumer
    elif settings.scalableType == "checkpoint":
        kind = CheckpointGroupConsumer if settings.subscriptionName else CheckpointConsumer
    topic = str(TopicName.parse(settings.topicNames[0]))
    kind(engine, dataclasses.replace(settings, topicNames=(topic,)), done).begin()


def _fault(settings: ConsumerSettings) -> ClientFailure | None:
    named = settings
    if settings.scalableType == "checkpoint" and not settings.subscriptionName:
        named = dataclasses.replace(settings, subscriptionName="reader")
    fault = settings_fault(named)
    if fault is None and len(settings.topicNames) > 1:
        fault = ClientFailure("InvalidConfiguration", "a consumer of a scalable topic has one topic")
    if fault is None and not settings.receiverQueueSize:
        fault = ClientFailure("InvalidConfiguration", "a consumer of a scalable topic requires a receiverQueueSize")
    if fault is None and settings.subscriptionType != "Exclusive":
        fault = ClientFailure("InvalidConfiguration", "a consumer of a scalable topic has a scalableType instead")
    return fault
