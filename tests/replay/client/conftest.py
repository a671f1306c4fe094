"""Client engines and a broker connected in memory, with one clock. All frames are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.commands import COMMANDS, name_of
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader
from pcli.minibroker.broker import Broker
from pcli.minibroker.settings import Settings
from pcli.replay.client.actions import Connect, Disconnect, Fetch, Write
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.engine import Engine
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from pcli.replay.service_url import ServiceUrl

START = 1_700_000_000_000


@dataclass
class SentFrame:
    """A frame of either side."""

    name: str
    body: Any
    frame: Frame
    time: int
    """Milliseconds since the start."""
    connection: ClientConnection
    from_client: bool


class Pipe:
    """One connection between an engine and the broker."""

    def __init__(self, engine: Engine, connection: ClientConnection, broker_connection: Any) -> None:
        self.engine = engine
        self.connection = connection
        self.broker_connection = broker_connection
        self.readers = {True: FrameReader(1 << 30), False: FrameReader(1 << 30)}


class SimulatedNetwork:
    """A broker and its clients. Simulated time passes only in `run` and `wait_for`."""

    def __init__(self, **settings: Any) -> None:
        self.now = START
        self.broker = Broker(Settings(**settings), service_url="pulsar://127.0.0.1:6650", now=START)
        self.broker.http_url = "http://127.0.0.1:8080"
        self.pipes: dict[ClientConnection, Pipe] = {}
        self.engines: list[Engine] = []
        self.frames: list[SentFrame] = []
        """All frames of both sides, in order."""
        self.reachable = True
        """Whether the broker accepts connections."""
        self.unresponsive = False
        """Whether the frames of the clients are dropped."""
        self.fetch: Callable[[Fetch], tuple[int, bytes]] | None = None
        """The HTTP server: request to status and body."""
        self.connects: list[Connect] = []
        """All connection attempts."""

    def engine(self, url: str = "pulsar://127.0.0.1:6650", *, chance: float = 0.0, **settings: Any) -> Engine:
        """Return a client; ``chance`` is the value of all its random numbers."""
        engine = Engine(ServiceUrl.parse(url), ClientSettings(**settings), now=self.now, random=lambda: chance)
        self.engines.append(engine)
        return engine

    def subscribe(self, **settings: Any) -> Any:
        """Return a consumer of a new client; by default of ``orders`` with the subscription ``work`` from Earliest."""
        given = {"topicNames": ("orders",), "subscriptionName": "work", "subscriptionInitialPosition": "Earliest"}
        made: list[Any] = []
        self.engine().subscribe(ConsumerSettings(**given | settings), made.append)
        return self.wait_for(made)

    def produce(self, topic: str = "orders", **settings: Any) -> Any:
        """Return a producer of a new client."""
        made: list[Any] = []
        self.engine().produce(topic, ProducerSettings(**settings), made.append)
        return self.wait_for(made)

    def publish(self, count: int, batch: int = 1) -> None:
        """Publish the messages ``m-0``, ``m-1`` … with a new producer."""
        producer = self.produce(batchingMaxMessages=batch)
        for n in range(count):
            producer.send(OutgoingMessage(b"m-%d" % n))
        self.run(10)

    # -- recorded frames -------------------------------------------------------------------------------------------

    def sent(self, *names: str, from_client: bool | None = None) -> list[Any]:
        """Return the bodies of the recorded frames of these types, in order."""
        return [one.body for one in self.sent_frames(*names, from_client=from_client)]

    def sent_frames(self, *names: str, from_client: bool | None = None) -> list[SentFrame]:
        """Return the recorded frames of these types, or of all types without names."""
        sides = (True, False) if from_client is None else (from_client,)
        return [one for one in self.frames if (not names or one.name in names) and one.from_client in sides]

    def clear_frames(self) -> None:
        """Delete the recorded frames."""
        self.frames.clear()

    # -- time ------------------------------------------------------------------------------------------------------

    def deliver_all(self) -> None:
        """Deliver all pending bytes without advancing the time."""
        while self._carry():
            pass

    def run(self, milliseconds: int) -> None:
        """Advance the time and run the timers of both sides."""
        self.deliver_all()
        end = self.now + milliseconds
        while (due := self._deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self._advance()
        self.now = end
        self._advance()

    def wait_for(self, result: list[Any], milliseconds: int = 60_000) -> Any:
        """Run until a callback has appended to ``result``; return its first item."""
        end = self.now + milliseconds
        self.deliver_all()
        while not result:
            due = self._deadline()
            assert due is not None, "no timer is set"
            assert due <= end, "no result in time"
            self.now = max(self.now, due)
            self._advance()
        return result[0]

    def _deadline(self) -> int | None:
        times = [side.deadline for side in (self.broker, *self.engines)]
        return min((due for due in times if due is not None), default=None)

    def _advance(self) -> None:
        self.broker.advance(self.now)
        for engine in self.engines:
            engine.advance(self.now)
        self.deliver_all()

    # -- the wire --------------------------------------------------------------------------------------------------

    def cut(self, reason: str = "cut") -> None:
        """Close all connections."""
        for pipe in list(self.pipes.values()):
            self._part(pipe)
            pipe.engine.disconnected(pipe.connection, self.now, reason)
        self.deliver_all()

    def _part(self, pipe: Pipe) -> None:
        del self.pipes[pipe.connection]
        self.broker.disconnected(pipe.broker_connection, self.now)

    def _carry(self) -> bool:
        moved = False
        for engine in self.engines:
            for action in engine.take():
                moved = True
                self._do(engine, action)
        while pieces := self.broker.drain():
            moved = True
            for broker_connection, data in pieces:
                self._to_client(broker_connection, data)
            self.broker.finish_turn()
        return moved

    def _do(self, engine: Engine, action: Any) -> None:
        match action:
            case Connect(connection):
                self.connects.append(action)
                self._connect(engine, connection)
            case Write(connection, data) if connection in self.pipes:
                pipe = self.pipes[connection]
                self._keep(pipe, data, from_client=True)
                if not self.unresponsive:
                    self.broker.receive(pipe.broker_connection, data, self.now)
            case Disconnect(connection) if connection in self.pipes:
                self._part(self.pipes[connection])
            case Fetch():
                assert self.fetch is not None
                engine.fetched(action, *self.fetch(action), self.now)

    def _connect(self, engine: Engine, connection: ClientConnection) -> None:
        if not self.reachable:
            engine.disconnected(connection, self.now, "connection refused")
            return
        broker_connection = self.broker.connect(("10.0.0.1", 40000 + connection.number), self.now)
        self.pipes[connection] = Pipe(engine, connection, broker_connection)
        engine.connected(connection, self.now)

    def _to_client(self, broker_connection: Any, data: bytes) -> None:
        pipe = next((one for one in self.pipes.values() if one.broker_connection is broker_connection), None)
        if pipe is None:
            return
        self._keep(pipe, data, from_client=False)
        pipe.engine.received(pipe.connection, data, self.now)
        if broker_connection.closing and pipe.connection in self.pipes:
            self._part(pipe)
            pipe.engine.disconnected(pipe.connection, self.now, "the broker closed the connection")

    def _keep(self, pipe: Pipe, data: bytes, *, from_client: bool) -> None:
        for frame in pipe.readers[from_client].feed(data):
            name = name_of(frame.type)
            body = getattr(frame.command, COMMANDS[frame.type].field)
            self.frames.append(SentFrame(name, body, frame, self.now - START, pipe.connection, from_client))


class FakeBroker:
    """A client engine whose broker is the test: all connections succeed, and the test sends the broker's frames."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.now = START
        self.engine = Engine(ServiceUrl.parse(url), ClientSettings(**settings), now=START, random=lambda: 0.0)
        self.connections: list[ClientConnection] = []
        """The connections that were opened, in order."""
        self.shut: list[ClientConnection] = []
        self.fetches: list[Fetch] = []
        self.tls: list[bool] = []
        self._readers: dict[ClientConnection, FrameReader] = {}

    def take_output(self) -> list[tuple[int, Any]]:
        """Return the commands that the engine sends now, each with its connection's index; accept new connections."""
        sent_frames: list[tuple[int, Any]] = []
        while actions := self.engine.take():
            for action in actions:
                match action:
                    case Connect(connection):
                        self.connections.append(connection)
                        self.tls.append(action.tls)
                        self._readers[connection] = FrameReader()
                        self.engine.connected(connection, self.now)
                    case Write(connection, data):
                        number = self.connections.index(connection)
                        frames = self._readers[connection].feed(data)
                        sent_frames += [(number, getattr(one.command, COMMANDS[one.type].field)) for one in frames]
                    case Disconnect(connection):
                        self.shut.append(connection)
                    case Fetch():
                        self.fetches.append(action)
        return sent_frames

    def sent_summary(self) -> list[str]:
        """Return these commands as ``0 Connect``."""
        return [f"{number} {body.DESCRIPTOR.name.removeprefix('Command')}" for number, body in self.take_output()]

    def broker_sends(self, *bodies: Any, connection: int = -1) -> list[tuple[int, Any]]:
        """Send commands to the engine in one write, by default on the latest connection; return its output."""
        data = b"".join(push_frame(body) for body in bodies)
        self.engine.received(self.connections[connection], data, self.now)
        return self.take_output()

    def complete_handshake(self, connection: int = -1, **flags: bool) -> list[tuple[int, Any]]:
        """Send CONNECTED with these feature flags."""
        features = pb.FeatureFlags(**flags)
        connected = pb.CommandConnected(server_version="x", protocol_version=21, feature_flags=features)
        return self.broker_sends(connected, connection=connection)

    def cut(self, connection: int = -1, reason: str = "cut") -> None:
        """Close a connection."""
        self.engine.disconnected(self.connections[connection], self.now, reason)

    def run(self, milliseconds: int) -> list[tuple[int, Any]]:
        """Advance the time; return the engine's output."""
        self.now += milliseconds
        self.engine.advance(self.now)
        return self.take_output()


@pytest.fixture
def fake_broker() -> Callable[..., FakeBroker]:
    """Create a FakeBroker."""

    def make(url: str = "pulsar://a:1", **settings: Any) -> FakeBroker:
        return FakeBroker(url, **settings)

    return make


@pytest.fixture
def ready_broker(fake_broker: Callable[..., FakeBroker]) -> FakeBroker:
    """A FakeBroker with one connection after the handshake."""
    broker = fake_broker(operationTimeoutMs=5_000)
    broker.engine.pool.connection_to(("a", 1), lambda connection: None)
    broker.take_output()
    broker.complete_handshake()
    return broker


@pytest.fixture
def make_network() -> Iterator[Callable[..., SimulatedNetwork]]:
    """Create networks with broker settings; afterwards raise exceptions of their brokers."""
    networks: list[SimulatedNetwork] = []

    def make(**settings: Any) -> SimulatedNetwork:
        networks.append(SimulatedNetwork(**settings))
        return networks[-1]

    yield make
    for network in networks:
        for failure in network.broker.failures:
            raise failure


@pytest.fixture
def network(make_network: Callable[..., SimulatedNetwork]) -> SimulatedNetwork:
    return make_network()
