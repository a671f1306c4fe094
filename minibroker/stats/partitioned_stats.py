"""Statistics of partitioned topics: the sums over the partitions (TopicStatsImpl.add of 4.2.4 and its parts).

Rules of this file
1. A field without a rule has the value of a new object: zero, False, or no value.
2. Publishers with the same name are merged if their client supports partial producers, other publishers if they have
   the same position in the list.
3. Consumers at the same position are merged if a partition has as many as the partitions before it together; otherwise
   they are added to the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pcli.minibroker.stats.topic_stats import Json
from pcli.minibroker.timestamps import instant_text

_NO_VALUE: Final = frozenset(("metadata", "topicEpoch"))
"""Fields of new objects that have no value, besides texts."""

_Rule = Callable[[list[Any]], Any]


def _last(values: list[Any]) -> Any:
    return values[-1]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _earliest(values: list[int]) -> int:
    return min((value for value in values if value), default=0)


def _union(values: list[dict[str, str]]) -> dict[str, str]:
    return {key: value for one in values for key, value in one.items()}


def _never(_values: list[str]) -> str:
    return instant_text(0)


def _rules(*tables: tuple[_Rule, str]) -> dict[str, _Rule]:
    return {name: rule for rule, names in tables for name in names.split()}


_CONSUMER: Final = _rules(
    (sum, "msgRateOut messageAckRate msgThroughputOut bytesOutCounter msgOutCounter msgRateRedeliver"),
    (sum, "availablePermits unackedMessages drainingHashesClearedTotal"),
    (_last, "blockedConsumerOnUnackedMsgs readPositionWhenJoining drainingHashesCount drainingHashesUnackedMessages"),
    (_last, "drainingHashes keyHashRanges keyHashRangeArrays consumerName"),
    (_last, "firstMessagesSentTimestamp firstConsumedFlowTimestamp"),
    (_never, "lastAckedTime lastConsumedTime"),
)
_PUBLISHER: Final = _rules((sum, "msgRateIn msgThroughputIn msgDropRate"), (_mean, "averageMsgSize"))


def partitioned_stats(partitions: dict[str, Json], count: int, *, each: bool) -> Json:
    """Return the statistics of a partitioned topic. If ``each`` is set, include the statistics of each partition."""
    parts = list(partitions.values())
    return {
        **_merge(parts, _TOPIC),
        **_oldest(parts),
        "metadata": {"partitions": count, "deleted": False},
        "partitions": partitions if each else {},
    }


def _merge(parts: list[Json], rules: Mapping[str, _Rule]) -> Json:
    merged: Json = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [part[name] for part in parts if name in part]
        if name in rules:
            merged[name] = rules[name](values)
        elif not isinstance(values[0], str) and name not in _NO_VALUE:
            merged[name] = _new(values[0])
    return merged


def _new(value: Any) -> Any:
    """Return the value of a new object for a field that has no rule."""
    return dict.fromkeys(value, 0) if isinstance(value, dict) and value else type(value)()


def _oldest(parts: list[Json]) -> Json:
    """Return the age of the oldest message and the name of its subscription, if there is one."""
    age, name = 0, None
    for part in parts:
        if part.get("oldestBacklogMessageAgeSeconds", 0) > age:
            age, name = part["oldestBacklogMessageAgeSeconds"], part.get("oldestBacklogMessageSubscriptionName")
    found = {"oldestBacklogMessageAgeSeconds": age}
    return found if name is None else {**found, "oldestBacklogMessageSubscriptionName": name}


def _publishers(values: list[list[Json]]) -> list[Json]:
    by_position: list[list[Json]] = []
    by_name: dict[str, list[Json]] = {}
    for publishers in values:
        for position, one in enumerate(publishers):
            if one["supportsPartialProducer"]:
                by_name.setdefault(one["producerName"], []).append(one)
            elif position == len(by_position):
                by_position.append([one])
            else:
                by_position[position].append(one)
    named = [
        {**_merge(same, _PUBLISHER), "supportsPartialProducer": True, "producerName": name}
        for name, same in sorted(by_name.items())
    ]
    return [_merge(same, _PUBLISHER) for same in by_position] + named


def _consumers(values: list[list[Json]]) -> list[Json]:
    found: list[list[Json]] = []
    for consumers in values:
        if len(found) == len(consumers):
            for same, one in zip(found, consumers):
                same.append(one)
        else:
            found += [[one] for one in consumers]
    return [_merge(same, _CONSUMER) for same in found]


def _subscriptions(values: list[dict[str, Json]]) -> dict[str, Json]:
    names = dict.fromkeys(name for value in values for name in value)
    return {name: _merge([value[name] for value in values if name in value], _SUBSCRIPTION) for name in names}


_SUBSCRIPTION: Final = _rules(
    (sum, "msgRateOut msgThroughputOut bytesOutCounter msgOutCounter msgRateRedeliver messageAckRate"),
    (sum, "chunkedMessageRate msgBacklog backlogSize msgBacklogNoDelayed msgDelayed msgInReplay unackedMessages"),
    (sum, "msgRateExpired msgExpired totalMsgExpired msgDropRate"),
    (sum, "drainingHashesCount drainingHashesClearedTotal drainingHashesUnackedMessages"),
    (sum, "nonContiguousDeletedMessagesRanges nonContiguousDeletedMessagesRangesSerializedSize"),
    (sum, "delayedMessageIndexSizeInBytes"),
    (sum, "filterProcessedMsgCount filterAcceptedMsgCount filterRejectedMsgCount filterRescheduledMsgCount"),
    (sum, "dispatchThrottledMsgEventsBySubscriptionLimit dispatchThrottledBytesEventsBySubscriptionLimit"),
    (sum, "dispatchThrottledMsgEventsByTopicLimit dispatchThrottledBytesEventsByTopicLimit"),
    (sum, "dispatchThrottledMsgEventsByBrokerLimit dispatchThrottledBytesEventsByBrokerLimit"),
    (any, "isReplicated replicated isDurable durable allowOutOfOrderDelivery"),
    (_union, "consumersAfterMarkDeletePosition subscriptionProperties"),
    (_earliest, "earliestMsgPublishTimeInBacklog"),
    (max, "oldestBacklogMessageAgeSeconds"),
    (_last, "type"),
    (_consumers, "consumers"),
)

_TOPIC: Final = _rules(
    (sum, "msgRateIn msgThroughputIn msgRateOut msgThroughputOut msgDropRate"),
    (sum, "bytesInCounter msgInCounter bytesOutCounter msgOutCounter waitingPublishers storageSize backlogSize"),
    (sum, "publishRateLimitedTimes offloadedStorageSize delayedMessageIndexSizeInBytes"),
    (sum, "nonContiguousDeletedMessagesRanges nonContiguousDeletedMessagesRangesSerializedSize"),
    (_mean, "averageMsgSize"),
    (_last, "ongoingTxnCount abortedTxnCount committedTxnCount backlogQuotaLimitTime backlogQuotaLimitSize"),
    (_earliest, "topicCreationTimeStamp earliestMsgPublishTimeInBacklogs"),
    (max, "lastPublishTimeStamp"),
    (_publishers, "publishers"),
    (_subscriptions, "subscriptions"),
)
