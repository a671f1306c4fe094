"""Statistics of the broker and details of topics, with the names and values of a real 4.2.4 in the same state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

REAL = json.loads(Path(__file__).with_name("broker-stats.json").read_text())
"""The statistics of a topic of each domain with a producer, a Shared consumer and one unacknowledged message."""
INDEX = "org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"
TIMES = ("Rate", "Throughput", "address", "connectedSince", "clientVersion", "averageMsgSize", "bytes", "Size")


def stable(value):
    """Return statistics without times, sizes, rates and addresses."""
    if isinstance(value, dict):
        return {
            key: type(item).__name__ if any(word in key for word in TIMES) else stable(item)
            for key, item in value.items()
        }
    return [stable(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_statistics_of_all_topics(world, rest, domain):
    client, topic, number = world.client(), f"{domain}://public/default/bs", 1 + (domain == "non-persistent")
    client.producer(topic, number, producer_name=f"p{number}")
    client.subscribe(topic, number, subscription="sub", subType=1, consumer_name=f"c{number}")
    if domain == "persistent":
        client.flow(10, number)
    client.publish(producer_id=number)
    if domain != "persistent":
        client.flow(10, number)
    found = rest("GET", "/admin/v2/broker-stats/topics").json["public/default"]
    [topics] = [bundle[domain] for bundle in found.values() if domain in bundle and topic in bundle[domain]]
    assert stable(topics[topic]) == stable(REAL[domain])


def test_metrics_of_namespaces(world, rest):
    world.client().producer("bs")
    found = rest("GET", "/admin/v2/broker-stats/metrics").json
    assert found[0]["dimensions"] == {"broker": "127.0.0.1", "cluster": "standalone", "metric": "broker_connection"}
    [namespace] = [one["metrics"] for one in found if one["dimensions"] == {"namespace": "public/default"}]
    assert sorted(namespace) == REAL["namespace_metrics"]
    assert namespace["brk_no_of_producers"] == 1


def test_values_of_java_are_absent(rest):
    assert rest("GET", "/admin/v2/broker-stats/mbeans").json == []
    assert sorted(rest("GET", "/admin/v2/broker-stats/load-report").json) == REAL["load_report"]
    assert rest("GET", "/admin/v2/broker-stats/allocator-stats/default").json["directArenas"] == []


def test_pending_operations_of_bookkeeper_are_zero(world, rest):
    world.client().producer("bs")
    [operations] = rest("GET", "/admin/v2/broker-stats/bookieops").json["public/default"].values()
    assert operations == REAL["bookie_operations"]


def test_owned_bundles(world, rest):
    world.client().producer("bs")
    owned = rest("GET", "/admin/v2/brokers/standalone/127.0.0.1:8080/ownedNamespaces").json
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    assert owned["pulsar/127.0.0.1:8080/0x00000000_0xffffffff"] == status
    assert any(bundle.startswith("public/default/0x") for bundle in owned)
    missing = rest("GET", "/admin/v2/brokers/standalone/other:1/ownedNamespaces")
    assert (missing.status, missing.json["reason"]) == (404, "Broker id 'other:1' not found in available brokers.")


def test_the_metadata_stores_and_the_bookie(rest):
    stores = rest("GET", "/admin/v2/brokers/internal-configuration").json
    assert stores["metadataStoreUrl"] == "memory:local"
    assert stores["ledgersRootPath"] == "/ledgers"
    assert rest("GET", "/admin/v2/bookies/all").json == {"bookies": [{"bookieId": "127.0.0.1:3181"}]}


@pytest.fixture
def indexed(make_rest):
    """A topic with entries of 1, 3 and 2 messages, and so the indexes 0, 3 and 5."""
    world, rest = make_rest(brokerEntryMetadataInterceptors=[INDEX])
    client = world.client()
    client.producer("t", producer_name="p")
    for sequence, count in enumerate((1, 3, 2)):
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1)
        metadata.num_messages_in_batch = count
        send = pb.CommandSend(producer_id=1, sequence_id=sequence, num_messages=count)
        client(send, entry=push_entry(metadata, b"\0\0\0\2\x18\0" * count))
    return rest


@pytest.mark.parametrize(("index", "entry"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_a_message_id_by_index(indexed, index, entry):
    found = indexed("GET", f"/admin/v2/persistent/public/default/t/getMessageIdByIndex?index={index}").json
    assert (found["entryId"], found["partitionIndex"], found["batchIndex"], found["batchSize"]) == (entry, -1, -1, 0)


@pytest.mark.parametrize(
    ("target", "status", "reason"),
    [
        ("persistent/public/default/t/getMessageIdByIndex?index=6", 404, "Message not found for index 6"),
        ("persistent/public/default/t/getMessageIdByIndex?index=-1", 404, "Invalid message index: -1"),
        (
            "persistent/public/default/empty/getMessageIdByIndex?index=1",
            404,
            "No messages found in topic persistent://public/default/empty",
        ),
        (
            "persistent/public/default/parts/getMessageIdByIndex?index=1",
            405,
            "GetMessageIDByIndex is not allowed on partitioned-topic",
        ),
        (
            "non-persistent/public/default/n/getMessageIdByIndex?index=1",
            405,
            "Get message id by index on a non-persistent topic is not allowed",
        ),
    ],
)
def test_no_message_id_by_index(indexed, target, status, reason):
    for path in ("persistent/public/default/empty", "non-persistent/public/default/n"):
        indexed("PUT", f"/admin/v2/{path}")
    indexed("PUT", "/admin/v2/persistent/public/default/parts/partitions", 2)
    answer = indexed("GET", f"/admin/v2/{target}")
    assert (answer.status, answer.json["reason"]) == (status, reason)


def test_the_stored_backlog_of_a_topic(world, rest):
    client = world.client()
    client.producer("t")
    client.subscribe("t", subscription="sub", subType=1)
    client.publish()
    found = rest("GET", "/admin/v2/persistent/public/default/t/backlog").json
    assert (found["totalMessages"], found["messageBacklog"]) == (1, 1)
    assert found["cursorDetails"]["sub"]["cursorBacklog"] == 1


def test_the_hashes_of_the_topics_of_a_bundle(world, rest):
    """The hash that a real 4.2.4 reported for a topic with this name."""
    rest("PUT", "/admin/v2/namespaces/public/mis")
    rest("PUT", "/admin/v2/persistent/public/mis/s1")
    path = "/admin/v2/namespaces/public/mis/0x80000000_0xc0000000/topicHashPositions"
    positions = {"persistent://public/mis/s1": 3092956163}
    assert rest("GET", path).json["topicHashPositions"] == positions
    assert rest("GET", f"{path}?topics=persistent://public/mis/s1").json["topicHashPositions"] == positions
    assert rest("GET", f"{path}?topics=persistent://public/mis/t").json["topicHashPositions"] == {}
