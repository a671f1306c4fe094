"""One connection: handshake, requests, who gets what, and the end."""

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
    """A handler that keeps what it hears."""

    kind = "consumer"

    def __init__(self, engine: Any) -> None:
        super().__init__(engine, TOPIC)
        self.heard: list[Any] = []

    def received(self, event: Any) -> None:
        self.heard.append(event.body)

    def lost(self) -> None:
        self.heard.append("lost")


def _dial(end: Any) -> list[Any]:
    """Ask for a link; what becomes of it."""
    connections: list[Any] = []
    end.engine.pool.connection_to(("a", 1), connections.append)
    return connections


# -- the handshake -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "security"), [("seek.pcap", Security()), ("auth-token.pcap", Security(token="secret"))]
)
def test_connect_says_what_the_java_client_says(captures: Path, wire: Any, name: str, security: Security) -> None:
    with (captures / "java" / name).open("rb") as file:
        frames = (one for one in read_capture([(name, file)]) if isinstance(one, CapturedFrame))
        theirs = next(frame.command.connect for frame in frames if frame.command.HasField("connect"))
    end = wire(security=security)
    _dial(end)
    [(_, ours)] = end.hear()

    assert theirs.client_version == "Pulsar-Java-v4.2.4"
    assert ours.client_version == f"pcli-{__version__}"
    ours.client_version = theirs.client_version
    assert ours.auth_data == security.token.encode()
    ours.auth_data = theirs.auth_data
    assert ours == theirs


def test_the_link_is_there_after_the_handshake(wire: Any) -> None:
    end = wire()
    connections = _dial(end)
    assert end.said() == ["0 Connect"]
    assert connections == []
    end.say(pb.CommandConnected(server_version="x", protocol_version=19, max_message_size=1000))
    assert connections == end.connections
    assert (connections[0].version, connections[0].max_message_size) == (19, 1000)


def test_a_refused_handshake_is_told_with_the_brokers_words(wire: Any) -> None:
    end = wire()
    connections = _dial(end)
    end.hear()
    end.say(pb.CommandError(request_id=2**64 - 1, error=pb.AuthenticationError, message="who are you"))
    assert connections == [ClientFailure("AuthenticationError", "who are you")]
    assert end.shut == end.connections


def test_a_broker_that_hangs_up_in_the_handshake_may_want_tls(wire: Any) -> None:
    end = wire()
    connections = _dial(end)
    end.hear()
    end.cut(reason="the broker closed the connection")
    text = "a:1: the broker closed the connection, in the handshake; a port for TLS takes pulsar+ssl://"
    assert connections == [ClientFailure("Connect", text)]


def test_a_silent_broker_is_left_after_the_keep_alive(wire: Any) -> None:
    end = wire(keepAliveIntervalSeconds=30)
    connections = _dial(end)
    end.hear()
    end.run(30_000)
    assert connections == [ClientFailure("Disconnected", "nothing was heard of a:1")]


def test_credentials_are_read_anew_for_a_challenge(wire: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    end = wire(security=Security(token=f"file:{token}"))
    _dial(end)
    [(_, connect)] = end.hear()
    assert (connect.auth_method_name, connect.auth_data) == ("token", b"old")
    end.shake()

    token.write_text("new\n")
    challenge = pb.AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
    [(_, response)] = end.say(pb.CommandAuthChallenge(challenge=challenge, protocol_version=21))
    assert response.response == pb.AuthData(auth_method_name="token", auth_data=b"new")
    assert response.protocol_version == 21

    token.unlink()
    end.say(pb.CommandAuthChallenge(challenge=challenge, protocol_version=21))
    assert end.connections[0].gone.error == "InvalidConfiguration"


# -- who gets what -----------------------------------------------------------------------------------------------------


def test_unasked_commands_go_by_their_numbers(end: Any) -> None:
    first, second = Thing(end.engine), Thing(end.engine)
    for thing in (first, second):
        end.connections[0].attach(thing)
    end.say(
        pb.CommandActiveConsumerChange(consumer_id=1, is_active=True),
        pb.CommandReachedEndOfTopic(consumer_id=0),
        pb.CommandReachedEndOfTopic(consumer_id=7),
    )
    assert first.heard == [pb.CommandReachedEndOfTopic(consumer_id=0)]
    assert second.heard == [pb.CommandActiveConsumerChange(consumer_id=1, is_active=True)]
    end.connections[0].detach(second)
    end.say(pb.CommandReachedEndOfTopic(consumer_id=1))
    assert len(second.heard) == 1


def test_a_migrated_topic_is_asked_for_in_its_new_cluster(wire: Any) -> None:
    end = wire("pulsar+ssl://a:1")
    thing = Thing(end.engine)
    thing.start()
    end.hear()
    end.shake()
    end.connections[0].attach(thing)
    end.say(
        pb.CommandTopicMigrated(
            resource_id=0,
            resource_type=pb.CommandTopicMigrated.Consumer,
            brokerServiceUrl="pulsar://green:1",
            brokerServiceUrlTls="pulsar+ssl://green:2",
        )
    )
    assert str(thing.cluster) == "pulsar+ssl://green:2"


@pytest.mark.parametrize("url", ["", "kafka://green:1", "pulsar://green:99999"])
def test_a_migration_to_nowhere_is_no_news(wire: Any, url: str) -> None:
    end = wire()
    thing = Thing(end.engine)
    thing.start()
    end.hear()
    end.shake()
    end.connections[0].attach(thing)
    kind = pb.CommandTopicMigrated.Consumer
    end.say(pb.CommandTopicMigrated(resource_id=0, resource_type=kind, brokerServiceUrl=url))
    assert thing.cluster is None
    assert end.shut == []


def test_pings_are_answered_and_sent(end: Any) -> None:
    assert [body.DESCRIPTOR.name for _, body in end.say(pb.CommandPing())] == ["CommandPong"]
    assert [body.DESCRIPTOR.name for _, body in end.run(30_000)] == ["CommandPing"]
    end.say(pb.CommandPong())
    assert [body.DESCRIPTOR.name for _, body in end.run(30_000)] == ["CommandPing"]
    end.run(30_000)
    assert end.shut == end.connections


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_lost_link_is_told_to_requests_first_and_then_to_handlers(end: Any) -> None:
    thing = Thing(end.engine)
    thing.connection = end.connections[0]
    end.connections[0].attach(thing)
    order: list[str] = thing.heard
    for name in ("first", "second"):
        end.connections[0].request(pb.CommandUnsubscribe(consumer_id=1), lambda answer, name=name: order.append(name))
    end.cut(reason="connection reset by peer")
    assert order == ["first", "second", "lost"]
    late: list[Any] = []
    end.connections[0].request(pb.CommandUnsubscribe(consumer_id=1), late.append)
    assert late == [ClientFailure("Disconnected", "a:1: connection reset by peer")]


def test_what_was_said_before_a_close_is_written_first(end: Any) -> None:
    end.connections[0].send(pb.CommandFlow(consumer_id=1, messagePermits=1))
    end.connections[0].close(ClientFailure("Closed", "enough"))
    end.connections[0].send(pb.CommandFlow(consumer_id=1, messagePermits=2))
    [(_, flow)] = end.hear()
    assert flow.messagePermits == 1
    assert end.shut == end.connections


def test_a_command_that_a_handler_can_make_nothing_of_ends_the_link(end: Any) -> None:
    class Choosy(Thing):
        def received(self, event: Any) -> None:
            raise RemoteError("a topic that is none")

    end.connections[0].attach(Choosy(end.engine))
    end.say(pb.CommandReachedEndOfTopic(consumer_id=0))
    assert end.connections[0].gone == ClientFailure("Disconnected", "a:1: a topic that is none")
    assert end.shut == end.connections


def test_a_broker_that_talks_nonsense_is_left(end: Any) -> None:
    end.engine.received(end.connections[0], b"HTTP/1.1 400 Bad Request\r\n", end.now)
    end.hear()
    assert end.shut == end.connections
    assert "a frame of 1213486164 bytes" in end.connections[0].gone.message
