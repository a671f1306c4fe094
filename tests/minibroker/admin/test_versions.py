"""Responses over REST that differ between versions. Expected values are those of real brokers."""

from __future__ import annotations

import pytest

from pcli.minibroker.versions import NAMES

SPACE = "/admin/v2/namespaces/public/default"
TOPIC = "/admin/v2/persistent/public/default/t"


@pytest.fixture
def both(make_rest):
    """The REST clients of brokers of all versions, each with a topic with a subscription."""
    rests = []
    for version in NAMES:
        _, rest = make_rest(version=version)
        rest("PUT", f"{TOPIC}/subscription/sub")
        rests.append(rest)
    return rests


def test_the_page_of_an_error(both):
    host = {"host": "localhost:8080"}
    old, new = (rest("GET", "/admin/v2/no%2Fthing?a=<b>&c=%3C", headers=host).data.decode() for rest in both)
    assert "<body><h2>HTTP ERROR 404 Not Found</h2>" in old
    assert "<tr><th>URI:</th><td>/admin/v2/no%2Fthing</td></tr>" in old
    assert "SERVLET" in old
    assert "Jetty:// 12.1.11<" in old
    assert "<body>\n<h2>HTTP ERROR 404 Not Found</h2>" in new
    assert "<td>http://localhost:8080/admin/v2/no%2Fthing?a=&lt;b&gt;&amp;c=%3C</td>" in new
    assert "SERVLET" not in new
    assert "Jetty:// 12.1.13<" in new
    accept = host | {"accept": "application/json"}
    assert [list(rest("GET", "/admin/v2/nothing", headers=accept).json) for rest in both] == [
        ["servlet", "message", "url", "status"],
        ["message", "url", "status"],
    ]


def test_the_statistics_of_a_subscription(both):
    old, new = (rest("GET", f"{TOPIC}/stats").json["subscriptions"]["sub"] for rest in both)
    assert old.keys() - new.keys() == {"consumersAfterMarkDeletePosition"}
    assert new.keys() - old.keys() == {"oldestBacklogMessageAgeSeconds"}
    rest = both[1]
    assert rest("PUT", "/admin/v2/persistent/public/default/p/partitions", 2).status == 204
    rest("PUT", "/admin/v2/persistent/public/default/p/subscription/sub")
    merged = rest("GET", "/admin/v2/persistent/public/default/p/partitioned-stats").json["subscriptions"]["sub"]
    assert (new["oldestBacklogMessageAgeSeconds"], merged["oldestBacklogMessageAgeSeconds"]) == (-1, -1)


def test_the_order_of_a_message_id(both):
    old, new = (list(rest("POST", f"{TOPIC}/terminate").json) for rest in both)
    assert old == ["ledgerId", "entryId", "partitionIndex", "batchIndex", "batchSize"]
    assert new == ["ledgerId", "entryId", "partitionIndex", "batchSize", "batchIndex"]


def test_the_broker_id(both):
    for path in ("/lookup/v2/topic/persistent/public/default/t", "/admin/v2/broker-stats/load-report"):
        old, new = (rest("GET", path).json for rest in both)
        assert "brokerId" not in old
        assert new["brokerId"] == "127.0.0.1:8080"


def test_the_data_of_the_cluster(both):
    old, new = (rest("GET", "/admin/v2/clusters/standalone").json for rest in both)
    assert old.items() - {**new, "peerClusterNames": ""}.items() == {
        ("brokerClientSslFactoryPlugin", "org.apache.pulsar.common.util.DefaultPulsarSslFactory")
    }
    assert new["peerClusterNames"] == []


def test_clear_the_backlog_of_a_subscription_in_a_bundle(both):
    old, new = both
    statuses = [rest("GET", f"{SPACE}/bundles").json["numBundles"] for rest in both]
    assert statuses == [4, 32]
    path = "0x00000000_0x08000000/clearSubscriptionBacklog"
    assert old("POST", f"{SPACE}/{path}/sub").status == 404
    assert new("POST", f"{SPACE}/{path}/sub").status == 204
    answer = new("POST", f"{SPACE}/{path}/pulsar.repl.x")
    assert answer.status == 403
    assert answer.json == {"reason": "Clearing the backlog of a replicator cursor is not allowed for this request"}
    missing = new("POST", f"/admin/v2/namespaces/public/nope/{path}/sub")
    assert (missing.status, missing.json) == (404, {"reason": "Namespace not found"})


def test_the_bundles_of_the_system_namespace(make_rest):
    found = []
    for version in NAMES:
        _, rest = make_rest(version=version, defaultNumberOfNamespaceBundles=3)
        found.append(rest("GET", "/admin/v2/namespaces/pulsar/system").json["bundles"]["numBundles"])
    assert found == [3, 64]
