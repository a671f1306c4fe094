"""Statistics of the broker and of all topics (BrokerStatsBase).

Rules of this file
1. The responses have the structure of a real broker. They contain current values; a real broker refreshes them once a
   minute.
2. Values of Java and BookKeeper are absent: there are no MBeans, and the pool of the allocator is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, RestError
from pcli.minibroker.stats.topic_stats import Json, topic_stats
from pcli.minibroker.topic_names import namespace_of

if TYPE_CHECKING:
    from pcli.minibroker.topics.topic import Topic

_STATS: Final = "/admin/v2/broker-stats"
_ALLOCATORS: Final = ("default", "ml-cache")
_OPERATIONS: Final = (
    "dataLedgerOpenOp",
    "dataLedgerCloseOp",
    "dataLedgerCreateOp",
    "dataLedgerDeleteOp",
    "cursorLedgerOpenOp",
    "cursorLedgerCloseOp",
    "cursorLedgerCreateOp",
    "cursorLedgerDeleteOp",
)
_PUBLISHER: Final = ("msgRateIn", "msgThroughputIn", "averageMsgSize", "address", "producerId", "producerName")
_ABOUT: Final = ("connectedSince", "clientVersion", "metadata")
_CONSUMER: Final = (
    "address",
    "consumerName",
    "availablePermits",
    "connectedSince",
    "msgRateOut",
    "msgThroughputOut",
    "msgRateRedeliver",
    "avgMessagesPerEntry",
    "messageAckRate",
)
_UNACKED: Final = ("unackedMessages", "blockedConsumerOnUnackedMsgs")
_SUBSCRIPTION: Final = (
    "msgBacklog",
    "msgRateExpired",
    "msgRateOut",
    "messageAckRate",
    "msgThroughputOut",
    "msgRateRedeliver",
)
_FILTERS: Final = dict.fromkeys(
    ("filterProcessedMsgCount", "filterAcceptedMsgCount", "filterRejectedMsgCount", "filterRescheduledMsgCount"), 0
)
_TOPIC: Final = (
    ("averageMsgSize", "averageMsgSize"),
    ("msgRateIn", "msgRateIn"),
    ("msgRateOut", "msgRateOut"),
    ("msgInCount", "msgInCounter"),
    ("bytesInCount", "bytesInCounter"),
    ("msgOutCount", "msgOutCounter"),
    ("bytesOutCount", "bytesOutCounter"),
    ("msgThroughputIn", "msgThroughputIn"),
    ("msgThroughputOut", "msgThroughputOut"),
)
"""Names of the statistics of a topic, and of the same values in ``stats``."""


# -- topics ------------------------------------------------------------------------------------------------------------


def _topics(call: Call) -> Any:
    """Return the statistics of all loaded topics by namespace, bundle and domain."""
    found: dict[str, dict[str, dict[str, dict[str, Json]]]] = {}
    for topic in call.broker.topics.values():
        space = call.broker.policies.namespace_of(topic.name)
        if space is not None:
            domain = "persistent" if topic.persistent else "non-persistent"
            bundles = found.setdefault(space.name, {})
            topics = bundles.setdefault(space.bundle(topic.full_name), {}).setdefault(domain, {})
            topics[topic.full_name] = _topic(topic)
    return found


def _topic(topic: Topic) -> Json:
    stats = topic_stats(topic)
    publisher = (*_PUBLISHER, *_ABOUT)
    found = {
        "publishers": [{name: one[name] for name in publisher if name in one} for one in stats["publishers"]],
        "replication": {},
        "subscriptions": {name: _subscription(topic, name, one) for name, one in stats["subscriptions"].items()},
        "producerCount": len(stats["publishers"]),
        **{name: stats[key] for name, key in _TOPIC},
        "filteredEntriesCount": 0,
    }
    if topic.persistent:
        found |= {"storageSize": stats["storageSize"], "backlogSize": stats["backlogSize"], "pendingAddEntriesCount": 0}
    return found


def _subscription(topic: Topic, name: str, stats: Json) -> Json:
    individual = stats["type"] in ("Shared", "Key_Shared")
    consumer = (*_CONSUMER, *(_UNACKED if individual else ()), "clientVersion", "metadata")
    found: Json = {
        "consumers": [{key: one[key] for key in consumer if key in one} for one in stats["consumers"]],
        **{key: stats[key] for key in _SUBSCRIPTION},
        "type": stats["type"],
        **_FILTERS,
    }
    cursor = topic.subscriptions[name].cursor
    if cursor is None:
        return {**found, "msgDropRate": stats["msgDropRate"]}
    found["numberOfEntriesSinceFirstNotAckedMessage"] = cursor.read_position - cursor.mark_delete
    found["totalNonContiguousDeletedMessagesRange"] = cursor.deleted_range_count
    if individual:
        found |= {key: stats[key] for key in ("blockedSubscriptionOnUnackedMsgs", "unackedMessages")}
    return found


# -- the broker --------------------------------------------------------------------------------------------------------


def _metrics(call: Call) -> Any:
    """Return the number of connections, and the sums of each namespace."""
    broker = call.broker
    about = {"broker": broker.host, "cluster": broker.settings.clusterName, "metric": "broker_connection"}
    found: list[Json] = [{"metrics": {"brk_active_connections": len(broker.connections)}, "dimensions": about}]
    spaces: dict[str, list[Topic]] = {}
    for topic in broker.topics.values():
        spaces.setdefault(namespace_of(topic.name), []).append(topic)
    for name, topics in spaces.items():
        found.append({"metrics": _namespace(topics), "dimensions": {"namespace": name}})
    return found


def _namespace(topics: list[Topic]) -> Json:
    stats = [topic_stats(topic) for topic in topics]
    subscriptions = [one for topic in stats for one in topic["subscriptions"].values()]
    return {
        "brk_in_rate": sum(one["msgRateIn"] for one in stats),
        "brk_in_tp_rate": sum(one["msgThroughputIn"] for one in stats),
        "brk_max_replication_delay_second": 0.0,
        "brk_msg_backlog": float(sum(one["msgBacklog"] for one in subscriptions)),
        "brk_no_of_consumers": sum(len(one["consumers"]) for one in subscriptions),
        "brk_no_of_producers": sum(len(one["publishers"]) for one in stats),
        "brk_no_of_replicators": 0,
        "brk_no_of_subscriptions": len(subscriptions),
        "brk_out_rate": sum(one["msgRateOut"] for one in stats),
        "brk_out_tp_rate": sum(one["msgThroughputOut"] for one in stats),
        "brk_replication_backlog": 0.0,
        "brk_storage_size": float(sum(one["storageSize"] for one in stats)),
    }


def _allocator(call: Call) -> Any:
    name = call.path_text("allocator")
    if name not in _ALLOCATORS:
        raise RestError(406, f"Invalid allocator name : {name}")
    return {
        "numDirectArenas": 0,
        "numHeapArenas": 0,
        "numThreadLocalCaches": 0,
        "normalCacheSize": 0,
        "smallCacheSize": 0,
        "usedDirectMemory": 0,
        "usedHeapMemory": 0,
        "directArenas": [],
        "heapArenas": [],
    }


def _bookie_operations(call: Call) -> Any:
    """Return the pending operations of BookKeeper on each persistent topic. There are none."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for topic in call.broker.topics.values():
        if topic.persistent:
            found.setdefault(namespace_of(topic.name), {})[topic.full_name] = dict.fromkeys(_OPERATIONS, 0)
    return found


def _load_report(call: Call) -> Any:
    """Return the load of the broker (LocalBrokerData). The usage of the machine is not measured."""
    broker, nothing = call.broker, {"usage": 0.0, "limit": 0.0}
    return {
        **({"brokerId": broker.address} if broker.version.names_broker_in_lookup else {}),
        "webServiceUrl": broker.http_url,
        "pulsarServiceUrl": broker.service_url,
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        **dict.fromkeys(("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"), nothing),
        **dict.fromkeys(("msgThroughputIn", "msgThroughputOut", "msgRateIn", "msgRateOut"), 0.0),
        "lastUpdate": broker.created,
        "lastStats": {},
        **dict.fromkeys(("numTopics", "numBundles", "numConsumers", "numProducers"), 0),
        **{name: [] for name in ("bundles", "lastBundleGains", "lastBundleLosses")},
        "brokerVersionString": call.broker.version.name,
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
        "startTimestamp": broker.created,
        "maxResourceUsage": 0.0,
        "loadReportType": "LocalBrokerData",
    }


def _availability(call: Call) -> Any:
    name = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerWrapper"
    raise RestError(409, f"{name} does not support this operation")


ENDPOINTS: Final = (
    Endpoint("GET", f"{_STATS}/topics", _topics, "statistics of all topics by namespace and bundle"),
    Endpoint("GET", f"{_STATS}/metrics", _metrics, "sums of the statistics of each namespace"),
    Endpoint("GET", f"{_STATS}/mbeans", lambda call: [], "MBeans (none)"),
    Endpoint("GET", f"{_STATS}/load-report", _load_report, "the broker's load, without that of the machine"),
    Endpoint("GET", f"{_STATS}/bookieops", _bookie_operations, "pending operations of BookKeeper (none)"),
    Endpoint("GET", f"{_STATS}/allocator-stats/{{allocator}}", _allocator, "arenas of the allocator (none)"),
    Endpoint(
        "GET",
        f"{_STATS}/broker-resource-availability/{{tenant}}/{{namespace}}",
        _availability,
        "rejected, as by the default load manager",
    ),
)
