"""SUBSCRIBE with the fields of the Java client (ConsumerImpl.connectionOpened, Commands.newSubscribe; 4.2.4).

Rules of this file
1. The name of a single topic is sent in the form that the application specified. These fields are always present:
   priority, durable, read_compacted, initial position, force_topic_creation, consumer epoch. These fields are present
   only if set: metadata, properties, Key_Shared policy, replicated state.
2. A start id is sent only for a non-durable subscription, always with a batch index (-1 if none). The rollback duration
   is sent only while the start is ``startMessageId``.
3. A consumer whose schema is bytes sends no schema. AUTO_CONSUME is sent only to brokers with protocol version 21 or
   later; older brokers receive the topic's schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.replay.client.message_ids import ClientMessageId
from pcli.replay.client.settings import ConsumerSettings, KeySharedPolicy

if TYPE_CHECKING:
    from pcli.replay.client.consumer.consumer import Consumer

_AUTO_CONSUME_KNOWN: Final = 21
_UNSIGNED: Final = (1 << 64) - 1


def subscribe_command(consumer: Consumer, version: int) -> pb.CommandSubscribe:
    """Return SUBSCRIBE for the current state of a consumer, without a request id, for a protocol version."""
    settings = consumer.settings
    body = pb.CommandSubscribe(
        topic=consumer.written,
        subscription=settings.subscriptionName,
        subType=pb.CommandSubscribe.SubType.Value(settings.subscriptionType),
        consumer_id=consumer.number,
        consumer_name=consumer.name,
        priority_level=settings.priorityLevel,
        durable=settings.subscriptionMode == "Durable",
        read_compacted=settings.readCompacted,
        initialPosition=pb.CommandSubscribe.InitialPosition.Value(settings.subscriptionInitialPosition),
        force_topic_creation=consumer.create,
        consumer_epoch=consumer.consumer_epoch,
    )
    _add_maps(body, settings)
    _add_start(body, settings, consumer.start_id)
    if settings.replicateSubscriptionState is not None:
        body.replicate_subscription_state = settings.replicateSubscriptionState
    if settings.keySharedPolicy is not None:
        body.keySharedMeta.CopyFrom(_key_shared(settings.keySharedPolicy))
    schema = settings.schema
    if schema is not None and schema.type == pb.Schema.AutoConsume and version < _AUTO_CONSUME_KNOWN:
        schema = consumer.found_schema
    if schema is not None:
        body.schema.CopyFrom(schema)
    return body


def _add_maps(body: pb.CommandSubscribe, settings: ConsumerSettings) -> None:
    for key, value in settings.properties.items():
        body.metadata.add(key=key, value=value)
    for key, value in settings.subscriptionProperties.items():
        body.subscription_properties.add(key=key, value=value)


def _add_start(body: pb.CommandSubscribe, settings: ConsumerSettings, start: ClientMessageId | None) -> None:
    if settings.subscriptionMode == "Durable" or start is None:
        return
    place = body.start_message_id
    place.ledgerId, place.entryId, place.batch_index = (
        start.ledger & _UNSIGNED,
        start.entry & _UNSIGNED,
        start.batch_index,
    )
    if settings.startMessageRollbackDurationSec > 0 and start == settings.startMessageId:
        body.start_message_rollback_duration_sec = settings.startMessageRollbackDurationSec


def _key_shared(policy: KeySharedPolicy) -> pb.KeySharedMeta:
    mode = pb.STICKY if policy.ranges else pb.AUTO_SPLIT
    meta = pb.KeySharedMeta(keySharedMode=mode, allowOutOfOrderDelivery=policy.allowOutOfOrderDelivery)
    if policy.entryBucketDispatch:
        meta.entry_bucket_dispatch = True
    for start, end in policy.ranges:
        meta.hashRanges.add(start=start, end=end)
    return meta
