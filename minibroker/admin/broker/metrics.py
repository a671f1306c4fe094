"""Metrics in the Prometheus text format, with a real broker's names, types and labels (PrometheusMetricsGenerator).

Rules of this file
1. Metrics of consumers and producers are added if exposeConsumerLevelMetricsInPrometheus and
   exposeProducerLevelMetricsInPrometheus are set.
2. Metrics of Java, BookKeeper and the HTTP server, and histograms of latencies and sizes, are absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.admin.broker.metric_tables import (
    BROKER,
    CONSUMER,
    PRODUCER,
    SUBSCRIPTION,
    TOPIC,
    TRANSACTION_BUFFER,
)
from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply
from pcli.minibroker.broker import VERSION
from pcli.minibroker.stats.topic_stats import Json, topic_stats
from pcli.minibroker.topic_names import is_system, namespace_of
from pcli.minibroker.topics.topic_compaction import COMPACTION

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.topics.topic import Topic

__all__ = ["ENDPOINTS", "metrics"]

_Labels = dict[str, str]
_Sample = tuple[str, _Labels, Any]
"""The name, labels and value of a metric."""
_Samples = dict[str, list[tuple[_Labels, Any]]]


def metrics(broker: Broker) -> str:
    """Return all metrics of a broker. All of them are gauges, as on a real broker."""
    samples: _Samples = {}
    cluster = {"cluster": broker.settings.clusterName}
    counts: dict[str, int] = {}
    for topic in broker.topics.values():
        space = namespace_of(topic.name)
        counts[space] = counts.get(space, 0) + 1
        for name, labels, value in _of_topic({**cluster, "namespace": space, "topic": topic.full_name}, topic):
            samples.setdefault(name, []).append((labels, value))
    samples["pulsar_topics_count"] = [({**cluster, "namespace": space}, count) for space, count in counts.items()]
    for name, part in BROKER.items():
        samples[name] = [(cluster, sum(value for _, value in samples.get(part, [])))]
    for name, labels, value in (*_of_broker(broker), *_of_coordinators(broker)):
        samples.setdefault(name, []).append(({**cluster, **labels}, value))
    return "".join(_lines(samples))


def _of_broker(broker: Broker) -> Iterator[_Sample]:
    connections = {"broker": broker.host, "metric": "broker_connection"}
    accepted = broker.connections_accepted
    closed = accepted - len(broker.connections)
    yield "pulsar_version_info", {"version": VERSION, "commit": ""}, 1
    yield "pulsar_active_connections", connections, len(broker.connections)
    yield "pulsar_connection_created_total_count", connections, accepted
    yield "pulsar_connection_create_success_count", connections, accepted
    yield "pulsar_connection_create_fail_count", connections, 0
    yield "pulsar_connection_closed_total_count", connections, closed
    yield "pulsar_broker_topics_count", {}, len(broker.topics)
    yield "pulsar_broker_topic_load_pending_requests", {}, 0
    yield "pulsar_broker_lookup_pending_requests", {}, 0
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
    listed = settings.exposeConsumerLevelMetricsInPrometheus
    for name, one in subscriptions.items():
        ids = [str(consumer.id) for consumer in topic.subscriptions[name].consumers] if listed else []
        yield from _of_subscription({**labels, "subscription": name}, one, ids)
    for publisher in stats["publishers"] if settings.exposeProducerLevelMetricsInPrometheus else ():
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
            words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            yield f"{name}{{{words}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metrics(call: Call) -> Reply:
    return Reply(200, metrics(call.broker), media="text/plain; version=0.0.4; charset=utf-8")


ENDPOINTS: Final = (Endpoint("GET", "/metrics", _metrics, "metrics in the Prometheus text format"),)
