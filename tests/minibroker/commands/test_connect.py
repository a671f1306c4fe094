"""CONNECT, PING, PONG (conform: connect.*)."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb


def test_handshake(world):
    """>> CONNECT  << CONNECTED, as 4.2.4 writes it"""
    client = world.accept(version=21, features=("supports_auth_refresh",))
    client.session.connect()
    [connected] = client()
    assert connected == pb.CommandConnected(
        server_version="Pulsar Server4.2.4",
        protocol_version=21,
        max_message_size=5242880,
        feature_flags=pb.FeatureFlags(
            supports_topic_watchers=True,
            supports_get_partitioned_metadata_without_auto_creation=True,
            supports_repl_dedup_by_lid_and_eid=True,
            supports_topic_watcher_reconcile=True,
        ),
    )


def test_any_credentials_are_accepted(world):
    client = world.accept()
    client.session.connect(auth_method_name="token", auth_data=b"nonsense")
    [connected] = client()
    assert connected.protocol_version == 21


def test_another_message_size(make_world):
    world = make_world(maxMessageSize=1024)
    client = world.client()
    assert client.session.connected.max_message_size == 1024
    assert client.raw((1024 + 10240 - 4).to_bytes(4, "big")) == []
    assert not client.closed
    other = world.client()
    other.raw((1024 + 10240 - 3).to_bytes(4, "big"))
    assert other.closed


def test_topic_list_watchers_can_be_disabled(make_world):
    world = make_world(enableBrokerTopicListWatcher=False)
    client = world.client()
    assert not client.session.connected.feature_flags.supports_topic_watchers


@pytest.mark.parametrize("connected", [False, True])
def test_an_auth_response_without_a_challenge(world, connected):
    client = world.client() if connected else world.accept()
    data = pb.AuthData(auth_method_name="token", auth_data=b"t")
    [error] = client(pb.CommandAuthResponse(client_version="x", response=data))
    assert (error.request_id, error.error) == (2**64 - 1, pb.AuthenticationError)
    assert client.closed


@pytest.mark.parametrize("version", [0, 1, 10, 21])
def test_ping_in_any_state(world, version):
    stranger = world.accept()
    assert stranger(pb.CommandPing()) == [pb.CommandPong()]
    assert world.client(version=version)(pb.CommandPing(), pb.CommandPong()) == [pb.CommandPong()]


@pytest.mark.parametrize(
    ("topics", "coordinators", "offered"),
    [
        (True, True, {"supports_scalable_topics", "supports_tc_metadata_discovery"}),
        (True, False, {"supports_scalable_topics"}),
        (False, True, set()),
    ],
)
def test_the_offer_of_version_5(make_world, topics, coordinators, offered):
    settings = {"scalableTopicsEnabled": topics, "transactionCoordinatorScalableTopicsEnabled": coordinators}
    connected = make_world(version="5.0.1", **settings).client().session.connected
    usual = {"supports_topic_watchers", "supports_topic_watcher_reconcile", "supports_repl_dedup_by_lid_and_eid"}
    usual |= {"supports_get_partitioned_metadata_without_auto_creation"}
    assert connected.server_version == "Pulsar Server5.0.1"
    assert {field.name for field, _ in connected.feature_flags.ListFields()} == usual | offered
