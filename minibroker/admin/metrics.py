"""Metrics in the Prometheus text format, with the names of a real broker (class NamespaceStatsAggregator)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.minibroker.admin.endpoint import Call, Endpoint, Reply
from pcli.minibroker.stats.topic_stats import Json, topic_stats
from pcli.minibroker.topic_names import namespace_of

if TYPE_CHECKING:
    from pcli.minibroker.broker import Broker

__all__ = ["ENDPOINTS", "metrics"]

_TOPIC: Final = {
    "pulsar_rate_in": "msgRateIn",
    "pulsar_rate_out": "msgRateOut",
    "pulsar_throughput_in": "msgThroughputIn",
    "pulsar_throughput_out": "msgThroughputOut",
    "pulsar_average_msg_size": "averageMsgSize",
    "pulsar_storage_size": "storageSize",
    "pulsar_storage_logical_size": "storageSize",
    "pulsar_storage_backlog_size": "backlogSize",
    "pulsar_publish_rate_limit_times": "publishRateLimitedTimes",
    "pulsar_in_bytes_total": "bytesInCounter",
    "pulsar_in_messages_total": "msgInCounter",
}
"""Field in the topic stats for each metric of a topic."""

_SUBSCRIPTION: Final = {
    "pulsar_subscription_back_log": "msgBacklog",
    "pulsar_subscription_back_log_no_delayed": "msgBacklogNoDelayed",
    "pulsar_subscription_delayed": "msgDelayed",
    "pulsar_subscription_in_replay": "msgInReplay",
    "pulsar_subscription_msg_rate_redeliver": "msgRateRedeliver",
    "pulsar_subscription_msg_ack_rate": "messageAckRate",
    "pulsar_subscription_unacked_messages": "unackedMessages",
    "pulsar_subscription_blocked_on_unacked_messages": "blockedSubscriptionOnUnackedMsgs",
    "pulsar_subscription_msg_rate_out": "msgRateOut",
    "pulsar_subscription_msg_throughput_out": "msgThroughputOut",
    "pulsar_subscription_msg_rate_expired": "msgRateExpired",
    "pulsar_subscription_total_msg_expired": "totalMsgExpired",
    "pulsar_subscription_last_expire_timestamp": "lastExpireTimestamp",
    "pulsar_subscription_last_acked_timestamp": "lastAckedTimestamp",
    "pulsar_subscription_last_consumed_flow_timestamp": "lastConsumedFlowTimestamp",
    "pulsar_subscription_last_consumed_timestamp": "lastConsumedTimestamp",
    "pulsar_subscription_last_mark_delete_advanced_timestamp": "lastMarkDeleteAdvancedTimestamp",
    "pulsar_out_bytes_total": "bytesOutCounter",
    "pulsar_out_messages_total": "msgOutCounter",
}
"""Field in the subscription stats for each metric of a subscription."""

_BROKER: Final = {
    "pulsar_broker_rate_in": "pulsar_rate_in",
    "pulsar_broker_rate_out": "pulsar_rate_out",
    "pulsar_broker_throughput_in": "pulsar_throughput_in",
    "pulsar_broker_throughput_out": "pulsar_throughput_out",
    "pulsar_broker_storage_size": "pulsar_storage_size",
    "pulsar_broker_storage_logical_size": "pulsar_storage_logical_size",
    "pulsar_broker_producers_count": "pulsar_producers_count",
    "pulsar_broker_consumers_count": "pulsar_consumers_count",
    "pulsar_broker_subscriptions_count": "pulsar_subscriptions_count",
    "pulsar_broker_msg_backlog": "pulsar_msg_backlog",
}
"""The topic metric that is summed for each metric of the broker."""

_Labels = dict[str, str]
_Samples = dict[str, list[tuple[_Labels, Any]]]


def metrics(broker: Broker) -> str:
    """Return all metrics of a broker."""
    samples: _Samples = {}
    cluster = {"cluster": broker.settings.clusterName}
    counts: dict[str, int] = {}
    for topic in broker.topics.values():
        space = namespace_of(topic.name)
        counts[space] = counts.get(space, 0) + 1
        labels = {**cluster, "namespace": space, "topic": topic.full_name}
        for name, found, value in _of_topic(labels, topic_stats(topic)):
            samples.setdefault(name, []).append((found, value))
    samples["pulsar_topics_count"] = [({**cluster, "namespace": space}, count) for space, count in counts.items()]
    samples["pulsar_broker_topics_count"] = [(cluster, len(broker.topics))]
    for name, part in _BROKER.items():
        samples[name] = [(cluster, sum(value for _, value in samples.get(part, [])))]
    host = broker.http_url.rpartition("/")[2].rpartition(":")[0]
    about = {**cluster, "broker": host, "metric": "broker_connection"}
    samples["pulsar_active_connections"] = [(about, len(broker.connections))]
    return "".join(_lines(samples))


def _of_topic(labels: _Labels, stats: Json) -> Iterator[tuple[str, _Labels, Any]]:
    subscriptions = stats["subscriptions"]
    yield "pulsar_subscriptions_count", labels, len(subscriptions)
    yield "pulsar_producers_count", labels, len(stats["publishers"])
    yield "pulsar_consumers_count", labels, sum(len(one["consumers"]) for one in subscriptions.values())
    yield "pulsar_msg_backlog", labels, sum(one["msgBacklog"] for one in subscriptions.values())
    for name, key in _TOPIC.items():
        yield name, labels, stats[key]
    for subscription, one in subscriptions.items():
        further = {**labels, "subscription": subscription}
        yield "pulsar_subscription_consumers_count", further, len(one["consumers"])
        for name, key in _SUBSCRIPTION.items():
            yield name, further, int(one[key]) if isinstance(one[key], bool) else one[key]


def _lines(samples: _Samples) -> Iterator[str]:
    for name, found in samples.items():
        yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}\n"
        for labels, value in found:
            words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            yield f"{name}{{{words}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metrics(call: Call) -> Reply:
    return Reply(200, metrics(call.broker), media="text/plain; version=0.0.4; charset=utf-8")


ENDPOINTS: Final = (Endpoint("GET", "/metrics", _metrics, "metrics in the Prometheus text format"),)
