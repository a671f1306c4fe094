"""Metrics in the Prometheus text format, with a real broker's names, types and labels (PrometheusMetricsGenerator).

Rules of this file
1. Metrics of consumers and producers are added if exposeConsumerLevelMetricsInPrometheus and
   exposeProducerLevelMetricsInPrometheus are set. If exposeTopicLevelMetricsInPrometheus is not set, only sums of each
   namespace are reported.
2. Metrics of Java, BookKeeper and the HTTP server, histograms of sizes, and summaries of latencies are absent. Entries
   are written in memory, so every write is in the first bucket of the histograms of write latencies.
3. A counter of the Prometheus client has two samples, ``_total`` and ``_created``, and the type of their common name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.admin.broker.metric_tables import (
    BROKER,
    CONSUMER,
    LATENCIES,
    NAMESPACE,
    PRODUCER,
    SUBSCRIPTION,
    TOPIC,
    TRANSACTION_BUFFER,
)
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply
from pcli.minibroker.policies.backlog_quotas import AGE, SIZE
from pcli.minibroker.stats.topic_stats import Json, topic_stats
from pcli.minibroker.topic_names import is_system, namespace_of
from pcli.minibroker.topics.topic_compaction import COMPACTION

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.topics.topic import Topic

_QUOTAS: Final = {SIZE: "size", AGE: "time"}
"""The label of each kind of backlog quota."""

_LISTS: Final = {"memory_used_bytes": 0, "memory_limit_bytes": 100 << 20, "queue_size": 0, "queue_max_size": 10_000}
"""The values for the memory of lists of topics, which are never limited here."""

_NAMESPACE_LABELS: Final = ("cluster", "namespace", "quota_type")

_Labels = dict[str, str]
_Sample = tuple[str, _Labels, Any]
"""The name, labels and value of a metric."""
_Samples = dict[str, list[tuple[_Labels, Any]]]


def metrics(broker: Broker) -> str:
    """Return all metrics of a broker. Most of them are gauges, as on a real broker."""
    samples: _Samples = {}
    cluster = {"cluster": broker.settings.clusterName}
    counts: dict[str, int] = {}
    for topic in broker.topics.values():
        space = namespace_of(topic.name)
        counts[space] = counts.get(space, 0) + 1
        for name, labels, value in _of_topic({**cluster, "namespace": space, **_names_of(topic)}, topic):
            samples.setdefault(name, []).append((labels, value))
    totals = {name: sum(value for _, value in samples.get(part, [])) for name, part in BROKER.items()}
    if not broker.settings.exposeTopicLevelMetricsInPrometheus:
        samples = _of_namespaces(samples, [{**cluster, "namespace": space} for space in counts])
    for name, total in totals.items():
        samples[name] = [(cluster, total)]
    samples["pulsar_topics_count"] = [({**cluster, "namespace": space}, count) for space, count in counts.items()]
    for name, labels, value in (*_of_broker(broker), *_of_coordinators(broker)):
        samples.setdefault(name, []).append(({**cluster, **labels}, value))
    return "".join((*_lines(samples), *_counters(broker, cluster)))


def _names_of(topic: Topic) -> _Labels:
    """Return the labels of a topic: its name, the partition and the permitted properties."""
    settings, policies = topic.broker.settings, topic.broker.policies
    labels = {"topic": topic.full_name}
    if settings.splitTopicAndPartitionLabelInPrometheus:
        labels = {"topic": str(topic.name.base), "partition": str(topic.partition)}
    if settings.exposeCustomTopicMetricLabelsEnabled:
        properties = policies.properties.get(str(topic.name.base), {})
        keys = topic.effective("allowedTopicPropertyKeysForMetrics")
        labels |= {key: properties[key] for key in sorted(keys) if key in properties}
    return labels


def _of_namespaces(samples: _Samples, namespaces: list[_Labels]) -> _Samples:
    """Return the sums of the samples of each namespace (NamespaceStatsAggregator.printNamespaceStats)."""
    found: _Samples = {}
    for name, part in NAMESPACE.items():
        more = [{"quota_type": word} for word in _QUOTAS.values()] if "evictions" in name else [{}]
        sums = {tuple({**one, **other}.items()): 0 for one in namespaces for other in more}
        for labels, value in samples.get(part, []):
            sums[tuple((label, text) for label, text in labels.items() if label in _NAMESPACE_LABELS)] += value
        local = {"remote_cluster": "local"} if name == "pulsar_msg_backlog" else {}
        found[name] = [({**dict(labels), **local}, value) for labels, value in sums.items()]
    return found


def _counters(broker: Broker, labels: _Labels) -> Iterator[str]:
    """Yield the lines of the counters. This one broker redirects no lookup, and no list waits for memory."""
    values = {"lookup_answers": broker.topic_registry.lookups, "lookup_redirects": 0, "lookup_failures": 0}
    words = _words(labels)
    for name, value in (values | {f"topic_list_{memory}_timeout": 0 for memory in ("heap", "direct")}).items():
        yield f"# TYPE pulsar_broker_{name} counter\n"
        yield f"pulsar_broker_{name}_total{{{words}}} {float(value)}\n"
        yield f"pulsar_broker_{name}_created{{{words}}} {broker.created / 1000}\n"


def _of_broker(broker: Broker) -> Iterator[_Sample]:
    connections = {"broker": broker.host, "metric": "broker_connection"}
    accepted = broker.connections_accepted
    closed = accepted - len(broker.connections)
    yield "pulsar_version_info", {"version": broker.version.name, "commit": ""}, 1
    yield "pulsar_active_connections", connections, len(broker.connections)
    yield "pulsar_connection_created_total_count", connections, accepted
    yield "pulsar_connection_create_success_count", connections, accepted
    yield "pulsar_connection_create_fail_count", connections, 0
    yield "pulsar_connection_closed_total_count", connections, closed
    yield "pulsar_broker_topics_count", {}, len(broker.topics)
    yield "pulsar_broker_topic_load_pending_requests", {}, 0
    yield "pulsar_broker_throttled_connections", {}, sum(one.input_paused for one in broker.connections)
    yield "pulsar_broker_pending_bytes_to_dispatch", {}, 0
    quotas = [one.backlog_quota for one in broker.topics.values() if one.backlog_quota is not None]
    for kind, word in _QUOTAS.items():
        name = "pulsar_broker_storage_backlog_quota_exceeded_evictions_total"
        yield name, {"quota_type": word}, sum(one.evictions[kind] for one in quotas)
    yield "pulsar_broker_lookup_pending_requests", {}, 0
    # A real broker also reports -1, because healthCheckMetricsUpdateTimeInSeconds is -1.
    yield "pulsar_health", {"broker": broker.host, "metric": "broker_health"}, -1
    for memory in ("heap", "direct"):
        for name, value in _LISTS.items():
            yield f"pulsar_broker_topic_list_{memory}_{name}", {}, value
    yield from _bytes(broker)


def _bytes(broker: Broker) -> Iterator[_Sample]:
    """Return the received and sent bytes of clients and of the broker itself (compaction, system topics)."""
    received, sent = Counter[bool](), Counter[bool]()
    for topic in broker.topics.values():
        system = is_system(topic.name)
        received[system] += topic.bytes_in
        for one in topic.subscriptions.values():
            sent[system or one.name == COMPACTION] += one.bytes_out
    for system in (False, True):
        word = str(system).lower()
        yield "pulsar_broker_in_bytes_total", {"system_topic": word}, received[system]
        yield "pulsar_broker_out_bytes_total", {"system_subscription": word}, sent[system]


def _of_coordinators(broker: Broker) -> Iterator[_Sample]:
    for number, store in broker.transactions.stores.items():
        labels = {"coordinator_id": str(number)}
        yield "pulsar_txn_active_count", labels, len(store.metas)
        yield "pulsar_txn_committed_total", labels, store.committed
        yield "pulsar_txn_aborted_total", labels, store.aborted
        yield "pulsar_txn_created_total", labels, store.sequence_id + 1
        yield "pulsar_txn_timeout_total", labels, store.timed_out
        yield "pulsar_txn_append_log_total", labels, store.updates


def _of_topic(labels: _Labels, topic: Topic) -> Iterator[_Sample]:
    stats, settings = topic_stats(topic), topic.broker.settings
    subscriptions = stats["subscriptions"]
    yield "pulsar_subscriptions_count", labels, len(subscriptions)
    yield "pulsar_producers_count", labels, len(stats["publishers"])
    yield "pulsar_consumers_count", labels, sum(len(one["consumers"]) for one in subscriptions.values())
    yield "pulsar_msg_backlog", labels, sum(one["msgBacklog"] for one in subscriptions.values())
    yield from _fields(TOPIC, labels, stats)
    if topic.transactions_enabled:
        yield from _fields(TRANSACTION_BUFFER, labels, stats)
    yield from _of_compaction(labels, topic)
    yield from _of_storage(labels, topic)
    of_topics = settings.exposeTopicLevelMetricsInPrometheus
    listed = of_topics and settings.exposeConsumerLevelMetricsInPrometheus
    for name, one in subscriptions.items():
        ids = [str(consumer.id) for consumer in topic.subscriptions[name].consumers] if listed else []
        yield from _of_subscription({**labels, "subscription": name}, one, ids)
    listed = of_topics and settings.exposeProducerLevelMetricsInPrometheus
    for publisher in stats["publishers"] if listed else ():
        about = {"producer_name": publisher["producerName"], "producer_id": str(publisher["producerId"])}
        yield from _fields(PRODUCER, {**labels, **about}, publisher)


def _of_subscription(labels: _Labels, stats: Json, consumer_ids: list[str]) -> Iterator[_Sample]:
    yield "pulsar_subscription_consumers_count", labels, len(stats["consumers"])
    yield "pulsar_subscription_msg_drop_rate", labels, stats.get("msgDropRate", 0.0)
    yield from _fields(SUBSCRIPTION, labels, stats)
    for reason in ("Subscription", "Topic", "Broker"):
        with_reason = {**labels, "reason": reason.lower()}
        for metric, what in (("msg", "Msg"), ("bytes", "Bytes")):
            value = stats[f"dispatchThrottled{what}EventsBy{reason}Limit"]
            yield f"pulsar_subscription_dispatch_throttled_{metric}_events", with_reason, value
    for number, consumer in zip(consumer_ids, stats["consumers"], strict=False):
        about = {"consumer_name": consumer["consumerName"], "consumer_id": number}
        yield from _fields(CONSUMER, {**labels, **about}, consumer)


def _of_storage(labels: _Labels, topic: Topic) -> Iterator[_Sample]:
    """Return the rates of the storage, the histograms of writes, and the evictions of a persistent topic."""
    if topic.backlog_quota is None:
        return
    rate = topic.broker.rates.of_storage(topic)
    yield "pulsar_storage_write_rate", labels, rate.writes
    yield "pulsar_storage_read_rate", labels, rate.reads
    yield "pulsar_storage_read_cache_misses_rate", labels, 0.0
    for name in ("pulsar_storage_write_latency", "pulsar_storage_ledger_write_latency"):
        for bucket in LATENCIES:
            yield f"{name}_{bucket}", labels, rate.written if bucket == LATENCIES[0] else 0
        yield f"{name}_count", labels, rate.written
        yield f"{name}_sum", labels, 0
    for kind, word in _QUOTAS.items():
        with_kind = {**labels, "quota_type": word}
        yield "pulsar_storage_backlog_quota_exceeded_evictions_total", with_kind, topic.backlog_quota.evictions[kind]


def _of_compaction(labels: _Labels, topic: Topic) -> Iterator[_Sample]:
    """Return the metrics of a topic that was compacted."""
    compaction = topic.compaction
    if compaction is None or not (compaction.record.succeeded or compaction.record.failed):
        return
    record, ledger = compaction.record, compaction.compacted.ledger
    yield "pulsar_compaction_removed_event_count", labels, record.removed_total
    yield "pulsar_compaction_succeed_count", labels, record.successes
    yield "pulsar_compaction_failed_count", labels, record.failures
    yield "pulsar_compaction_duration_time_in_mills", labels, record.duration
    yield "pulsar_compaction_compacted_entries_count", labels, 0 if ledger is None else len(ledger)
    yield "pulsar_compaction_compacted_entries_size", labels, 0 if ledger is None else ledger.size


def _fields(table: dict[str, str], labels: _Labels, stats: Json) -> Iterator[_Sample]:
    for name, key in table.items():
        yield name, labels, int(stats[key]) if isinstance(stats[key], bool) else stats[key]


def _lines(samples: _Samples) -> Iterator[str]:
    for name, found in samples.items():
        yield f"# TYPE {name} gauge\n"
        for labels, value in found:
            yield f"{name}{{{_words(labels)}}} {value}\n"


def _words(labels: _Labels) -> str:
    return ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metrics(call: Call) -> Reply:
    return Reply(200, metrics(call.broker), media="text/plain; version=0.0.4; charset=utf-8")


ENDPOINTS: Final = (Endpoint("GET", "/metrics", _metrics, "metrics in the Prometheus text format"),)
