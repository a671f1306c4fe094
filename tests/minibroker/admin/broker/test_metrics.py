"""The names, types and labels of metrics, compared with those of a real 4.2.4 after the recorded states (metrics.json).

The real broker listed consumers and producers, and had used transactions and compaction.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.minibroker.admin.test_states import STATES, WorldStage

REAL = json.loads(Path(__file__).with_name("metrics.json").read_text())
ABSENT = {
    r"pulsar_(ml|metadata_store|web_executor|lb|resource_group)": "BookKeeper, threads, the machine",
    r"pulsar_entry_size|pulsar_compaction_latency": "histograms",
    r"pulsar_compaction_(read|write)_|pulsar_broker_publish_latency": "rates and latencies",
    r"pulsar_broker_(lookup(_count|_sum)?$|load_manager|topic_list_\w+_wait_time)": "queues that are always empty",
    r"pulsar_(topic_load|schema_|storage_backlog_quota_check)": "durations",
    r"pulsar_txn_(pending_ack_store|tc)_bufferedwriter|pulsar_txn_(tb_client|tp)_|pulsar_txn_execution": "durations",
}
"""Names of metrics that this broker lacks, and what they measure."""
NAMESPACE = {
    "pulsar_consumer_msg_ack_rate",
    "pulsar_consumers_count",
    "pulsar_delayed_message_index_size_bytes",
    "pulsar_in_bytes_total",
    "pulsar_in_messages_total",
    "pulsar_msg_backlog",
    "pulsar_out_bytes_total",
    "pulsar_out_messages_total",
    "pulsar_producers_count",
    "pulsar_rate_in",
    "pulsar_rate_out",
    "pulsar_storage_backlog_quota_exceeded_evictions_total",
    "pulsar_storage_backlog_size",
    "pulsar_storage_logical_size",
    "pulsar_storage_offloaded_size",
    "pulsar_storage_read_cache_misses_rate",
    "pulsar_storage_read_rate",
    "pulsar_storage_size",
    "pulsar_storage_write_rate",
    "pulsar_subscription_delayed",
    "pulsar_subscription_in_replay",
    "pulsar_subscriptions_count",
    "pulsar_throughput_in",
    "pulsar_throughput_out",
    "pulsar_topics_count",
    "pulsar_txn_tb_aborted_total",
    "pulsar_txn_tb_active_total",
    "pulsar_txn_tb_committed_total",
}
"""Names of the metrics of a namespace, without the histograms."""
SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")


@pytest.fixture
def metrics(make_rest):
    """Return the metrics as (name, labels, value) after states that use all features, and the type of each name."""
    world, rest = make_rest(
        transactionCoordinatorEnabled=True,
        exposeConsumerLevelMetricsInPrometheus=True,
        exposeProducerLevelMetricsInPrometheus=True,
    )
    world.wait(3_600_000)
    for state in STATES:
        if state["state"] in ("shared", "key-shared", "delayed", "compacted", "non-persistent", "transactions"):
            stage = WorldStage(world, rest)
            for row in state["steps"]:
                operation, *arguments = row["step"]
                options = arguments.pop() if operation != "rest" and isinstance(arguments[-1], dict) else {}
                stage.run(operation, *arguments, **options)
    lines = rest("GET", "/metrics").data.decode().splitlines()
    types = dict(line.split()[2:] for line in lines if line.startswith("# TYPE"))
    types |= {
        f"{name}_{part}": "counter" for name in types for part in ("total", "created") if types[name] == "counter"
    }
    found = [SAMPLE.fullmatch(line).groups() for line in lines if not line.startswith("#")]
    return [(name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), value) for name, labels, value in found], types


def test_names_types_and_labels(metrics):
    samples, types = metrics
    wrong = [
        (name, types[name], sorted(labels), REAL.get(name))
        for name, labels, _ in samples
        if name not in REAL or REAL[name]["type"] != types[name] or sorted(labels) not in REAL[name]["labels"]
    ]
    assert wrong == []
    missing = [name for name in REAL if name not in types and not any(re.match(part, name) for part in ABSENT)]
    assert missing == []


def value(metrics, name, **labels):
    [found] = [text for one, has, text in metrics[0] if one == name and labels.items() <= has.items()]
    return float(found)


def test_values_of_transactions(metrics):
    names = ("active_count", "committed_total", "aborted_total", "created_total", "timeout_total", "append_log_total")
    assert [value(metrics, f"pulsar_txn_{name}", coordinator_id="0") for name in names] == [0, 1, 1, 2, 0, 10]
    topic = "persistent://public/default/sw17"
    assert [value(metrics, f"pulsar_txn_tb_{name}_total", topic=topic) for name in ("committed", "aborted")] == [1, 1]


def test_values_of_compaction(metrics):
    topic = "persistent://public/default/sw12"
    names = ("removed_event_count", "succeed_count", "failed_count", "compacted_entries_count")
    assert [value(metrics, f"pulsar_compaction_{name}", topic=topic) for name in names] == [4, 1, 0, 2]


def test_values_of_consumers_and_producers(metrics):
    consumer = {"topic": "persistent://public/default/sw4", "consumer_name": "a", "consumer_id": "1"}
    assert value(metrics, "pulsar_consumer_available_permits", **consumer) == 89
    assert value(metrics, "pulsar_consumer_unacked_messages", **consumer) == 8
    producer = {"topic": "persistent://public/default/sw4", "producer_name": "p", "producer_id": "1"}
    assert value(metrics, "pulsar_producer_msg_rate_in", **producer) >= 0


def test_lookups_and_rates_of_the_storage(world, rest):
    client = world.client()
    client.producer()
    client.subscribe()
    for sequence in range(30):
        client.publish(sequence_id=sequence)
    client.flow(15)
    world.advance(60_000)
    lines = dict(line.rsplit(" ", 1) for line in rest("GET", "/metrics").data.decode().splitlines())
    cluster = 'cluster="standalone"'
    topic = f'{cluster},namespace="public/default",topic="persistent://public/default/t"'
    assert lines[f"pulsar_broker_lookup_answers_total{{{cluster}}}"] == "2.0"
    assert lines[f"pulsar_storage_write_rate{{{topic}}}"] == "0.5"
    assert lines[f"pulsar_storage_read_rate{{{topic}}}"] == "0.25"
    assert lines[f"pulsar_storage_write_latency_le_0_5{{{topic}}}"] == "30"
    assert lines[f"pulsar_broker_storage_write_rate{{{cluster}}}"] == "0.5"


def test_sums_of_namespaces_instead_of_topics(make_rest):
    """The names and labels are those of a real 4.2.4 with exposeTopicLevelMetricsInPrometheus=false."""
    world, rest = make_rest(
        exposeTopicLevelMetricsInPrometheus=False,
        exposeConsumerLevelMetricsInPrometheus=True,
        exposeProducerLevelMetricsInPrometheus=True,
    )
    client = world.client()
    for number in (1, 2):
        client.producer(f"t{number}", number)
        client.subscribe(f"t{number}", number)
        client.publish(producer_id=number)
        client.flow(consumer_id=number)
    lines = rest("GET", "/metrics").data.decode().splitlines()
    found = [SAMPLE.fullmatch(line).groups() for line in lines if "namespace=" in line]
    namespace = 'cluster="standalone",namespace="public/default"'
    values = {(name, labels.removeprefix(namespace)): value for name, labels, value in found}
    assert {name for name, _ in values if "write_latency" not in name} == NAMESPACE
    assert all(labels.startswith(namespace) and "topic" not in labels for _, labels, _ in found)
    assert values["pulsar_topics_count", ""] == "2"
    assert values["pulsar_msg_backlog", ',remote_cluster="local"'] == "2"
    assert values["pulsar_out_messages_total", ""] == "2"
    assert ("pulsar_storage_backlog_quota_exceeded_evictions_total", ',quota_type="size"') in values
    assert not any(line.startswith("pulsar_producer_msg") for line in lines)


def test_partitions_and_properties_as_labels(make_rest):
    """As on a real 4.2.4 with these settings."""
    world, rest = make_rest(
        splitTopicAndPartitionLabelInPrometheus=True,
        exposeCustomTopicMetricLabelsEnabled=True,
        allowedTopicPropertyKeysForMetrics=["team", "app"],
    )
    rest("PUT", "/admin/v2/persistent/public/default/p/partitions", 2)
    rest("PUT", "/admin/v2/persistent/public/default/t1", {"team": "a", "other": "b"})
    rest("PUT", "/admin/v2/persistent/public/default/t2", {"app": 'z"q', "team": "c"})
    world.client().producer("p-partition-1")

    def labels():
        lines = rest("GET", "/metrics").data.decode().splitlines()
        return {line.partition("topic=")[2].rpartition("}")[0] for line in lines if line.startswith("pulsar_rate_in{")}

    start = '"persistent://public/default/'
    assert labels() >= {
        f'{start}p",partition="1"',
        f'{start}t1",partition="-1",team="a"',
        f'{start}t2",partition="-1",app="z\\"q",team="c"',
    }
    policy = "/admin/v2/namespaces/public/default/allowedTopicPropertyKeysForMetrics"
    rest("POST", policy, ["other"])
    assert labels() >= {f'{start}t1",partition="-1",other="b"', f'{start}t2",partition="-1"'}
    rest("DELETE", policy)
    assert f'{start}t1",partition="-1",team="a"' in labels()
