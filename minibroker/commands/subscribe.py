"""SUBSCRIBE: the checks in the real broker's order, the subscription, and the consumer (ServerCnx.handleSubscribe).

A consumer is joining while the broker checks the liveness of a consumer that blocks it. During this time its id is in
use, its other commands are ignored, and CLOSE_CONSUMER cancels the SUBSCRIBE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.minibroker.commands.permission_checks import require_consume
from pcli.minibroker.errors import Refused
from pcli.minibroker.storage.cursor import ManagedCursor
from pcli.minibroker.topic_names import check_subscription_name, is_system
from pcli.minibroker.topics.consumer import Consumer
from pcli.minibroker.topics.dispatcher import EXCLUSIVE, FAILOVER, KEY_SHARED
from pcli.minibroker.topics.schema_checks import check_consumer_schema
from pcli.minibroker.topics.subscription import Subscription

if TYPE_CHECKING:
    from pcli.minibroker.connection import Connection
    from pcli.minibroker.topics.topic import Topic

_RESERVED: Final = "pulsar.dedup"
"""The name of the deduplication cursor."""


def subscribe(connection: Connection, command: pb.CommandSubscribe, frame: Frame) -> None:
    """Handle SUBSCRIBE. Raises Refused."""
    broker, settings = connection.broker, connection.broker.settings
    name = broker.topic_registry.topic_name(command.topic)
    require_consume(connection, name, command.subscription)
    size = sum(len(pair.key) + len(pair.value) for pair in command.metadata)
    if size > settings.maxConsumerMetadataSize:
        raise Refused(pb.MetadataError, f"metadata has a max size of {settings.maxConsumerMetadataSize} bytes")
    if command.consumer_id in connection.pending_subscribes:
        raise Refused(pb.ServiceNotReady, "Consumer is already present on the connection")
    if command.consumer_id in connection.consumers:
        connection.answer_success(command.request_id)
        return
    topic = broker.get_or_create(name, create=command.force_topic_creation, missing=f"Topic {name} does not exist")
    limit = topic.effective("maxConsumersPerTopic")
    if 0 < limit <= sum(len(one.consumers) for one in topic.subscriptions.values()) and not is_system(name):
        raise Refused(pb.ConsumerBusy, "Topic reached max consumers limit")
    exists = command.subscription in topic.subscriptions
    if settings.strictlyVerifySubscriptionName and not exists:
        check_subscription_name(command.subscription)
    if command.durable and topic.persistent and not exists and not topic.effective("allowAutoSubscriptionCreation"):
        raise Refused(pb.SubscriptionNotFound, "Subscription does not exist")
    if command.HasField("schema"):
        check_consumer_schema(topic, command.schema)
    _check_request(topic, command)
    topic.effective_policies.check_subscribe_rate(connection, command)
    subscription = _open(topic, command)
    if command.start_message_rollback_duration_sec > 0 and topic.persistent:
        since = broker.now - command.start_message_rollback_duration_sec * 1000
        subscription.reset(subscription.offset_at(since))
    try:
        _check_limits(subscription, connection, command)
        _join(subscription, connection, command, tries=0)
    except Refused:
        if not exists and not (command.durable and topic.persistent):
            topic.remove_subscription(subscription)
        raise


def _check_request(topic: Topic, command: pb.CommandSubscribe) -> None:
    """Check the command against the topic's policies and state."""
    kind = command.subType
    if command.read_compacted and not topic.persistent:
        raise Refused(pb.NotAllowedError, "readCompacted only valid on persistent topics")
    if command.read_compacted and kind not in (EXCLUSIVE, FAILOVER):
        raise Refused(pb.NotAllowedError, "readCompacted only allowed on failover or exclusive subscriptions")
    if kind == KEY_SHARED and not topic.broker.settings.subscriptionKeySharedEnable:
        raise Refused(pb.NotAllowedError, "Key_Shared subscription is disabled by broker")
    word = pb.CommandSubscribe.SubType.Name(kind)
    if topic.persistent and word not in topic.effective("subscriptionTypesEnabled"):
        raise Refused(pb.NotAllowedError, f"Topic[{{{topic.full_name}}}] doesn't support {word} sub type!")
    if not command.subscription.strip():
        raise Refused(pb.ProducerBusy, "Empty subscription name")
    prefix = topic.broker.settings.replicatorPrefix
    if command.subscription.startswith(prefix) or command.subscription == _RESERVED:
        raise Refused(pb.ProducerBusy, "Subscription with reserved subscription name attempted")
    if topic.fenced:
        raise Refused(pb.ServiceNotReady, "Topic is temporarily unavailable")


# -- opening the subscription ------------------------------------------------------------------------------------------


def _open(topic: Topic, command: pb.CommandSubscribe) -> Subscription:
    """Return the subscription. Create it if it does not exist."""
    found = topic.subscriptions.get(command.subscription)
    if not topic.persistent:
        return found or topic.add_subscription(
            Subscription(topic, command.subscription, None, properties=_properties(command))
        )
    if found is not None and found.durable != command.durable:
        kind = "Durable" if found.durable else "NonDurable"
        raise Refused(pb.NotAllowedError, f"{kind} subscription with the same name already exists.")
    if found is not None:
        if command.replicate_subscription_state and found.durable and not found.replicated:
            found.replicated = True
            if found.documents is not None:
                found.documents.created()
        return found
    topic.check_subscription_limit()
    assert topic.ledger is not None
    cursor = topic.detached_cursors.pop(command.subscription, None)
    if cursor is None:
        mark_delete = _start(topic, command)
        cursor = ManagedCursor(topic.ledger, command.subscription, mark_delete, durable=command.durable)
    elif not command.read_compacted:
        cursor.skip_trimmed()
    subscription = Subscription(
        topic,
        command.subscription,
        cursor,
        durable=cursor.durable,
        properties=_properties(command),
        replicated=command.replicate_subscription_state,
    )
    subscription.keeps_trimmed = command.read_compacted and not cursor.durable
    return topic.add_subscription(subscription)


def _properties(command: pb.CommandSubscribe) -> dict[str, str]:
    return {pair.key: pair.value for pair in command.subscription_properties}


def _start(topic: Topic, command: pb.CommandSubscribe) -> int:
    """Return the mark-delete position of a new subscription."""
    ledger, compaction = topic.ledger, topic.compaction
    assert ledger is not None
    assert compaction is not None
    earliest = command.initialPosition == pb.CommandSubscribe.Earliest
    end = ledger.first - 1 if earliest else ledger.next - 1
    if command.durable:
        return end
    if not command.HasField("start_message_id"):
        return end
    ledger_id, entry_id = signed(command.start_message_id.ledgerId), signed(command.start_message_id.entryId)
    if ledger_id < 0:
        return ledger.first - 1
    if (ledger_id, entry_id) > ledger.position(ledger.next - 1):
        return end
    source = compaction if command.read_compacted else ledger
    return source.next_valid(ledger_id, max(0, entry_id)) - 1


# -- adding the consumer -----------------------------------------------------------------------------------------------


def _check_limits(subscription: Subscription, connection: Connection, command: pb.CommandSubscribe) -> None:
    """Check the limits of the subscription and the type of its consumers."""
    topic = subscription.topic
    subscription.check_type(command.subType, _meta(command))
    limit = topic.effective("maxConsumersPerSubscription")
    if command.subType != EXCLUSIVE and 0 < limit <= len(subscription.consumers):
        raise Refused(pb.ConsumerBusy, "Subscription reached max consumers limit")
    limit = topic.effective("maxSameAddressConsumersPerTopic")
    if limit > 0:
        host = connection.peer[0]
        everybody = (one for other in topic.subscriptions.values() for one in other.consumers)
        if sum(one.connection.peer[0] == host for one in everybody) >= limit:
            raise Refused(pb.ConsumerBusy, "Topic reached max same address consumers limit")


def _meta(command: pb.CommandSubscribe) -> pb.KeySharedMeta | None:
    return command.keySharedMeta if command.HasField("keySharedMeta") else None


_MAX_TRIES: Final = 5
"""Maximum number of liveness checks for one SUBSCRIBE (AbstractDispatcherSingleActiveConsumer)."""


def _join(subscription: Subscription, connection: Connection, command: pb.CommandSubscribe, tries: int) -> None:
    """Add the consumer. If a different consumer blocks it, first check whether that consumer is alive."""
    holder = subscription.blocking_consumer(command.subType, _meta(command))
    if holder is not None and tries < _MAX_TRIES and holder.connection is not connection:
        connection.pending_subscribes[command.consumer_id] = command

        def on_liveness(alive: bool) -> None:
            if connection.pending_subscribes.pop(command.consumer_id, None) is not command or connection.closing:
                return
            try:
                _retry_join(subscription, connection, command, tries=_MAX_TRIES if alive else tries + 1)
            except Refused as refused:
                connection.answer_error(command.request_id, refused)

        holder.connection.check_liveness(on_liveness)
        return
    if holder is not None and command.subType == EXCLUSIVE:
        raise Refused(pb.ConsumerBusy, "Exclusive consumer is already connected")
    individual = subscription.cursor is not None and command.subType not in (EXCLUSIVE, FAILOVER)
    consumer = Consumer(subscription, connection, command, individual=individual)
    if subscription.name not in subscription.topic.subscriptions:
        subscription.topic.add_subscription(subscription)
    subscription.add_consumer(consumer, command.subType)
    connection.consumers[command.consumer_id] = consumer
    connection.answer_success(command.request_id)


def _retry_join(subscription: Subscription, connection: Connection, command: pb.CommandSubscribe, tries: int) -> None:
    """Repeat the checks, because the topic or subscription may have changed, and add the consumer."""
    topic = subscription.topic
    if topic.fenced:
        raise Refused(pb.ServiceNotReady, "Topic is temporarily unavailable")
    current = topic.subscriptions.get(subscription.name, subscription)
    _check_limits(current, connection, command)
    _join(current, connection, command, tries)


HANDLERS = {"SUBSCRIBE": subscribe}
