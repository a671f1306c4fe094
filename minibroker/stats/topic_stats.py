"""Topic stats with Pulsar's names (TopicStats, PublisherStats, SubscriptionStats, ConsumerStats of 4.2.4).

Rules of this file
1. All fields of a real response are present. Fields of missing features (offloading, entry filters, replication) have
   the values that a real broker reports if the feature is not used.
2. Counters start when the topic is loaded. `Rates` measures rates. Backlogs are in entries.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.delayed_delivery import InMemoryDelayedDeliveryTracker
from pcli.minibroker.dispatch.multiple_consumers import PersistentDispatcherMultipleConsumers
from pcli.minibroker.dispatch.sticky_key import PersistentStickyKeyDispatcherMultipleConsumers
from pcli.minibroker.storage.backlog_size import backlog_size
from pcli.minibroker.timestamps import instant_text
from pcli.minibroker.topics.topic_compaction import CompactionRecord, is_system_cursor
from pcli.minibroker.topics.topic_ledger import mark_delete_positions

if TYPE_CHECKING:
    from pcli.minibroker.dispatch.draining_hashes import DrainingHashesTracker
    from pcli.minibroker.storage.ledger import ManagedLedger
    from pcli.minibroker.topics.consumer import Consumer
    from pcli.minibroker.topics.producer import Producer
    from pcli.minibroker.topics.subscription import Subscription
    from pcli.minibroker.topics.topic import Topic
    from pcli.minibroker.topics.transport_cnx import TransportCnx

Json = dict[str, Any]

_MODES: Final = {
    pb.Shared: "Shared",
    pb.Exclusive: "Exclusive",
    pb.ExclusiveWithFencing: "ExclusiveWithFencing",
    pb.WaitForExclusive: "WaitForExclusive",
}

_UNUSED_TOPIC: Final[Json] = {
    "systemTopicBytesInCounter": 0,
    "publishRateLimitedTimes": 0,
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
    "replication": {},
}

_UNUSED_SUBSCRIPTION: Final[Json] = {
    "chunkedMessageRate": 0.0,
    "msgExpired": 0,
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
    "dispatchThrottledMsgEventsBySubscriptionLimit": 0,
    "dispatchThrottledBytesEventsBySubscriptionLimit": 0,
    "dispatchThrottledMsgEventsByTopicLimit": 0,
    "dispatchThrottledBytesEventsByTopicLimit": 0,
    "dispatchThrottledMsgEventsByBrokerLimit": 0,
    "dispatchThrottledBytesEventsByBrokerLimit": 0,
}


_DROPS: Final[Json] = {"msgDropRate": 0.0}
"""A field of producers on a non-persistent topic. It is 0 because this broker never drops SENDs to enforce a limit."""


def topic_stats(topic: Topic, *, earliest: bool = False) -> Json:
    """Return the stats of a topic. If ``earliest`` is set, add the publish time of the first unacknowledged entry."""
    ledger = topic.ledger
    subscriptions = {name: _subscription(one, earliest=earliest) for name, one in topic.subscriptions.items()}
    publishers = [_publisher(producer) for producer in topic.producers.values()]
    publishers.sort(key=lambda one: (one["supportsPartialProducer"], one["producerName"]))
    rates = _rates_in(publishers)
    out = _sums(subscriptions.values(), "msgRateOut", "msgThroughputOut", "bytesOutCounter", "msgOutCounter")
    marks = mark_delete_positions(topic)
    return {
        **rates,
        **out,
        "bytesOutCounter": out["bytesOutCounter"] + topic.bytes_out_removed,
        "msgOutCounter": out["msgOutCounter"] + topic.messages_out_removed,
        "bytesInCounter": topic.bytes_in,
        "msgInCounter": topic.messages_in,
        "averageMsgSize": _average(rates),
        "msgChunkPublished": topic.chunk_published,
        "storageSize": 0 if ledger is None else ledger.total_size,
        "backlogSize": 0 if ledger is None or not marks else backlog_size(ledger, min(marks)),
        **_UNUSED_TOPIC,
        "bytesOutInternalCounter": sum(
            one["bytesOutCounter"] for name, one in subscriptions.items() if is_system_cursor(topic, name)
        ),
        "compaction": _compaction(topic),
        **_transactions(topic),
        **_backlog_quota(topic),
        "earliestMsgPublishTimeInBacklogs": _published(ledger, min(marks) + 1) if earliest and ledger and marks else 0,
        "publishers": publishers,
        "waitingPublishers": topic.producer_access.waiting,
        "subscriptions": subscriptions,
        **({} if topic.producer_access.epoch is None else {"topicEpoch": topic.producer_access.epoch}),
        **_sums(
            subscriptions.values(),
            "nonContiguousDeletedMessagesRanges",
            "nonContiguousDeletedMessagesRangesSerializedSize",
            "delayedMessageIndexSizeInBytes",
        ),
        "ownerBroker": topic.broker.address,
        "topicCreationTimeStamp": topic.created,
        **_stored(topic, ledger, subscriptions),
    }


def _backlog_quota(topic: Topic) -> Json:
    quota = topic.backlog_quota
    if quota is None:
        return {"backlogQuotaLimitSize": 0, "backlogQuotaLimitTime": 0, "oldestBacklogMessageAgeSeconds": 0}
    stats: Json = {"backlogQuotaLimitSize": quota.limit_size(), "backlogQuotaLimitTime": quota.limit_time()}
    if quota.oldest is None:
        return {**stats, "oldestBacklogMessageAgeSeconds": -1}
    age = (topic.broker.now - quota.oldest.published) // 1000
    name = quota.oldest.subscription
    return {**stats, "oldestBacklogMessageAgeSeconds": age, "oldestBacklogMessageSubscriptionName": name}


def _compaction(topic: Topic) -> Json:
    record = CompactionRecord() if topic.compaction is None else topic.compaction.record
    return {
        "lastCompactionRemovedEventCount": record.removed,
        "lastCompactionSucceedTimestamp": record.succeeded,
        "lastCompactionFailedTimestamp": record.failed,
        "lastCompactionDurationTimeInMills": record.duration,
    }


def _transactions(topic: Topic) -> Json:
    buffer = topic.transaction_buffer
    ongoing, aborted, committed = (
        (0, 0, 0) if buffer is None else (len(buffer.ongoing), buffer.aborted_count, buffer.committed_count)
    )
    return {"ongoingTxnCount": ongoing, "abortedTxnCount": aborted, "committedTxnCount": committed}


def _stored(topic: Topic, ledger: ManagedLedger | None, subscriptions: Json) -> Json:
    if ledger is None:
        drops = _sums(subscriptions.values(), "msgDropRate")
        return {"topicCreationTimeStamp": 0, "lastPublishTimeStamp": 0, **drops}
    status = "Disabled" if topic.deduplication is None else "Enabled"
    # Without new entries since the topic was loaded, the time is that of the last entry (getLastMessagePublishTime).
    published = ledger.last_add_ms or _published(ledger, ledger.next - 1)
    return {"deduplicationStatus": status, "lastPublishTimeStamp": published}


def _publisher(producer: Producer) -> Json:
    broker = producer.topic.broker
    rate = broker.rates.of(producer)
    partial = "supports_partial_producer" in producer.connection.session.features
    rates = {"msgRateIn": rate.messages_in, "msgThroughputIn": rate.bytes_in}
    return {
        "accessMode": _MODES[producer.access_mode],
        **rates,
        "averageMsgSize": _average(rates),
        "chunkedMessageRate": 0.0,
        "producerId": producer.id,
        "supportsPartialProducer": broker.settings.aggregatePublisherStatsByProducerName and partial,
        "producerName": producer.name,
        **_client(producer.connection, producer.connected_since),
        "metadata": producer.metadata,
        **({} if producer.topic.persistent else _DROPS),
    }


def _client(connection: TransportCnx, since: int) -> Json:
    host, port = connection.peer
    return {
        "address": f"/{host}:{port}",
        "connectedSince": instant_text(since),
        "clientVersion": connection.session.client_version,
    }


def _rates_in(publishers: list[Json]) -> Json:
    return (
        _sums(publishers, "msgRateIn", "msgThroughputIn") if publishers else {"msgRateIn": 0.0, "msgThroughputIn": 0.0}
    )


def _average(rates: Json) -> float:
    """Return the average message size in bytes, or 0 if the rate is 0."""
    return float(rates["msgThroughputIn"] / rates["msgRateIn"]) if rates["msgRateIn"] else 0.0


def _sums(parts: Iterable[Json], *names: str) -> Json:
    parts = list(parts)
    zero = {name: 0.0 if "Rate" in name or "Throughput" in name else 0 for name in names}
    return {name: sum((part[name] for part in parts), zero[name]) for name in names}


# -- subscriptions -----------------------------------------------------------------------------------------------------


def _subscription(subscription: Subscription, *, earliest: bool) -> Json:
    slots = _Slots(subscription)
    consumers = [_consumer(one, slots) for one in subscription.consumers]
    cursor = subscription.cursor
    active = subscription.active if cursor is not None else None
    persistent = subscription.consumers if cursor is not None else []
    delayed = _delayed(subscription)
    out = _sums(consumers, "msgRateOut", "msgThroughputOut", "msgRateRedeliver", "messageAckRate", "unackedMessages")
    return {
        **_UNUSED_SUBSCRIPTION,
        **subscription.topic.broker.version.subscription_stats,
        **out,
        "bytesOutCounter": subscription.bytes_out,
        "msgOutCounter": subscription.messages_out,
        "msgBacklog": subscription.backlog,
        "backlogSize": _size_left(subscription),
        "earliestMsgPublishTimeInBacklog": _earliest(subscription) if earliest else 0,
        "msgBacklogNoDelayed": subscription.backlog - delayed,
        "blockedSubscriptionOnUnackedMsgs": _blocked(subscription),
        "msgDelayed": delayed,
        "msgInReplay": _in_replay(subscription),
        "type": _type(subscription),
        **({} if active is None else {"activeConsumerName": active.name}),
        "totalMsgExpired": subscription.expired,
        "lastExpireTimestamp": subscription.last_expire,
        "lastConsumedFlowTimestamp": 0 if cursor is None else subscription.last_flow,
        "lastConsumedTimestamp": max((one.last_consumed for one in persistent), default=0),
        "lastAckedTimestamp": max((one.last_acked for one in persistent), default=0),
        "lastMarkDeleteAdvancedTimestamp": subscription.last_mark_delete,
        "consumers": consumers,
        **_flags(subscription),
        **_key_shared(subscription),
        **_sums(consumers, "drainingHashesCount", "drainingHashesClearedTotal", "drainingHashesUnackedMessages"),
        "nonContiguousDeletedMessagesRanges": 0 if cursor is None else cursor.deleted_range_count,
        "nonContiguousDeletedMessagesRangesSerializedSize": _serialized_size(subscription),
        "delayedMessageIndexSizeInBytes": _index_size(subscription),
        "msgRateExpired": subscription.topic.broker.rates.of(subscription).expired,
        "subscriptionProperties": subscription.properties,
        **({} if cursor is not None else {"msgDropRate": subscription.topic.broker.rates.of(subscription).dropped}),
    }


def _flags(subscription: Subscription) -> Json:
    durable = subscription.durable and subscription.cursor is not None
    return {
        "isDurable": durable,
        "durable": durable,
        "isReplicated": subscription.replicated,
        "replicated": subscription.replicated,
    }


def _type(subscription: Subscription) -> str:
    if subscription.kind < 0:
        return "None"
    return pb.CommandSubscribe.SubType.Name(pb.CommandSubscribe.SubType.ValueType(subscription.kind))


def _key_shared(subscription: Subscription) -> Json:
    metas = [one.key_shared_meta for one in subscription.consumers if one.key_shared_meta is not None]
    stats: Json = {"allowOutOfOrderDelivery": any(meta.allowOutOfOrderDelivery for meta in metas)}
    if subscription.kind == pb.CommandSubscribe.Key_Shared and subscription.cursor is not None:
        stats["keySharedMode"] = "STICKY" if any(meta.keySharedMode == pb.STICKY for meta in metas) else "AUTO_SPLIT"
    return stats


def _consumer(consumer: Consumer, slots: _Slots) -> Json:
    rate = consumer.subscription.topic.broker.rates.of(consumer)
    draining = slots.draining(consumer)
    return {
        "msgRateOut": rate.messages_out,
        "msgThroughputOut": rate.bytes_out,
        "bytesOutCounter": consumer.bytes_out,
        "msgOutCounter": consumer.messages_out,
        "msgRateRedeliver": rate.redelivered,
        "messageAckRate": rate.acked,
        "chunkedMessageRate": 0.0,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": round(consumer.avg_messages_per_entry),
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "drainingHashesCount": len(draining),
        "drainingHashesClearedTotal": slots.cleared(consumer),
        "drainingHashesUnackedMessages": sum(one["unackMsgs"] for one in draining),
        **_client(consumer.connection, consumer.connected_since),
        "lastAckedTimestamp": consumer.last_acked,
        "lastConsumedTimestamp": consumer.last_consumed,
        "firstMessagesSentTimestamp": consumer.first_consumed,
        "lastConsumedFlowTimestamp": consumer.last_flow,
        "firstConsumedFlowTimestamp": consumer.first_flow,
        **slots.shown(consumer, draining),
        "metadata": consumer.metadata,
        "lastAckedTime": instant_text(consumer.last_acked),
        "lastConsumedTime": instant_text(consumer.last_consumed),
    }


class _Slots:
    """The Key_Shared data of each consumer: its ranges and draining slots. It is computed once per subscription."""

    def __init__(self, subscription: Subscription) -> None:
        dispatcher = subscription.dispatcher
        selector = None if subscription.cursor is None else getattr(dispatcher, "selector", None)
        self._ranges: dict[Consumer, list[tuple[int, int]]] | None = None if selector is None else selector.ranges()
        self._draining: DrainingHashesTracker | None = None
        self._drains = not isinstance(dispatcher, PersistentStickyKeyDispatcherMultipleConsumers)
        if isinstance(dispatcher, PersistentStickyKeyDispatcherMultipleConsumers):
            self._draining, self._drains = dispatcher.draining, dispatcher.drains_hashes

    def cleared(self, consumer: Consumer) -> int:
        """Return the number of slots in which a consumer's pending entries were drained."""
        return 0 if self._draining is None else self._draining.cleared[consumer]

    def draining(self, consumer: Consumer) -> list[Json]:
        """Return the draining slots of a consumer."""
        return [
            {"hash": slot, "unackMsgs": held, "blockedAttempts": blocked}
            for slot, held, blocked in (() if self._draining is None else self._draining.of(consumer))
        ]

    def shown(self, consumer: Consumer, draining: list[Json]) -> Json:
        """Return the fields with ranges and draining slots, or no fields if the subscription is not Key_Shared."""
        if self._ranges is None:
            return {}
        ranges = self._ranges.get(consumer, [])
        shown: Json = {"drainingHashes": draining} if self._drains else {}
        return {**shown, "keyHashRangeArrays": [list(pair) for pair in ranges]}


def _tracker(subscription: Subscription) -> InMemoryDelayedDeliveryTracker | None:
    dispatcher = subscription.dispatcher
    return dispatcher.delayed_tracker if isinstance(dispatcher, PersistentDispatcherMultipleConsumers) else None


def _delayed(subscription: Subscription) -> int:
    tracker = _tracker(subscription)
    return 0 if tracker is None else tracker.size


def _in_replay(subscription: Subscription) -> int:
    dispatcher = subscription.dispatcher
    return len(dispatcher.replay) if isinstance(dispatcher, PersistentDispatcherMultipleConsumers) else 0


def _blocked(subscription: Subscription) -> bool:
    dispatcher = subscription.dispatcher
    return isinstance(dispatcher, PersistentDispatcherMultipleConsumers) and dispatcher.blocked


def _earliest(subscription: Subscription) -> int:
    """Return the publish time of the first unacknowledged entry, or -1 if there is none."""
    cursor, ledger = subscription.cursor, subscription.topic.ledger
    if cursor is None or ledger is None:
        return 0
    offset = cursor.next_unacked(cursor.mark_delete + 1)
    return _published(ledger, offset) if offset < ledger.next else -1


def _published(ledger: ManagedLedger, offset: int) -> int:
    """Return the publish time of an entry, or 0 if it does not exist."""
    entry = ledger.entry(max(offset, ledger.first))
    if entry is None:
        return 0
    if not entry.parsed:
        entry.parse()
    return 0 if entry.metadata is None else entry.metadata.publish_time


# -- sizes -------------------------------------------------------------------------------------------------------------


def _size_left(subscription: Subscription) -> int:
    ledger, cursor = subscription.topic.ledger, subscription.cursor
    return 0 if ledger is None or cursor is None else backlog_size(ledger, cursor.mark_delete)


def _serialized_size(subscription: Subscription) -> int:
    """Return the stored size of the acknowledged ranges: bits in 64-bit words by ledger (LongListMap)."""
    ledger, cursor = subscription.topic.ledger, subscription.cursor
    if ledger is None or cursor is None or not subscription.durable or not cursor.has_ledger:
        return 0
    offset, deleted = cursor.deleted_bits(subscription.topic.broker.settings.managedLedgerMaxUnackedRangesToPersist)
    size = 0
    for one in ledger.ledgers if deleted else ():
        first, end = max(one.base - offset, 0), max(one.base + one.entries - offset, 0)
        bits = int.from_bytes(deleted[first // 8 : (end + 7) // 8], "little") >> first % 8 & (1 << end - first) - 1
        if bits:
            bits <<= first + offset - one.base
            count = (bits.bit_length() + 63) // 64
            words = memoryview(bits.to_bytes(8 * count, sys.byteorder)).cast("Q")
            own = 1 + _varint_size(one.id) + count + sum(map(_varint_size, words))
            size += 1 + _varint_size(own) + own
    return size


def _varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def _index_size(subscription: Subscription) -> int:
    tracker = _tracker(subscription)
    return 0 if tracker is None else tracker.index_size
