"""The broker's handshake (conform's connect.handshake*), and the features available to old clients."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.session import KeepAlive, Offer, ServerSession, State
from pcli.codec.wire.commands import BY_NAME


def session(**offer):
    return ServerSession(Offer("Pulsar Server4.2.4", **offer), KeepAlive(30_000, 0))


def connected(version, *features, **offer):
    one = session(**offer)
    flags = pb.FeatureFlags(**dict.fromkeys(features, True))
    one.connect(pb.CommandConnect(client_version="x", protocol_version=version, feature_flags=flags))
    return one


def test_handshake():
    """CONNECT is answered by CONNECTED."""
    one = session(features=frozenset({"supports_topic_watchers"}), max_message_size=1000)
    assert not one.connected
    answer = one.connect(
        pb.CommandConnect(
            client_version="go",
            protocol_version=19,
            proxy_version="p",
            feature_flags=pb.FeatureFlags(supports_auth_refresh=True),
        )
    )
    assert answer == pb.CommandConnected(
        server_version="Pulsar Server4.2.4",
        protocol_version=19,
        max_message_size=1000,
        feature_flags=pb.FeatureFlags(supports_topic_watchers=True),
    )
    assert one.connected
    assert (one.version, one.client_version, one.proxy_version, one.features) == (
        19,
        "go",
        "p",
        frozenset({"supports_auth_refresh"}),
    )


@pytest.mark.parametrize(("asked", "given"), [(99, 21), (21, 21), (12, 12), (0, 0), (-5, -5)])
def test_the_lower_version_is_negotiated(asked, given):
    assert connected(asked).version == given


def test_only_one_connect():
    one = session()
    connect, lookup = BY_NAME["CONNECT"].number, BY_NAME["LOOKUP"].number
    assert (one.allows(connect), one.allows(lookup)) == (True, False)
    one.connect(pb.CommandConnect(client_version="x"))
    assert (one.allows(connect), one.allows(lookup)) == (False, True)
    one.fail()
    assert one.state is State.FAILED
    assert (one.allows(connect), one.allows(lookup)) == (False, False)


@pytest.mark.parametrize(
    ("version", "sees"),
    [
        (0, set()),
        (1, {"pings"}),
        (4, {"pings", "reads_batches"}),
        (5, {"pings", "reads_batches", "supports_close"}),
        (11, {"pings", "reads_batches", "supports_close", "reads_checksum", "plain_delivery"}),
        (17, {"pings", "reads_batches", "supports_close", "reads_checksum", "plain_delivery"}),
        (18, {"pings", "reads_batches", "supports_close", "reads_checksum", "plain_delivery", "reads_broker_entry"}),
    ],
)
def test_features_by_version(version, sees):
    one = connected(version, "supports_broker_entry_metadata", expose_broker_entry=True)
    words = ("pings", "reads_batches", "supports_close", "reads_checksum", "plain_delivery", "reads_broker_entry")
    assert {word for word in words if getattr(one, word)} == sees


def test_broker_entries_need_version_flag_and_setting():
    assert connected(21, "supports_broker_entry_metadata", expose_broker_entry=True).reads_broker_entry
    assert not connected(21, expose_broker_entry=True).reads_broker_entry
    assert not connected(21, "supports_broker_entry_metadata").reads_broker_entry


def test_commands_by_version():
    assert connected(12).supports_command("ACTIVE_CONSUMER_CHANGE")
    assert not connected(11).supports_command("ACTIVE_CONSUMER_CHANGE")
