"""One connection: handshake, requests, routing of commands to handlers, and the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pcli.cli import __version__
from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.replay.client.connection.connection_handler import ConnectionHandler
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.service_url import Security

TOPIC = "persistent://public/default/t"


class Thing(ConnectionHandler):
    """A handler that stores the commands that it receives."""

    kind = "consumer"

    def __init__(self, engine: Any) -> None:
        super().__init__(engine, TOPIC)
        self.sent_frames: list[Any] = []

    def received(self, event: Any) -> None:
        self.sent_frames.append(event.body)

    def lost(self) -> None:
        self.sent_frames.append("lost")


def _dial(ready_broker: Any) -> list[Any]:
    """Request a connection; return the result."""
    connections: list[Any] = []
    ready_broker.engine.pool.connection_to(("a", 1), connections.append)
    return connections


# -- the handshake -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "security"), [("seek.pcap", Security()), ("auth-token.pcap", Security(token="secret"))]
)
def test_connect_equals_the_java_clients(captures: Path, fake_broker: Any, name: str, security: Security) -> None:
    with (captures / "java" / name).open("rb") as file:
        frames = (one for one in read_capture([(name, file)]) if isinstance(one, CapturedFrame))
        theirs = next(frame.command.connect for frame in frames if frame.command.HasField("connect"))
    ready_broker = fake_broker(security=security)
    _dial(ready_broker)
    [(_, ours)] = ready_broker.take_output()

    assert theirs.client_version == "Pulsar-Java-v4.2.4"
    assert ours.client_version == f"pcli-{__version__}"
    ours.client_version = theirs.client_version
    assert ours.auth_data == security.token.encode()
    ours.auth_data = theirs.auth_data
    assert ours == theirs


def test_the_connection_is_ready_after_the_handshake(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    connections = _dial(ready_broker)
    assert ready_broker.sent_summary() == ["0 Connect"]
    assert connections == []
    ready_broker.broker_sends(pb.CommandConnected(server_version="x", protocol_version=19, max_message_size=1000))
    assert connections == ready_broker.connections
    assert (connections[0].version, connections[0].max_message_size) == (19, 1000)


def test_a_refused_handshake_has_the_brokers_error(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    connections = _dial(ready_broker)
    ready_broker.take_output()
    ready_broker.broker_sends(
        pb.CommandError(request_id=2**64 - 1, error=pb.AuthenticationError, message="who are you")
    )
    assert connections == [ClientFailure("AuthenticationError", "who are you")]
    assert ready_broker.shut == ready_broker.connections


def test_a_close_during_the_handshake_suggests_tls(fake_broker: Any) -> None:
    ready_broker = fake_broker()
    connections = _dial(ready_broker)
    ready_broker.take_output()
    ready_broker.cut(reason="the broker closed the connection")
    text = "a:1: the broker closed the connection, in the handshake; for a TLS port write pulsar+ssl://"
    assert connections == [ClientFailure("Connect", text)]


def test_a_silent_broker_is_disconnected_after_the_keep_alive(fake_broker: Any) -> None:
    ready_broker = fake_broker(keepAliveIntervalSeconds=30)
    connections = _dial(ready_broker)
    ready_broker.take_output()
    ready_broker.run(30_000)
    assert connections == [ClientFailure("Disconnected", "no data was received from a:1")]


def test_credentials_are_read_again_for_a_challenge(fake_broker: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    ready_broker = fake_broker(security=Security(token=f"file:{token}"))
    _dial(ready_broker)
    [(_, connect)] = ready_broker.take_output()
    assert (connect.auth_method_name, connect.auth_data) == ("token", b"old")
    ready_broker.complete_handshake()

    token.write_text("new\n")
    challenge = pb.AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
    [(_, response)] = ready_broker.broker_sends(pb.CommandAuthChallenge(challenge=challenge, protocol_version=21))
    assert response.response == pb.AuthData(auth_method_name="token", auth_data=b"new")
    assert response.protocol_version == 21

    token.unlink()
    ready_broker.broker_sends(pb.CommandAuthChallenge(challenge=challenge, protocol_version=21))
    assert ready_broker.connections[0].close_reason.error == "InvalidConfiguration"


# -- routing of commands -----------------------------------------------------------------------------------------------


def test_unrequested_commands_are_dispatched_by_id(ready_broker: Any) -> None:
    first, second = Thing(ready_broker.engine), Thing(ready_broker.engine)
    for thing in (first, second):
        ready_broker.connections[0].attach(thing)
    ready_broker.broker_sends(
        pb.CommandActiveConsumerChange(consumer_id=1, is_active=True),
        pb.CommandReachedEndOfTopic(consumer_id=0),
        pb.CommandReachedEndOfTopic(consumer_id=7),
    )
    assert first.sent_frames == [pb.CommandReachedEndOfTopic(consumer_id=0)]
    assert second.sent_frames == [pb.CommandActiveConsumerChange(consumer_id=1, is_active=True)]
    ready_broker.connections[0].detach(second)
    ready_broker.broker_sends(pb.CommandReachedEndOfTopic(consumer_id=1))
    assert len(second.sent_frames) == 1


def test_a_migrated_topic_is_looked_up_in_its_new_cluster(fake_broker: Any) -> None:
    ready_broker = fake_broker("pulsar+ssl://a:1")
    thing = Thing(ready_broker.engine)
    thing.start()
    ready_broker.take_output()
    ready_broker.complete_handshake()
    ready_broker.connections[0].attach(thing)
    ready_broker.broker_sends(
        pb.CommandTopicMigrated(
            resource_id=0,
            resource_type=pb.CommandTopicMigrated.Consumer,
            brokerServiceUrl="pulsar://green:1",
            brokerServiceUrlTls="pulsar+ssl://green:2",
        )
    )
    assert str(thing.cluster) == "pulsar+ssl://green:2"


@pytest.mark.parametrize("url", ["", "kafka://green:1", "pulsar://green:99999"])
def test_a_migration_without_a_valid_url_is_ignored(fake_broker: Any, url: str) -> None:
    ready_broker = fake_broker()
    thing = Thing(ready_broker.engine)
    thing.start()
    ready_broker.take_output()
    ready_broker.complete_handshake()
    ready_broker.connections[0].attach(thing)
    kind = pb.CommandTopicMigrated.Consumer
    ready_broker.broker_sends(pb.CommandTopicMigrated(resource_id=0, resource_type=kind, brokerServiceUrl=url))
    assert thing.cluster is None
    assert ready_broker.shut == []


def test_pings_are_answered_and_sent(ready_broker: Any) -> None:
    assert [body.DESCRIPTOR.name for _, body in ready_broker.broker_sends(pb.CommandPing())] == ["CommandPong"]
    assert [body.DESCRIPTOR.name for _, body in ready_broker.run(30_000)] == ["CommandPing"]
    ready_broker.broker_sends(pb.CommandPong())
    assert [body.DESCRIPTOR.name for _, body in ready_broker.run(30_000)] == ["CommandPing"]
    ready_broker.run(30_000)
    assert ready_broker.shut == ready_broker.connections


# -- the end -----------------------------------------------------------------------------------------------------------


def test_the_end_of_a_connection_fails_requests_before_handlers(ready_broker: Any) -> None:
    thing = Thing(ready_broker.engine)
    thing.connection = ready_broker.connections[0]
    ready_broker.connections[0].attach(thing)
    order: list[str] = thing.sent_frames
    for name in ("first", "second"):
        ready_broker.connections[0].request(
            pb.CommandUnsubscribe(consumer_id=1), lambda response, name=name: order.append(name)
        )
    ready_broker.cut(reason="connection reset by peer")
    assert order == ["first", "second", "lost"]
    late: list[Any] = []
    ready_broker.connections[0].request(pb.CommandUnsubscribe(consumer_id=1), late.append)
    assert late == [ClientFailure("Disconnected", "a:1: connection reset by peer")]


def test_pending_output_is_written_before_a_close(ready_broker: Any) -> None:
    ready_broker.connections[0].send(pb.CommandFlow(consumer_id=1, messagePermits=1))
    ready_broker.connections[0].close(ClientFailure("Closed", "enough"))
    ready_broker.connections[0].send(pb.CommandFlow(consumer_id=1, messagePermits=2))
    [(_, flow)] = ready_broker.take_output()
    assert flow.messagePermits == 1
    assert ready_broker.shut == ready_broker.connections


def test_a_command_with_an_invalid_value_ends_the_connection(ready_broker: Any) -> None:
    class Choosy(Thing):
        def received(self, event: Any) -> None:
            raise RemoteError("a topic that is none")

    ready_broker.connections[0].attach(Choosy(ready_broker.engine))
    ready_broker.broker_sends(pb.CommandReachedEndOfTopic(consumer_id=0))
    assert ready_broker.connections[0].close_reason == ClientFailure("Disconnected", "a:1: a topic that is none")
    assert ready_broker.shut == ready_broker.connections


def test_invalid_frames_end_the_connection(ready_broker: Any) -> None:
    ready_broker.engine.received(ready_broker.connections[0], b"HTTP/1.1 400 Bad Request\r\n", ready_broker.now)
    ready_broker.take_output()
    assert ready_broker.shut == ready_broker.connections
    assert "a frame of 1213486164 bytes" in ready_broker.connections[0].close_reason.message
