"""The statistics of a scalable topic and of a segment (ScalableTopicStats and SegmentTopicStats of 5.0.1).

Rules of this file
1. The values of a segment are those of its topic (`topic_stats`) with other names. A field without a value is left out.
2. In the statistics of the topic, the producers and consumers of one application on several segments are one, with the
   name that the application gave to it.
3. A subscription is of type STREAM if REST created it as such, while consumers are registered, or after the last one
   was lost; otherwise of type QUEUE. Registered consumers are sorted by name, and have the segments assigned to them. A
   segment is blocked for the subscription while stream consumers wait for its parents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.scalable import name_on_segment
from pcli.minibroker.scalable.layout_changes import buckets
from pcli.minibroker.stats.topic_stats import topic_stats
from pcli.minibroker.timestamps import instant_text

if TYPE_CHECKING:
    from pcli.codec.scalable import Segment
    from pcli.minibroker.policies.auto_scale_policy import AutoScalePolicy
    from pcli.minibroker.scalable.scalable_topic import ScalableTopic
    from pcli.minibroker.scalable.subscription_coordinator import SubscriptionCoordinator
    from pcli.minibroker.topics.topic import Topic

Json = dict[str, Any]

_NAMES: Final = {"byteRateIn": "msgThroughputIn", "byteRateOut": "msgThroughputOut"}
"""The names in the statistics of a topic, if they differ."""
_RATES: Final = ("msgRateIn", "byteRateIn", "msgRateOut", "byteRateOut")
_CLIENT: Final = ("address", "connectedSince", "clientVersion")
_OUT: Final = ("msgRateOut", "byteRateOut", "msgRateRedeliver", "messageAckRate")
_BACKLOG: Final = ("msgBacklog", "backlogSize", "unackedMessages")
_NOTHING: Final[Json] = {
    **dict.fromkeys((*_BACKLOG, "drainingBuckets"), 0),
    **dict.fromkeys(("msgRateOut", "byteRateOut"), 0.0),
    "consumers": (),
}
"""The statistics of a subscription on a segment that waits and where it does not exist yet."""
_OLDEST: Final = "oldestBacklogMessageAgeSeconds"


def _picked(stats: Json, *names: str) -> Json:
    return {name: stats[_NAMES.get(name, name)] for name in names}


def _sums(parts: Iterable[Json], *names: str) -> Json:
    parts = list(parts)
    zero = {name: 0.0 if "Rate" in name else 0 for name in names}
    return {name: sum((part[name] for part in parts), zero[name]) for name in names}


def _average(rates: Json) -> float:
    """Return the average message size in bytes, or 0 if the rate is 0."""
    return float(rates["byteRateIn"] / rates["msgRateIn"]) if rates["msgRateIn"] else 0.0


def _times(stats: Json) -> Json:
    """Return the times of the last message and acknowledgement."""
    times = {name: stats[f"{name}stamp"] for name in ("lastConsumedTime", "lastAckedTime")}
    return {name: instant_text(time) for name, time in times.items() if time}


# -- one segment -------------------------------------------------------------------------------------------------------


def segment_stats(topic: Topic) -> Json:
    """Return the statistics of the topic that stores a segment."""
    stats = topic_stats(topic)
    producer = ("producerName", "accessMode", "msgRateIn", "byteRateIn", "averageMsgSize", *_CLIENT)
    return {
        "ownerBroker": stats["ownerBroker"],
        "terminated": topic.terminated,
        **_picked(stats, *_RATES, "averageMsgSize", "storageSize", "backlogSize", "offloadedStorageSize", _OLDEST),
        "waitingPublishers": stats["waitingPublishers"],
        "topicCreationTime": instant_text(topic.created),
        "producers": [_picked(one, *producer) for one in stats["publishers"]],
        "subscriptions": {name: _segment_subscription(one) for name, one in stats["subscriptions"].items()},
    }


def _segment_subscription(stats: Json) -> Json:
    consumer = ("consumerName", *_OUT, "availablePermits", "unackedMessages", "blockedConsumerOnUnackedMsgs", *_CLIENT)
    return {
        **_picked(stats, "type", *_OUT, *_BACKLOG),
        "drainingBuckets": stats["drainingHashesCount"],
        _OLDEST: stats.get(_OLDEST, -1),
        "blockedSubscriptionOnUnackedMsgs": stats["blockedSubscriptionOnUnackedMsgs"],
        **_times(stats),
        "consumers": [{**_picked(one, *consumer), **_times(one)} for one in stats["consumers"]],
    }


# -- the topic ---------------------------------------------------------------------------------------------------------


def scalable_topic_stats(
    topic: ScalableTopic, stored: Mapping[int, Topic], policy: AutoScalePolicy, broker: str, now: int
) -> Json:
    """Return the statistics of a topic.

    ``stored`` has the topics of its segments by id, ``broker`` is the address of the broker, and ``now`` is the time in
    milliseconds since 1970.
    """
    stats = {number: segment_stats(one) for number, one in stored.items()}
    rates = _sums(stats.values(), *_RATES)
    names = dict.fromkeys(name for one in stats.values() for name in one["subscriptions"])
    names |= dict.fromkeys((*topic.subscription_types, *topic.coordinators))
    return {
        "controllerBroker": broker,
        "autoScale": _auto_scale(topic, policy),
        "layout": _layout(topic, stats, now),
        **rates,
        "averageMsgSize": _average(rates),
        **_sums(stats.values(), "storageSize", "backlogSize"),
        "producers": _producers(stats),
        "subscriptions": {name: _subscription(topic, name, stats) for name in names},
    }


def _auto_scale(topic: ScalableTopic, policy: AutoScalePolicy) -> Json:
    last = {kind: f"last{kind.capitalize()}At" for kind in ("split", "merge", "rebucket")}
    return {
        "policy": dataclasses.asdict(policy),
        **({"blockedReason": "invalid_policy"} if policy.error else {}),
        **{name: instant_text(topic.last_by_kind[kind]) for kind, name in last.items() if kind in topic.last_by_kind},
    }


def _layout(topic: ScalableTopic, stats: Mapping[int, Json], now: int) -> Json:
    segments = topic.layout.segments.values()
    return {
        "epoch": topic.layout.epoch,
        **_last_operation(topic),
        "segments": {str(one.id): _segment(topic, one, stats.get(one.id), now) for one in segments},
    }


def _last_operation(topic: ScalableTopic) -> Json:
    last = topic.last
    if last is None:
        return {}
    shown = {
        "operation": last.kind,
        "trigger": "auto" if last.automatic else "manual",
        "segmentIds": list(last.segments),
        "status": "failure" if last.error else "success",
        "at": instant_text(last.at),
    }
    return {"lastOperation": {**shown, **({"error": last.error} if last.error else {})}}


def _segment(topic: ScalableTopic, one: Segment, stats: Json | None, now: int) -> Json:
    shown: Json = {"name": topic.segment_name(one), "state": "ACTIVE" if one.active else "SEALED"}
    for name, numbers in (("parentIds", one.parents), ("childIds", one.children)):
        if numbers:
            shown[name] = list(numbers)
    shown["createdAt"] = instant_text(one.created_ms)
    if not one.active:
        shown["sealedAt"] = instant_text(one.sealed_ms)
    load = topic.loads.get(one.id)
    if load is not None:
        shown["load"] = {**dict(zip(_RATES, load.rates, strict=True)), "ageSeconds": (now - load.at) / 1000}
    if stats is not None:
        shown["terminated"] = stats["terminated"]
    shown["entryBuckets"] = buckets(one)
    return shown if stats is None else {**shown, "ownerBroker": stats["ownerBroker"]}


def _producers(stats: Mapping[int, Json]) -> list[Json]:
    found: dict[str, Json] = {}
    for number, segment in stats.items():
        for one in segment["producers"]:
            name = _application_name(number, one["producerName"])
            first = found.setdefault(name, {**one, "producerName": name, "msgRateIn": 0.0, "byteRateIn": 0.0})
            for rate in ("msgRateIn", "byteRateIn"):
                first[rate] += one[rate]
            first["averageMsgSize"] = _average(first)
    return list(found.values())


def _application_name(number: int, name: str) -> str:
    return name.removesuffix(name_on_segment("", number))


# -- subscriptions -----------------------------------------------------------------------------------------------------


def _subscription(topic: ScalableTopic, name: str, stats: Mapping[int, Json]) -> Json:
    here = {number: one["subscriptions"][name] for number, one in stats.items() if name in one["subscriptions"]}
    coordinator = topic.coordinators.get(name)
    kind = "STREAM" if coordinator is not None else topic.subscription_types.get(name, "QUEUE")
    missing = sorted(one.id for one in topic.layout.active if one.id not in here)
    waiting = set() if coordinator is None else coordinator.waiting
    checkpoint = coordinator is not None and bool(coordinator.consumers) and not coordinator.stream
    return {
        "type": kind,
        **_sums(here.values(), *_BACKLOG, *_OUT),
        **({} if checkpoint else {"uncoveredSegmentIds": missing}),
        "segments": {
            str(number): _on_segment(one, blocked=number in waiting)
            for number, one in {**dict.fromkeys(waiting, _NOTHING), **here}.items()
        },
        "consumers": _consumers(coordinator, here),
    }


def _on_segment(stats: Json, *, blocked: bool) -> Json:
    return {
        **_picked({**stats, "msgThroughputOut": stats["byteRateOut"]}, *_BACKLOG, "msgRateOut", "byteRateOut"),
        "blocked": blocked,
        "drainingBuckets": stats["drainingBuckets"],
        "consumerCount": len(stats["consumers"]),
    }


def _consumers(coordinator: SubscriptionCoordinator | None, here: Mapping[int, Json]) -> list[Json]:
    found: dict[str, Json] = {}
    if coordinator is not None:
        for name, one in sorted(coordinator.consumers.items()):
            assigned = [segment.id for segment, _ in coordinator.assignment[name]]
            found[name] = _new_consumer(name, assigned, connected=one.client is not None)
    registered = set(found)
    for number, stats in here.items():
        for each in stats["consumers"]:
            name = _application_name(number, each["consumerName"])
            shown = found.setdefault(name, _new_consumer(name, [], connected=True))
            if name not in registered and number not in shown["segmentIds"]:
                shown["segmentIds"].append(number)
            for value in ("msgRateOut", "byteRateOut", "unackedMessages", "availablePermits"):
                shown[value] += each[value]
            for value in _CLIENT:
                shown.setdefault(value, each[value])
    return list(found.values())


def _new_consumer(name: str, segments: list[int], *, connected: bool) -> Json:
    rates = {"msgRateOut": 0.0, "byteRateOut": 0.0, "unackedMessages": 0, "availablePermits": 0}
    return {"consumerName": name, "connected": connected, "segmentIds": segments, **rates}
