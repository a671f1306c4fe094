"""Metrics of captures, compared with the broker's statistics and with the steps of the messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame
from pcli.codec.observe import Observer
from pcli.codec.observe.metrics.object_series import OTHER
from pcli.codec.observe.telemetry.trace_ids import trace_id
from pcli.codec.observe.tracking.message_timeline import steps_of
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.observe.tracking.statistics.broker_statistics import figures
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.steps import run_steps
from tests.codec.observe.metrics.conftest import Collected, events

CAPTURES = (
    "go/batch-index.pcap", "go/nack.pcap", "python/10-shared-redelivery.pcap", "python/22-batch-index-acks.pcap",
    "python/25-no-flow.pcapng", "java/schemas.pcap",
)  # fmt: skip


@pytest.mark.parametrize("name", CAPTURES)
def test_the_counters_are_those_of_the_broker(of_capture, small_captures, name):
    """The truth files contain `topics stats` of a real broker."""
    found = of_capture(name)
    path = small_captures / name
    truth = json.loads((path.parent / f"{path.name.split('.')[0]}.truth.json").read_text())["stats"]
    subscriptions = [
        ((topic, name), one) for topic, stats in truth.items() for name, one in stats["subscriptions"].items()
    ]
    messages, sizes = found.series("pulsar_in_messages_total"), found.series("pulsar_in_bytes_total")
    assert {(topic,): stats["msgInCounter"] for topic, stats in truth.items()}.items() <= messages.items()
    assert {(topic,): stats["bytesInCounter"] for topic, stats in truth.items()}.items() <= sizes.items()
    delivered = {key: one["msgOutCounter"] for key, one in subscriptions}
    assert delivered
    assert delivered.items() <= found.series("pulsar_out_messages_total").items()


@pytest.mark.parametrize("name", CAPTURES)
def test_the_gauges_are_those_of_top_at_any_time(collected, small_captures, name):
    """A figure that the capture does not show has no sample."""
    found, compared = collected(), 0
    diagnosis = found.collector.diagnosis
    for facts in facts_of(small_captures / name):
        found.collector.see(facts)
        if facts.frame.number % 7:
            continue
        now_ns = facts.frame.time_ns
        found.update(now_ns)
        expected: dict[str, dict[tuple[str, ...], float]] = {metric: {} for metric in GAUGES}
        for topic, stats in figures(diagnosis.subscriptions, now_ns).items():
            for subscription, one in stats["subscriptions"].items():
                key = (topic, subscription)
                rows = [(key, one), *(((*key, consumer["consumerName"]), consumer) for consumer in one["consumers"])]
                for labels, row in rows:
                    for metric, (length, figure) in GAUGES.items():
                        if len(labels) == length and row[figure] is not None:
                            expected[metric][labels] = row[figure]
        for metric, values in expected.items():
            assert found.series(metric) == values, metric
            compared += len(values)
    assert compared > 20


GAUGES = {
    "pulsar_subscription_back_log": (2, "msgBacklog"),
    "pulsar_subscription_unacked_messages": (2, "unackedMessages"),
    "pulsar_subscription_blocked_on_unacked_messages": (2, "blockedSubscriptionOnUnackedMsgs"),
    "pulsar_consumer_available_permits": (3, "availablePermits"),
    "pulsar_consumer_unacked_messages": (3, "unackedMessages"),
    "pulsar_consumer_blocked_on_unacked_messages": (3, "blockedConsumerOnUnackedMsgs"),
}
"""Number of labels, and name in the statistics, by metric."""


@pytest.mark.parametrize("name", CAPTURES)
def test_the_latencies_are_those_of_the_steps(of_capture, small_captures, name):
    """The number and the sum of the latencies equal those in the steps that `pcli trace` prints."""
    found = of_capture(name)
    truth: Counter[tuple[str, str]] = Counter()
    for lifecycle in lifecycles(small_captures / name):
        topic = lifecycle.topic.name if lifecycle.topic is not None else ""
        if not topic:
            continue  # the capture does not contain the PRODUCER
        for kind, ns in durations(lifecycle):
            truth["count", f"{kind} {topic}"] += 1
            truth["sum", f"{kind} {topic}"] += ns
    seen: Counter[tuple[str, str]] = Counter()
    for kind in ("publish", "dispatch", "acknowledge"):
        for labels, histogram in found.histograms(f"pcli_{kind}_latency_seconds").items():
            seen["count", f"{kind} {labels[0]}"] += sum(histogram.counts)
            seen["sum", f"{kind} {labels[0]}"] += histogram.sum_ns
    assert seen == truth


def durations(lifecycle: Lifecycle) -> list[tuple[str, int]]:
    found = []
    new = {one[0].frame for one in lifecycle.deliveries.values()}
    whole = {
        (ack.frame, delivery.frame)
        for deliveries in lifecycle.deliveries.values()
        for delivery in deliveries
        for ack in delivery.acks
        if ack.effective and not ack.left
    }
    for step in steps_of(lifecycle):
        if step.what == "receipt" and step.after_ns >= 0:
            found.append(("publish", step.after_ns))
        elif step.what == "delivered" and step.frame in new and lifecycle.sent_frame:
            found.append(("dispatch", max(0, step.after_ns)))
        elif step.what == "acked" and any(step.frame == ack for ack, _ in whole):
            found.append(("acknowledge", step.after_ns))
    return found


def lifecycles(path: Path) -> list[Lifecycle]:
    found: list[Lifecycle] = []
    tracker = Tracker(on_lifecycle=found.append)
    for facts in facts_of(path):
        tracker.see(facts)
    tracker.finish()
    return found


def facts_of(path: Path) -> Iterator[Any]:
    see = Observer().see
    return (see(item) for item in events(path) if isinstance(item, CapturedFrame))


@pytest.mark.parametrize("name", CAPTURES)
def test_the_findings_are_those_of_diagnose(of_capture, name):
    found = of_capture(name)
    truth = Counter((one.rule, one.severity) for one in found.collector.diagnosis.findings())
    assert truth
    assert +Counter(found.series("pcli_findings_total")) == truth
    run_steps(found.collector.update(0, found.collector.diagnosis.findings()))  # reported again
    assert +Counter(found.series("pcli_findings_total")) == truth


def test_few_series_contain_all_messages(of_capture):
    whole, few = of_capture("java/schemas.pcap"), of_capture("java/schemas.pcap", top=1)
    for name in ("pulsar_in_messages_total", "pulsar_out_messages_total", "pulsar_subscription_consumers_count"):
        values = few.series(name)
        assert len(values) == 2
        assert sum(values.values()) == sum(whole.series(name).values())
    counts = few.histograms("pcli_acknowledge_latency_seconds")
    assert {labels[0] for labels in counts} == {"persistent://public/default/schemas-json", OTHER}
    every = whole.histograms("pcli_acknowledge_latency_seconds")
    assert sum(sum(one.counts) for one in counts.values()) == sum(sum(one.counts) for one in every.values())


def test_segments_are_one_topic_or_several(collected, captures_5):
    for segments, topics in ((False, 1), (True, 4)):
        found: Collected = collected(segments=segments)
        found.read(captures_5 / "split-merge-under-load.pcap")
        counts = found.series("pulsar_in_messages_total")
        assert len(counts) == topics
        assert sum(counts.values()) == 2222
        assert set(found.series("pulsar_producers_count")) == set(counts)


def test_exemplars_are_messages_of_their_bucket(of_capture):
    found = of_capture("go/nack.pcap", cluster="standalone")
    topic = "persistent://public/default/go-nack"
    ids = {trace_id("standalone", topic, 15, entry) for entry in range(100)}
    [histogram] = found.histograms("pcli_acknowledge_latency_seconds").values()
    assert set(histogram.exemplars) == {place for place, count in enumerate(histogram.counts) if count}
    assert {one.trace for one in histogram.exemplars.values()} <= ids
