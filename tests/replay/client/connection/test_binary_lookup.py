"""Lookup of topics with the binary protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.service_url import ServiceUrl

TOPIC = "persistent://public/default/t"
_CONNECT, _REDIRECT = pb.CommandLookupTopicResponse.Connect, pb.CommandLookupTopicResponse.Redirect


def _find_connection(ready_broker: Any) -> list[Any]:
    """Request the owner of the topic; the first host is already connected."""
    found: list[Any] = []
    ready_broker.engine.lookup.broker_of(TOPIC, found.append)
    assert ready_broker.sent_summary() == ["0 Connect"]
    return found


def _owner(requested: Any, url: str, response: Any = _CONNECT, **fields: Any) -> pb.CommandLookupTopicResponse:
    return pb.CommandLookupTopicResponse(
        request_id=requested.request_id,
        response=response,
        brokerServiceUrl=url,
        brokerServiceUrlTls=f"{url}1",
        **fields,
    )


def test_the_owner(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    found = _find_connection(ready_broker)
    [(_, requested)] = ready_broker.complete_handshake()
    assert (requested.topic, requested.authoritative, requested.HasField("advertised_listener_name")) == (
        TOPIC,
        False,
        False,
    )
    ready_broker.broker_sends(_owner(requested, "pulsar://b:2"))
    assert (found[0].broker, found[0].through) == (("b", 2), None)


def test_requests_equal_the_java_clients(captures: Path, fake_broker: Any) -> None:
    with (captures / "java" / "seek.pcap").open("rb") as file:
        frames = [one.command for one in read_capture([("seek", file)]) if isinstance(one, CapturedFrame)]
    theirs = [next(one.partitionMetadata for one in frames if one.HasField("partitionMetadata"))]
    theirs.append(next(one.lookupTopic for one in frames if one.HasField("lookupTopic")))

    ready_broker = fake_broker()
    ready_broker.engine.partitions(theirs[0].topic, lambda count: None)
    ready_broker.engine.lookup.broker_of(theirs[1].topic, lambda found: None)
    ready_broker.take_output()
    ours = [body for _, body in ready_broker.complete_handshake()]
    for body, other in zip(ours, theirs):
        body.request_id = other.request_id
    assert ours == theirs


def test_with_tls_the_tls_address_is_used(fake_broker: Any) -> None:
    ready_broker = fake_broker("pulsar+ssl://a:1")
    found = _find_connection(ready_broker)
    [(_, requested)] = ready_broker.complete_handshake()
    ready_broker.broker_sends(_owner(requested, "pulsar://b:2"))
    assert found[0].broker == ("b", 21)


def test_the_advertised_listener_is_requested(fake_broker: Any) -> None:
    ready_broker = fake_broker(listenerName="outside")
    _find_connection(ready_broker)
    [(_, requested)] = ready_broker.complete_handshake()
    assert requested.advertised_listener_name == "outside"


def test_redirects_are_followed_with_their_authoritative_flag(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    found = _find_connection(ready_broker)
    [(_, first)] = ready_broker.complete_handshake()
    assert [
        body.DESCRIPTOR.name
        for _, body in ready_broker.broker_sends(_owner(first, "pulsar://b:2", _REDIRECT, authoritative=True))
    ]
    [(connection, second)] = ready_broker.complete_handshake()
    assert (connection, second.authoritative) == (1, True)
    ready_broker.broker_sends(_owner(second, "pulsar://c:3"))
    assert found[0].broker == ("c", 3)


def test_the_number_of_redirects_is_limited(fake_broker: Any) -> None:
    ready_broker = fake_broker(maxLookupRedirects=2)
    found = _find_connection(ready_broker)
    [(_, requested)] = ready_broker.complete_handshake()
    for _ in range(2):
        [(_, requested)] = ready_broker.broker_sends(_owner(requested, "pulsar://a:1", _REDIRECT))
    ready_broker.broker_sends(_owner(requested, "pulsar://a:1", _REDIRECT))
    assert found == [ClientFailure("Lookup", f"{TOPIC}: too many redirects: 2")]


def test_a_proxy_is_used_for_lookups_and_assigned_brokers(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    connections: list[Any] = []
    ready_broker.engine.connection_for(TOPIC, connections.append)
    ready_broker.take_output()
    [(_, requested)] = ready_broker.complete_handshake()
    [(_, connect)] = ready_broker.broker_sends(_owner(requested, "pulsar://b:2", proxy_through_service_url=True))
    assert connect.proxy_to_broker_url == "b:2"
    ready_broker.complete_handshake()
    ready_broker.engine.connection_for(TOPIC, connections.append, assigned="pulsar://c:3")
    [(_, connect)] = ready_broker.take_output()
    assert connect.proxy_to_broker_url == "c:3"
    assert ready_broker.connections[2].address == ("a", 1)


def test_an_assigned_broker_needs_no_lookup(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    ready_broker.engine.connection_for(TOPIC, lambda connection: None, assigned="pulsar://c:3")
    [(_, connect)] = ready_broker.take_output()
    assert not connect.HasField("proxy_to_broker_url")
    assert ready_broker.connections[0].address == ("c", 3)


def test_a_migrated_topic_is_looked_up_in_its_cluster(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    ready_broker.engine.connection_for(TOPIC, lambda connection: None, cluster=ServiceUrl.parse("pulsar://green:5"))
    assert ready_broker.sent_summary() == ["0 Connect"]
    assert ready_broker.connections[0].address == ("green", 5)
    assert [body.topic for _, body in ready_broker.complete_handshake()] == [TOPIC]


def test_equal_concurrent_requests_are_sent_once(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    counts: list[Any] = []
    for _ in range(3):
        ready_broker.engine.partitions(TOPIC, counts.append)
    ready_broker.take_output()
    [(_, requested)] = ready_broker.complete_handshake()
    ready_broker.broker_sends(pb.CommandPartitionedTopicMetadataResponse(request_id=requested.request_id, partitions=4))
    assert counts == [4, 4, 4]


def test_hosts_are_used_in_rotation(fake_broker: Any) -> None:
    ready_broker = fake_broker("pulsar://a:1,b:2,c:3")
    for topic in ("x", "y", "z"):
        ready_broker.engine.partitions(topic, lambda count: None)
    ready_broker.take_output()
    assert [connection.address for connection in ready_broker.connections] == [("b", 2), ("c", 3), ("a", 1)]


# -- partitions --------------------------------------------------------------------------------------------------------


def _failed(requested: Any, error: str) -> pb.CommandPartitionedTopicMetadataResponse:
    failed = pb.CommandPartitionedTopicMetadataResponse.Failed
    code = pb.ServerError.Value(error)
    return pb.CommandPartitionedTopicMetadataResponse(
        request_id=requested.request_id, response=failed, error=code, message="no"
    )


def _ask(ready_broker: Any, **create: bool) -> list[Any]:
    """Request the number of partitions; return the result."""
    counts: list[Any] = []
    ready_broker.engine.partitions(TOPIC, counts.append, **create)
    ready_broker.take_output()
    return counts


def test_retriable_failures_are_retried_with_back_off(fake_broker: Any) -> None:
    ready_broker = fake_broker(lookupTimeoutMs=1_000)
    counts = _ask(ready_broker)
    [(_, requested)] = ready_broker.complete_handshake()
    for wait in (100, 200, 400, 300):
        ready_broker.broker_sends(_failed(requested, "MetadataError"))
        assert ready_broker.run(wait - 1) == []
        [(_, requested)] = ready_broker.run(1)
    assert counts == []
    ready_broker.broker_sends(_failed(requested, "MetadataError"))
    assert counts == [ClientFailure("MetadataError", "no")]


@pytest.mark.parametrize("error", ["AuthorizationError", "AuthenticationError", "TopicNotFound"])
def test_final_failures_are_not_retried(fake_broker: Any, error: str) -> None:
    ready_broker = fake_broker()
    counts = _ask(ready_broker)
    [(_, requested)] = ready_broker.complete_handshake()
    ready_broker.broker_sends(_failed(requested, error))
    assert counts == [ClientFailure(error, "no")]


@pytest.mark.parametrize(("knows", "asks"), [(True, False), (False, True)])
def test_the_partition_request_does_not_create_a_topic_if_supported(fake_broker: Any, knows: bool, asks: bool) -> None:
    ready_broker = fake_broker()
    _ask(ready_broker, create=False)
    [(_, requested)] = ready_broker.complete_handshake(supports_get_partitioned_metadata_without_auto_creation=knows)
    assert requested.metadata_auto_creation_enabled is asks


# -- other lookups with a broker ---------------------------------------------------------------------------------------


def test_topics_of_a_namespace(network: Any) -> None:
    engine, found = network.engine(), []
    for name in ("a-1", "a-2", "b"):
        engine.connection_for(f"persistent://public/default/{name}", lambda connection: None)
    network.deliver_all()
    connection = engine.pool.connections[0]
    for number, name in enumerate(("a-1", "a-2", "b")):
        connection.request(
            pb.CommandProducer(topic=f"persistent://public/default/{name}", producer_id=number), lambda response: None
        )
    mode = pb.CommandGetTopicsOfNamespace.PERSISTENT
    engine.topics_of("public/default", mode, "persistent://public/default/a-.*", "", found.append)
    network.deliver_all()
    assert sorted(found[0].topics) == [f"persistent://public/default/a-{number}" for number in (1, 2)]
    engine.topics_of("public/default", mode, "persistent://public/default/a-.*", found[0].topics_hash, found.append)
    network.deliver_all()
    assert not found[1].changed


def test_a_topic_without_schema(network: Any) -> None:
    engine, found = network.engine(), []
    engine.connection_for(TOPIC, lambda connection: None)
    network.deliver_all()
    engine.schema(TOPIC, b"", found.append)
    network.deliver_all()
    assert found[0].error == "TopicNotFound"
