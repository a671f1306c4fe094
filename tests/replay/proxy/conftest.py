"""Proxy addresses without sockets, and both ends of a proxy on sockets."""

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
class ProxyAddresses:
    """The addresses of a proxy at proxy:7000 for b1:6650; the next broker gets port 7001."""

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
def proxy_addresses() -> ProxyAddresses:
    return ProxyAddresses()


@pytest.fixture
def make_proxy_addresses() -> Any:
    return ProxyAddresses


@pytest.fixture
def start(broker: MiniBroker) -> Any:
    """Start proxies for this test's broker; they must not have failures at the end."""
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
    """One end of a connection."""

    def __init__(self, sock):
        self.socket = sock
        self.socket.settimeout(WAIT)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, count):
        """Return exactly this number of bytes."""
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            assert more, f"the end after {data!r}"
            data += more
        return data

    def frame(self):
        head = self.receive(4)
        return Frame.of(head + self.receive(int.from_bytes(head)))

    def request(self, body):
        self.send(push_frame(body))
        return self.frame().command

    def end(self):
        """Return the bytes up to the end of the stream."""
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


class FakeBroker:
    """A broker whose side of each connection the test controls."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(WAIT)
        self.url = f"pulsar://127.0.0.1:{self.listener.getsockname()[1]}"
        self.peers = []

    def accept(self):
        self.peers.append(Peer(self.listener.accept()[0]))
        return self.peers[-1]


@pytest.fixture
def fake_broker():
    one = FakeBroker()
    yield one
    for peer in (*one.peers, one):
        getattr(peer, "socket", None) and peer.socket.close()
    one.listener.close()


@pytest.fixture
def pair(fake_broker, start, peers):
    """A client and its broker, with a proxy between them."""

    def meet(**details):
        proxy = fake_broker.proxy = start(to=fake_broker.url, **details)
        client = peers(proxy.service_url)
        client.send(CONNECT)
        broker = fake_broker.accept()
        assert broker.receive(len(CONNECT)) == CONNECT
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
