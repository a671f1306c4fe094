"""A broker in memory, engines that talk with it, and one clock for all of them. What is said is kept as frames."""

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
from pcli.replay.client.client_settings import ClientSettings
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.consumer_settings import ConsumerSettings
from pcli.replay.client.engine import Engine
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer_settings import ProducerSettings
from pcli.replay.service_url import ServiceUrl

START = 1_700_000_000_000


@dataclass
class Said:
    """A frame that somebody said."""

    name: str
    body: Any
    frame: Frame
    time: int
    """Milliseconds since the beginning of the world."""
    connection: ClientConnection
    from_client: bool


class Pipe:
    """One connection between an engine and the broker."""

    def __init__(self, engine: Engine, connection: ClientConnection, broker_connection: Any) -> None:
        self.engine = engine
        self.connection = connection
        self.broker_connection = broker_connection
        self.readers = {True: FrameReader(1 << 30), False: FrameReader(1 << 30)}


class World:
    """A broker, its clients and their time; nothing takes time but what waits for it."""

    def __init__(self, **settings: Any) -> None:
        self.now = START
        self.broker = Broker(Settings(**settings), service_url="pulsar://127.0.0.1:6650", now=START)
        self.broker.http_url = "http://127.0.0.1:8080"
        self.pipes: dict[ClientConnection, Pipe] = {}
        self.engines: list[Engine] = []
        self.frames: list[Said] = []
        """All frames of both sides, in order."""
        self.reachable = True
        """Whether the broker takes connections."""
        self.deaf = False
        """What engines write is lost on the way: nobody answers."""
        self.fetch: Callable[[Fetch], tuple[int, bytes]] | None = None
        """What HTTP answers."""
        self.connects: list[Connect] = []
        """The connections that were asked for."""

    def engine(self, url: str = "pulsar://127.0.0.1:6650", *, chance: float = 0.0, **settings: Any) -> Engine:
        """A client; ``chance`` is what its random numbers all are."""
        engine = Engine(ServiceUrl.parse(url), ClientSettings(**settings), now=self.now, random=lambda: chance)
        self.engines.append(engine)
        return engine

    def subscribe(self, **settings: Any) -> Any:
        """A consumer of a client of its own: of ``orders`` as ``work``, from the beginning, unless told otherwise."""
        given = {"topicNames": ("orders",), "subscriptionName": "work", "subscriptionInitialPosition": "Earliest"}
        made: list[Any] = []
        self.engine().subscribe(ConsumerSettings(**given | settings), made.append)
        return self.wait_for(made)

    def produce(self, topic: str = "orders", **settings: Any) -> Any:
        """A producer of a client of its own."""
        made: list[Any] = []
        self.engine().produce(topic, ProducerSettings(**settings), made.append)
        return self.wait_for(made)

    def publish(self, count: int, batch: int = 1) -> None:
        """So many messages ``m-0``, ``m-1`` … by a producer of their own."""
        producer = self.produce(batchingMaxMessages=batch)
        for n in range(count):
            producer.send(OutgoingMessage(b"m-%d" % n))
        self.run(10)

    # -- what was said ---------------------------------------------------------------------------------------------

    def said(self, *names: str, from_client: bool | None = None) -> list[Any]:
        """The bodies of all frames of these types so far, in order."""
        return [one.body for one in self.heard(*names, from_client=from_client)]

    def heard(self, *names: str, from_client: bool | None = None) -> list[Said]:
        """The same with their frames and times; no name: all."""
        sides = (True, False) if from_client is None else (from_client,)
        return [one for one in self.frames if (not names or one.name in names) and one.from_client in sides]

    def forget(self) -> None:
        """What was said so far is of no interest any more."""
        self.frames.clear()

    # -- time ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry all that there is to be carried; no time passes."""
        while self._carry():
            pass

    def run(self, milliseconds: int) -> None:
        """Let time pass, timer by timer on both sides."""
        self.settle()
        end = self.now + milliseconds
        while (due := self._deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self._advance()
        self.now = end
        self._advance()

    def wait_for(self, result: list[Any], milliseconds: int = 60_000) -> Any:
        """Run until a continuation that appends to ``result`` was called; gives what it got."""
        end = self.now + milliseconds
        self.settle()
        while not result:
            due = self._deadline()
            assert due is not None, "nothing more will happen"
            assert due <= end, "it takes too long"
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
        self.settle()

    # -- the wire --------------------------------------------------------------------------------------------------

    def cut(self, reason: str = "cut") -> None:
        """All connections break."""
        for pipe in list(self.pipes.values()):
            self._part(pipe)
            pipe.engine.disconnected(pipe.connection, self.now, reason)
        self.settle()

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
                if not self.deaf:
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
            self.frames.append(Said(name, body, frame, self.now - START, pipe.connection, from_client))


class Wire:
    """An engine whose brokers are played by the test: each connection is taken, and everything answered by hand."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.now = START
        self.engine = Engine(ServiceUrl.parse(url), ClientSettings(**settings), now=START, random=lambda: 0.0)
        self.connections: list[ClientConnection] = []
        """The connections that were opened, in order."""
        self.shut: list[ClientConnection] = []
        self.fetches: list[Fetch] = []
        self.tls: list[bool] = []
        self._readers: dict[ClientConnection, FrameReader] = {}

    def hear(self) -> list[tuple[int, Any]]:
        """What the engine says now: number of the link, and the body; new connections are taken."""
        heard: list[tuple[int, Any]] = []
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
                        heard += [(number, getattr(one.command, COMMANDS[one.type].field)) for one in frames]
                    case Disconnect(connection):
                        self.shut.append(connection)
                    case Fetch():
                        self.fetches.append(action)
        return heard

    def said(self) -> list[str]:
        """The same as ``0 CONNECT``."""
        return [f"{number} {body.DESCRIPTOR.name.removeprefix('Command')}" for number, body in self.hear()]

    def say(self, *bodies: Any, connection: int = -1) -> list[tuple[int, Any]]:
        """Commands of a broker in one write, on the latest link or on another; what the engine says to it."""
        data = b"".join(push_frame(body) for body in bodies)
        self.engine.received(self.connections[connection], data, self.now)
        return self.hear()

    def shake(self, connection: int = -1, **flags: bool) -> list[tuple[int, Any]]:
        """Complete the handshake, with these feature flags."""
        features = pb.FeatureFlags(**flags)
        connected = pb.CommandConnected(server_version="x", protocol_version=21, feature_flags=features)
        return self.say(connected, connection=connection)

    def cut(self, connection: int = -1, reason: str = "cut") -> None:
        """A connection breaks."""
        self.engine.disconnected(self.connections[connection], self.now, reason)

    def run(self, milliseconds: int) -> list[tuple[int, Any]]:
        """Let time pass; what the engine says then."""
        self.now += milliseconds
        self.engine.advance(self.now)
        return self.hear()


@pytest.fixture
def wire() -> Callable[..., Wire]:
    """Makes a Wire."""

    def make(url: str = "pulsar://a:1", **settings: Any) -> Wire:
        return Wire(url, **settings)

    return make


@pytest.fixture
def end(wire: Callable[..., Wire]) -> Wire:
    """The broker's end of a link that is ready."""
    end = wire(operationTimeoutMs=5_000)
    end.engine.pool.connection_to(("a", 1), lambda connection: None)
    end.hear()
    end.shake()
    return end


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    """A world whose broker has other settings; at the end the broker may not have had an error of its own."""
    worlds: list[World] = []

    def make(**settings: Any) -> World:
        worlds.append(World(**settings))
        return worlds[-1]

    yield make
    for world in worlds:
        for failure in world.broker.failures:
            raise failure


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
