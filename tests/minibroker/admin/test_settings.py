"""Settings with an effect on REST and on the commands of clients. Expected values are those of a real 4.2.4."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb

TOPIC = "/admin/v2/persistent/public/default/t"


def test_strict_names_of_subscriptions(make_rest):
    world, rest = make_rest(strictlyVerifySubscriptionName=True)
    client = world.client()
    text = "Please let the subscription only contains '/w(a-zA-Z_0-9)' or '_', the current value is bad name"
    refused = client.subscribe(subscription="bad name")
    assert (refused.error, refused.message) == (pb.ProducerBusy, text)
    assert isinstance(client.subscribe(subscription="good-name_x.y=:"), pb.CommandSuccess)
    answer = rest("PUT", f"{TOPIC}/subscription/bad%20name")
    assert (answer.status, answer.json) == (400, {"reason": text})


@pytest.mark.parametrize(
    ("setting", "off", "on"),
    [
        ("enablePersistentTopics", "persistent", "non-persistent"),
        ("enableNonPersistentTopics", "non-persistent", "persistent"),
    ],
)
def test_a_domain_without_topics(make_rest, setting, off, on):
    world, rest = make_rest(**{setting: False})
    client = world.client()
    refused = client.subscribe(f"{off}://public/default/t")
    assert (refused.error, refused.message) == (pb.NotAllowedError, "Broker is unable to load persistent topic")
    assert client.producer(f"{off}://public/default/t").error == pb.NotAllowedError
    assert rest("PUT", f"/admin/v2/{off}/public/default/t").status == 412
    assert isinstance(client.subscribe(f"{on}://public/default/t"), pb.CommandSuccess)


def test_the_entries_that_analyze_backlog_reads(make_rest):
    world, rest = make_rest(subscriptionBacklogScanMaxEntries=3)
    client = world.client()
    client.producer()
    client.subscribe()
    for sequence in range(5):
        client.publish(sequence_id=sequence)
    found = rest("POST", f"{TOPIC}/subscription/sub/analyzeBacklog").json
    assert (found["entries"], found["aborted"]) == (3, True)


def test_versions_of_client_libraries(make_rest):
    _, rest = make_rest(clientLibraryVersionCheckEnabled=True)
    assert rest("PUT", f"{TOPIC}/partitions", 2).status == 204
    text = "Client lib is not compatible to access partitioned metadata: version"
    for agent, reason in (
        ("", f"{text} in user-agent is not present"),
        ("Pulsar-CPP-v1.20-x", f"{text} Pulsar-CPP-v1.20-x is not supported"),
        ("Pulsar-CPP-v3.5.1", f"{text} Pulsar-CPP-v3.5.1 is not supported"),
    ):
        answer = rest("GET", f"{TOPIC}/partitions", headers={"user-agent": agent})
        assert (answer.status, answer.json) == (405, {"reason": reason})
    for agent in ("Pulsar-CPP-v1.21", "Pulsar-CPP-vx.y", "Pulsar-Java-v4.2.4"):
        assert rest("GET", f"{TOPIC}/partitions", headers={"user-agent": agent}).status == 200


def test_a_broker_without_system_topics(make_rest):
    """Policies of topics cannot be set, because a system topic would contain them."""
    _, rest = make_rest(systemTopicEnabled=False)
    assert rest("PUT", TOPIC).status == 204
    for method in ("POST", "DELETE"):
        answer = rest(method, f"{TOPIC}/maxProducers", 1 if method == "POST" else None)
        assert answer.status == 500
        assert "Message: Topic policies service is disabled." in answer.json["reason"]
    assert (rest("GET", f"{TOPIC}/maxProducers").status, rest("GET", f"{TOPIC}/maxProducers?applied=true").json) == (
        200,
        0,
    )
    names = rest("GET", "/admin/v2/persistent/public/default?includeSystemTopic=true").json
    assert names == ["persistent://public/default/t"]
