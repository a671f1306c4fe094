"""Statistics of partitioned topics: the sums over the partitions (PartitionedTopicStats of 4.2.4).

Values that cannot be summed are zero. For a time of the topic, the latest value is used. Publishers at the same list
position are summed. So are consumers if a partition has as many as the partitions before it together; otherwise they
are added to the list. Other values of subscriptions and consumers are those of the last partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pcli.minibroker.stats.topic_stats import Json
from pcli.minibroker.timestamps import instant_text

__all__ = ["partitioned_stats"]

_LATEST: Final = frozenset(("topicCreationTimeStamp", "lastPublishTimeStamp", "lastExpireTimestamp"))
"""Times for which the latest value is used."""

_EARLIEST: Final = frozenset(("earliestMsgPublishTimeInBacklog", "earliestMsgPublishTimeInBacklogs"))
"""Times for which the earliest value is used."""

_OF_LAST: Final = frozenset(
    (
        "type",
        "firstMessagesSentTimestamp",
        "firstConsumedFlowTimestamp",
        "drainingHashes",
        "keyHashRangeArrays",
        "ongoingTxnCount",
        "abortedTxnCount",
        "committedTxnCount",
    )
)
"""Values of the last partition."""

_SAME: Final = frozenset(("backlogQuotaLimitSize", "backlogQuotaLimitTime"))
_ZERO: Final = frozenset(("avgMessagesPerEntry", "producerId", "averageMsgSize", "bytesOutInternalCounter"))
_OLDEST: Final = "oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName"
_ONE_BY_ONE: Final = frozenset(
    (
        "ownerBroker",
        "deduplicationStatus",
        "topicEpoch",
        "accessMode",
        "producerName",
        "address",
        "connectedSince",
        "clientVersion",
        "metadata",
        "keySharedMode",
        "activeConsumerName",
    )
)
"""Fields that apply only to a single topic or client."""

_NEVER: Final = frozenset(("lastAckedTime", "lastConsumedTime"))
"""Times that are not summed and are reported as the start of 1970. (Times named ``…Timestamp`` are 0.)"""


def partitioned_stats(partitions: dict[str, Json], count: int, *, each: bool) -> Json:
    """Return the statistics of a partitioned topic. If ``each`` is set, include the statistics of each partition."""
    return {
        **_merge(list(partitions.values())),
        "metadata": {"partitions": count, "deleted": False},
        "partitions": partitions if each else {},
    }


def _merge(parts: list[Json]) -> Json:
    return {name: value for name, value in _merged(parts) if name not in _ONE_BY_ONE}


def _merged(parts: list[Json]) -> Iterator[tuple[str, Any]]:
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [part[name] for part in parts if name in part]
        first = values[0]
        if name in _ZERO or name in _SAME:
            yield name, first if name in _SAME else type(first)(0)
        elif name == "compaction":
            yield name, dict.fromkeys(first, 0)
        elif name in _OLDEST:
            oldest = max((part.get(_OLDEST[0], 0), part.get(_OLDEST[1], "")) for part in parts)
            yield name, max(0, oldest[0]) if name == _OLDEST[0] else oldest[1]
        elif name in _NEVER:
            yield name, instant_text(0)
        elif name in _EARLIEST:
            yield name, min((value for value in values if value > 0), default=0)
        elif name in _LATEST:
            yield name, max(values)
        elif name == "subscriptions":
            yield name, {key: _merge([value[key] for value in values if key in value]) for key in _keys(values)}
        elif name in _OF_LAST:
            yield name, values[-1]
        elif name == "consumers":
            yield name, _consumers(values)
        elif name == "publishers":
            places = range(max(len(value) for value in values))
            yield name, [_merge([value[place] for value in values if place < len(value)]) for place in places]
        elif isinstance(first, bool):
            yield name, any(values)
        elif isinstance(first, int | float):
            yield name, 0 if name.endswith("Timestamp") else sum(values)
        else:
            yield name, first


def _consumers(values: list[list[Json]]) -> list[Json]:
    """Return the consumers of all partitions (SubscriptionStatsImpl.add)."""
    found: list[list[Json]] = []
    for consumers in values:
        if len(found) == len(consumers):
            for same, one in zip(found, consumers):
                same.append(one)
        else:
            found += [[one] for one in consumers]
    return [_merge(same) for same in found]


def _keys(values: list[Json]) -> list[str]:
    return list(dict.fromkeys(key for value in values for key in value))
