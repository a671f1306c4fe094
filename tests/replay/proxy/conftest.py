"""Doors that open nothing, and both ends of a proxy on sockets."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.minibroker import MiniBroker
from pcli.replay.proxy import Proxy
from pcli.replay.proxy.broker_addresses import BrokerAddresses
from pcli.replay.service_url import ServiceUrl

OWN = "proxy:7000"
WAIT = 10
CONNECT = push_frame(pb.CommandConnect(client_version="tester", protocol_version=20))


@dataclass
class House:
    """The doors of a proxy at proxy:7000 before b1:6650; the next broker's door is 7001."""

    tls: bool = False
    to: str = "pulsar://b1:6650"
    opened: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.current = ServiceUrl.parse(self.to)
        self.addresses = BrokerAddresses(self.current, OWN, tls=self.tls, open_listener=self._open)

    def _open(self, broker: ServiceUrl) -> str:
        self.opened.append(str(broker))
        return f"proxy:{7000 + len(self.opened)}"


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def make_house() -> Any:
    return House


@pytest.fixture
def start(broker: MiniBroker) -> Any:
    """Start a proxy before this test's broker; at its end none may have had an error of its own."""
    running: list[Proxy] = []

    def go(**details: Any) -> Proxy:
        running.append(Proxy(**{"to": broker.service_url} | details).start())
        return running[-1]

    yield go
    for proxy in running:
        proxy.stop()
        assert proxy.failures == []


def address(url):
    host, _, port = url.partition("://")[2].rpartition(":")
    return host, int(port)


class Peer:
    """One end of a connection, in bytes."""

    def __init__(self, sock):
        self.socket = sock
        self.socket.settimeout(WAIT)

    def say(self, data):
        self.socket.sendall(data)

    def hear(self, count):
        """So many bytes."""
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            assert more, f"the end after {data!r}"
            data += more
        return data

    def frame(self):
        head = self.hear(4)
        return Frame.of(head + self.hear(int.from_bytes(head)))

    def ask(self, body):
        self.say(push_frame(body))
        return self.frame().command

    def end(self):
        """Nothing, or whatever came; then the end."""
        data = b""
        while more := self.socket.recv(1 << 16):
            data += more
        return data


@pytest.fixture
def peers():
    with contextlib.ExitStack() as stack:

        def connect(url):
            return Peer(stack.enter_context(socket.create_connection(address(url), WAIT)))

        yield connect


class Hall:
    """A broker that does what the test does."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT)
        self.url = f"pulsar://127.0.0.1:{self.listener.getsockname()[1]}"
        self.peers = []

    def accept(self):
        self.peers.append(Peer(self.listener.accept()[0]))
        return self.peers[-1]


@pytest.fixture
def hall():
    one = Hall()
    yield one
    for peer in (*one.peers, one):
        getattr(peer, "socket", None) and peer.socket.close()
    one.listener.close()


@pytest.fixture
def pair(hall, start, peers):
    """A client and its broker, with a proxy between them."""

    def meet(**details):
        proxy = hall.proxy = start(to=hall.url, **details)
        client = peers(proxy.service_url)
        client.say(CONNECT)
        broker = hall.accept()
        assert broker.hear(len(CONNECT)) == CONNECT
        return client, broker

    return meet


@pytest.fixture
def read() -> Any:
    """The frames and the notes in a capture."""

    def go(path: Path) -> tuple[list[Any], list[Any]]:
        with path.open("rb") as file:
            events = list(read_capture([(path.name, file)]))
        frames = [event for event in events if isinstance(event, CapturedFrame)]
        return frames, [event for event in events if not isinstance(event, CapturedFrame)]

    return go
