"""A broker without sockets, and clients that use the client side of a session."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import Message

from pcli.codec.proto import pb
from pcli.codec.session import ClientSession, Event
from pcli.codec.wire.build import push_entry
from pcli.minibroker.broker import Broker
from pcli.minibroker.settings import Settings
from pcli.minibroker.versions import DEFAULT, version_of

START = 1_700_000_000_000


class Client:
    """One client.

    All commands that it sends at once are one turn of the broker; the responses of the turn are returned.
    """

    def __init__(self, world: World, connection: Any, session: ClientSession) -> None:
        self.world = world
        self.connection = connection
        self.session = session
        self.heard: list[Event] = []
        """Received commands that were not returned yet."""
        self.closed = False
        """Whether the broker has closed the connection."""

    def __call__(self, *bodies: Message, entry: bytes = b"") -> list[Any]:
        """Send these commands in one write; return the bodies of the immediate responses."""
        for body in bodies:
            self.session.send(body, entry)
        return self.raw(self.session.output())

    def raw(self, data: bytes) -> list[Any]:
        """Send these bytes; return the bodies of the immediate responses."""
        self.world.broker.receive(self.connection, data, self.world.now)
        self.world.deliver()
        return self.hear()

    def hear(self) -> list[Any]:
        """Return the bodies of the commands received since the last call."""
        events, self.heard = self.heard, []
        return [event.body for event in events]

    def one(self, body: Message, entry: bytes = b"") -> Any:
        """Send a command and return the only response."""
        [answer] = self(body, entry=entry)
        return answer

    # -- frequent commands -----------------------------------------------------------------------------------------

    def look_up(self, topic: str) -> None:
        assert self.one(pb.CommandLookupTopic(topic=topic)).response == pb.CommandLookupTopicResponse.Connect

    def producer(self, topic: str = "t", producer_id: int = 1, **fields: Any) -> Any:
        self.look_up(topic)
        return self.one(pb.CommandProducer(topic=topic, producer_id=producer_id, **fields))

    def subscribe(self, topic: str = "t", consumer_id: int = 1, **fields: Any) -> Any:
        self.look_up(topic)
        fields = {"subscription": "sub", "subType": pb.CommandSubscribe.Exclusive} | fields
        return self.one(pb.CommandSubscribe(topic=topic, consumer_id=consumer_id, **fields))

    def publish(self, text: str = "hello", sequence_id: int = 0, producer_id: int = 1, **fields: Any) -> list[Any]:
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=self.world.now)
        send = pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id, num_messages=1, **fields)
        return self(send, entry=push_entry(metadata, text.encode()))

    def flow(self, permits: int = 1000, consumer_id: int = 1) -> list[Any]:
        return self(pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))

    def leave(self) -> None:
        """Close the socket."""
        self.world.broker.disconnected(self.connection, self.world.now)
        self.world.deliver()


class World:
    """A broker, its clients and their clock."""

    def __init__(self, version: str = DEFAULT.name, **settings: Any) -> None:
        self.now = START
        chosen = dataclasses.replace(Settings.of_version(version_of(version)), **settings)
        self.broker = Broker(chosen, service_url="pulsar://127.0.0.1:6650", now=START)
        self.clients: dict[Any, Client] = {}

    def accept(self, address: str = "10.0.0.1", **session: Any) -> Client:
        """Return a client that has not sent anything yet."""
        connection = self.broker.connect((address, 40000 + len(self.clients)), self.now)
        client = self.clients[connection] = Client(self, connection, ClientSession(**session))
        self.deliver()
        return client

    def client(self, version: int = 21, **connect: Any) -> Client:
        """Return a client after its handshake."""
        client = self.accept(version=version)
        client.session.connect(**connect)
        [connected] = client()
        assert isinstance(connected, pb.CommandConnected)
        return client

    def deliver(self) -> None:
        """Deliver the broker's output to the clients."""
        while pieces := self.broker.drain():
            for connection, data in pieces:
                client = self.clients.get(connection)
                if client is not None:
                    client.heard += client.session.receive(data)
                    client.closed = client.closed or connection.closing
            self.broker.finish_turn()

    def advance(self, milliseconds: int) -> None:
        """Advance the time in one step, like a long pause of the event loop."""
        self.now += milliseconds
        self.broker.advance(self.now)
        self.deliver()

    def wait(self, milliseconds: int) -> None:
        """Advance the time timer by timer, like an idle event loop."""
        end = self.now + milliseconds
        while (due := self.broker.deadline) is not None and due <= end:
            self.now = max(self.now, due)
            self.advance(0)
        self.now = end
        self.advance(0)


@pytest.fixture
def make_world() -> Iterator[Any]:
    """Create a broker with other settings. At the end no broker may have had an internal error."""
    worlds = []

    def make(**settings: Any) -> World:
        worlds.append(World(**settings))
        return worlds[-1]

    yield make
    for world in worlds:
        for failure in world.broker.failures:
            raise failure


@pytest.fixture
def world(make_world: Any) -> World:
    return make_world()


@pytest.fixture
def client(world: World) -> Client:
    return world.client()


class Peer:
    """A client on a socket that sends and receives commands one after the other."""

    def __init__(self, service_url: str) -> None:
        host, _, port = service_url.removeprefix("pulsar://").rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        own = self.socket.getsockname()
        self.address = f"{own[0]}:{own[1]}"
        self.session = ClientSession()
        self.sent = self.received = b""
        self.heard: list[Event] = []
        self.session.connect()
        self.say()
        self.hear(pb.CommandConnected)

    def say(self, *bodies: Message, entry: bytes = b"") -> None:
        for body in bodies:
            self.session.send(body, entry)
        data = self.session.output()
        self.sent += data
        self.socket.sendall(data)

    def hear(self, kind: type[Message]) -> Any:
        """Return the next command of this class; earlier commands of other classes can still be read."""
        while True:
            for event in self.heard:
                if isinstance(event.body, kind):
                    self.heard.remove(event)
                    return event.body
            data = self.socket.recv(1 << 16)
            assert data, f"the connection ended before {kind.__name__}"
            self.received += data
            self.heard += self.session.receive(data)

    def ask(self, kind: type[Message], body: Message, entry: bytes = b"") -> Any:
        self.say(body, entry=entry)
        return self.hear(kind)

    def end(self) -> None:
        """Read to the end of the connection."""
        try:
            while data := self.socket.recv(1 << 16):
                self.received += data
                self.heard += self.session.receive(data)
        except ConnectionResetError:
            pass

    def produce(self, topic: str = "orders", name: str = "p1") -> Any:
        self.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic=topic))
        return self.ask(pb.CommandProducerSuccess, pb.CommandProducer(topic=topic, producer_id=1, producer_name=name))

    def publish(self, payload: bytes = b"hello", sequence_id: int = 0, **metadata: Any) -> Any:
        self.send(payload, sequence_id, **metadata)
        return self.hear(pb.CommandSendReceipt)

    def send(self, payload: bytes = b"hello", sequence_id: int = 0, **metadata: Any) -> None:
        about = pb.MessageMetadata(producer_name="p1", sequence_id=sequence_id, publish_time=START, **metadata)
        command = pb.CommandSend(producer_id=1, sequence_id=sequence_id, num_messages=1)
        self.say(command, entry=push_entry(about, payload))

    def subscribe(self, topic: str = "orders", kind: str = "Shared", **fields: Any) -> Any:
        self.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic=topic))
        fields = {"subscription": "work", "consumer_name": "c1", "consumer_id": 1} | fields
        sub_type = pb.CommandSubscribe.SubType.Value(kind)
        return self.ask(pb.CommandSuccess, pb.CommandSubscribe(topic=topic, subType=sub_type, **fields))

    def flow(self, permits: int = 10) -> None:
        self.say(pb.CommandFlow(consumer_id=1, messagePermits=permits))

    def ack(self, message: pb.CommandMessage) -> None:
        self.say(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message.message_id]))


@pytest.fixture
def connect() -> Iterator[Any]:
    """Connect to the broker at a service URL; return a Peer after its handshake."""
    peers: list[Peer] = []

    def make(broker: Any) -> Peer:
        peers.append(Peer(broker.service_url))
        return peers[-1]

    yield make
    for peer in peers:
        peer.socket.close()
