"""Where a topic is, asked of brokers."""

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


def _look(end: Any) -> list[Any]:
    """Ask for the owner of the topic; the first host has been connected to."""
    found: list[Any] = []
    end.engine.lookup.broker_of(TOPIC, found.append)
    assert end.said() == ["0 Connect"]
    return found


def _owner(asked: Any, url: str, response: Any = _CONNECT, **fields: Any) -> pb.CommandLookupTopicResponse:
    return pb.CommandLookupTopicResponse(
        request_id=asked.request_id, response=response, brokerServiceUrl=url, brokerServiceUrlTls=f"{url}1", **fields
    )


def test_the_owner(wire: Any) -> None:
    end = wire()
    found = _look(end)
    [(_, asked)] = end.shake()
    assert (asked.topic, asked.authoritative, asked.HasField("advertised_listener_name")) == (TOPIC, False, False)
    end.say(_owner(asked, "pulsar://b:2"))
    assert (found[0].broker, found[0].through) == (("b", 2), None)


def test_the_questions_are_those_of_the_java_client(captures: Path, wire: Any) -> None:
    with (captures / "java" / "seek.pcap").open("rb") as file:
        frames = [one.command for one in read_capture([("seek", file)]) if isinstance(one, CapturedFrame)]
    theirs = [next(one.partitionMetadata for one in frames if one.HasField("partitionMetadata"))]
    theirs.append(next(one.lookupTopic for one in frames if one.HasField("lookupTopic")))

    end = wire()
    end.engine.partitions(theirs[0].topic, lambda count: None)
    end.engine.lookup.broker_of(theirs[1].topic, lambda found: None)
    end.hear()
    ours = [body for _, body in end.shake()]
    for body, other in zip(ours, theirs):
        body.request_id = other.request_id
    assert ours == theirs


def test_with_tls_the_other_address_counts(wire: Any) -> None:
    end = wire("pulsar+ssl://a:1")
    found = _look(end)
    [(_, asked)] = end.shake()
    end.say(_owner(asked, "pulsar://b:2"))
    assert found[0].broker == ("b", 21)


def test_a_listener_is_asked_for_by_name(wire: Any) -> None:
    end = wire(listenerName="outside")
    _look(end)
    [(_, asked)] = end.shake()
    assert asked.advertised_listener_name == "outside"


def test_redirects_are_followed_with_their_authority(wire: Any) -> None:
    end = wire()
    found = _look(end)
    [(_, first)] = end.shake()
    assert [body.DESCRIPTOR.name for _, body in end.say(_owner(first, "pulsar://b:2", _REDIRECT, authoritative=True))]
    [(connection, second)] = end.shake()
    assert (connection, second.authoritative) == (1, True)
    end.say(_owner(second, "pulsar://c:3"))
    assert found[0].broker == ("c", 3)


def test_not_for_ever(wire: Any) -> None:
    end = wire(maxLookupRedirects=2)
    found = _look(end)
    [(_, asked)] = end.shake()
    for _ in range(2):
        [(_, asked)] = end.say(_owner(asked, "pulsar://a:1", _REDIRECT))
    end.say(_owner(asked, "pulsar://a:1", _REDIRECT))
    assert found == [ClientFailure("Lookup", f"{TOPIC}: too many redirects: 2")]


def test_a_proxy_is_gone_through_and_remembered_for_assigned_brokers(wire: Any) -> None:
    end = wire()
    connections: list[Any] = []
    end.engine.connection_for(TOPIC, connections.append)
    end.hear()
    [(_, asked)] = end.shake()
    [(_, connect)] = end.say(_owner(asked, "pulsar://b:2", proxy_through_service_url=True))
    assert connect.proxy_to_broker_url == "b:2"
    end.shake()
    end.engine.connection_for(TOPIC, connections.append, assigned="pulsar://c:3")
    [(_, connect)] = end.hear()
    assert connect.proxy_to_broker_url == "c:3"
    assert end.connections[2].address == ("a", 1)


def test_an_assigned_broker_needs_no_lookup(wire: Any) -> None:
    end = wire()
    end.engine.connection_for(TOPIC, lambda connection: None, assigned="pulsar://c:3")
    [(_, connect)] = end.hear()
    assert not connect.HasField("proxy_to_broker_url")
    assert end.connections[0].address == ("c", 3)


def test_another_cluster_is_asked_where_a_topic_has_migrated_to(wire: Any) -> None:
    end = wire()
    end.engine.connection_for(TOPIC, lambda connection: None, cluster=ServiceUrl.parse("pulsar://green:5"))
    assert end.said() == ["0 Connect"]
    assert end.connections[0].address == ("green", 5)
    assert [body.topic for _, body in end.shake()] == [TOPIC]


def test_questions_of_one_kind_for_one_topic_are_one(wire: Any) -> None:
    end = wire()
    counts: list[Any] = []
    for _ in range(3):
        end.engine.partitions(TOPIC, counts.append)
    end.hear()
    [(_, asked)] = end.shake()
    end.say(pb.CommandPartitionedTopicMetadataResponse(request_id=asked.request_id, partitions=4))
    assert counts == [4, 4, 4]


def test_hosts_are_asked_in_turn(wire: Any) -> None:
    end = wire("pulsar://a:1,b:2,c:3")
    for topic in ("x", "y", "z"):
        end.engine.partitions(topic, lambda count: None)
    end.hear()
    assert [connection.address for connection in end.connections] == [("b", 2), ("c", 3), ("a", 1)]


# -- partitions --------------------------------------------------------------------------------------------------------


def _failed(asked: Any, error: str) -> pb.CommandPartitionedTopicMetadataResponse:
    failed = pb.CommandPartitionedTopicMetadataResponse.Failed
    code = pb.ServerError.Value(error)
    return pb.CommandPartitionedTopicMetadataResponse(
        request_id=asked.request_id, response=failed, error=code, message="no"
    )


def _ask(end: Any, **create: bool) -> list[Any]:
    """Ask for the partitions; what becomes of it."""
    counts: list[Any] = []
    end.engine.partitions(TOPIC, counts.append, **create)
    end.hear()
    return counts


def test_what_may_help_is_tried_again_with_back_off(wire: Any) -> None:
    end = wire(lookupTimeoutMs=1_000)
    counts = _ask(end)
    [(_, asked)] = end.shake()
    for wait in (100, 200, 400, 300):
        end.say(_failed(asked, "MetadataError"))
        assert end.run(wait - 1) == []
        [(_, asked)] = end.run(1)
    assert counts == []
    end.say(_failed(asked, "MetadataError"))
    assert counts == [ClientFailure("MetadataError", "no")]


@pytest.mark.parametrize("error", ["AuthorizationError", "AuthenticationError", "TopicNotFound"])
def test_what_does_not_help_is_not_tried_again(wire: Any, error: str) -> None:
    end = wire()
    counts = _ask(end)
    [(_, asked)] = end.shake()
    end.say(_failed(asked, error))
    assert counts == [ClientFailure(error, "no")]


@pytest.mark.parametrize(("knows", "asks"), [(True, False), (False, True)])
def test_a_topic_is_not_created_by_asking_where_the_broker_can_do_that(wire: Any, knows: bool, asks: bool) -> None:
    end = wire()
    _ask(end, create=False)
    [(_, asked)] = end.shake(supports_get_partitioned_metadata_without_auto_creation=knows)
    assert asked.metadata_auto_creation_enabled is asks


# -- the rest, against the broker --------------------------------------------------------------------------------------


def test_topics_of_a_namespace(world: Any) -> None:
    engine, found = world.engine(), []
    for name in ("a-1", "a-2", "b"):
        engine.connection_for(f"persistent://public/default/{name}", lambda connection: None)
    world.settle()
    connection = engine.pool.connections[0]
    for number, name in enumerate(("a-1", "a-2", "b")):
        connection.request(
            pb.CommandProducer(topic=f"persistent://public/default/{name}", producer_id=number), lambda answer: None
        )
    mode = pb.CommandGetTopicsOfNamespace.PERSISTENT
    engine.topics_of("public/default", mode, "persistent://public/default/a-.*", "", found.append)
    world.settle()
    assert sorted(found[0].topics) == [f"persistent://public/default/a-{number}" for number in (1, 2)]
    engine.topics_of("public/default", mode, "persistent://public/default/a-.*", found[0].topics_hash, found.append)
    world.settle()
    assert not found[1].changed


def test_a_topic_without_schema(world: Any) -> None:
    engine, found = world.engine(), []
    engine.connection_for(TOPIC, lambda connection: None)
    world.settle()
    engine.schema(TOPIC, b"", found.append)
    world.settle()
    assert found[0].error == "TopicNotFound"
