"""The table of all metrics of --prometheus.

The endpoint, the documentation, the dashboard and the alert rules are made from this table.

Rules of this file
1. A metric has the name and the labels of Pulsar's metric if its meaning is the same; it then begins with ``pulsar_``.
   The names and labels are those of a Pulsar 4.2.4 broker that exposes metrics of topics and consumers. All other
   metrics begin with ``pcli_``.
2. Pulsar's counters restart when the broker loads a topic; these start with the capture. Functions such as ``rate``
   give the same result for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

TOPIC: Final = ("namespace", "topic")
SUBSCRIPTION: Final = (*TOPIC, "subscription")
CONSUMER: Final = (*SUBSCRIPTION, "consumer_name")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric."""

    name: str
    """The name in the Prometheus text format."""
    type: Literal["counter", "gauge", "histogram"]
    unit: str
    """What a value counts, in the plural: messages, seconds; empty for a state that is 0 or 1."""
    help: str
    labels: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """``Pulsar`` if the metric is one of Pulsar's, otherwise ``pcli``."""
        return "Pulsar" if self.name.startswith("pulsar_") else "pcli"


_ROWS: Final = (
    Metric("pulsar_in_messages_total", "counter", "messages", "Messages published to the topic", TOPIC),
    Metric("pulsar_in_bytes_total", "counter", "bytes", "Bytes published to the topic", TOPIC),
    Metric("pulsar_out_messages_total", "counter", "messages", "Messages dispatched to consumers", SUBSCRIPTION),
    Metric("pulsar_producers_count", "gauge", "producers", "Producers that are connected to the topic", TOPIC),
    Metric("pulsar_subscriptions_count", "gauge", "subscriptions", "Subscriptions of the topic", TOPIC),
    Metric("pulsar_consumers_count", "gauge", "consumers", "Consumers that are connected to the topic", TOPIC),
    Metric("pulsar_msg_backlog", "gauge", "entries", "Sum of the backlogs of the topic's subscriptions", TOPIC),
    Metric(
        "pulsar_subscription_back_log", "gauge", "entries", "Entries that are not acknowledged", SUBSCRIPTION
    ),
    Metric(
        "pulsar_subscription_unacked_messages", "gauge", "messages",
        "Messages that consumers have received and not acknowledged (Shared, Key_Shared)", SUBSCRIPTION,
    ),
    Metric(
        "pulsar_subscription_blocked_on_unacked_messages", "gauge", "",
        "1 if the limit of unacknowledged messages of the subscription stops the dispatch", SUBSCRIPTION,
    ),
    Metric(
        "pulsar_subscription_consumers_count", "gauge", "consumers",
        "Consumers that are connected to the subscription", SUBSCRIPTION,
    ),
    Metric(
        "pulsar_consumer_available_permits", "gauge", "messages",
        "Messages that the broker can still send to the consumer before the next FLOW", CONSUMER,
    ),
    Metric(
        "pulsar_consumer_unacked_messages", "gauge", "messages",
        "Messages that the consumer has received and not acknowledged (Shared, Key_Shared)", CONSUMER,
    ),
    Metric(
        "pulsar_consumer_blocked_on_unacked_messages", "gauge", "",
        "1 if the limit of unacknowledged messages of the consumer stops the dispatch to it", CONSUMER,
    ),
    Metric(
        "pcli_redelivered_messages_total", "counter", "messages", "Messages that were dispatched again", SUBSCRIPTION
    ),
    Metric(
        "pcli_dead_lettered_messages_total", "counter", "messages",
        "Messages that clients sent to a dead letter topic", SUBSCRIPTION,
    ),
    Metric(
        "pcli_publish_latency_seconds", "histogram", "seconds", "Time from a SEND to its receipt, for each entry", TOPIC
    ),
    Metric(
        "pcli_dispatch_latency_seconds", "histogram", "seconds",
        "Time from the receipt of an entry to its first delivery to the subscription", SUBSCRIPTION,
    ),
    Metric(
        "pcli_acknowledge_latency_seconds", "histogram", "seconds",
        "Time from the delivery of an entry to its acknowledgement", SUBSCRIPTION,
    ),
    Metric(
        "pcli_findings_total", "counter", "findings", "Findings of the rules of pcli diagnose", ("rule", "severity")
    ),
    Metric("pcli_topics", "gauge", "topics", "Topics in memory"),
    Metric("pcli_subscriptions", "gauge", "subscriptions", "Subscriptions in memory"),
    Metric("pcli_consumers", "gauge", "consumers", "Connected consumers"),
    Metric("pcli_open_connections", "gauge", "connections", "Open Pulsar connections"),
    Metric("pcli_frames_total", "counter", "frames", "Frames that were read"),
    Metric("pcli_capture_gaps_total", "counter", "gaps", "Gaps in TCP streams: packets that the capture lacks"),
    Metric("pcli_evicted_records_total", "counter", "records", "Records evicted to limit memory use", ("kind",)),
    Metric("pcli_last_frame_timestamp_seconds", "gauge", "seconds", "Time of the last frame, in seconds since 1970"),
    Metric("pcli_source_up", "gauge", "", "1 while the source is read; 0 after its end or an error"),
)  # fmt: skip

METRICS: Final[dict[str, Metric]] = {one.name: one for one in _ROWS}
"""The metrics by name, in the order of the documentation."""
