"""Clients on real sockets that do not read or are half closed.

Their cost is limited, and other clients are not affected.

The kernel buffers some megabytes for a socket, so the tests send far more than that to these clients.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from pcli.codec.proto import pb
from pcli.codec.session import ClientSession
from pcli.codec.wire.build import push_entry, push_frame
from pcli.minibroker.server.tcp_server import Server, new_event_loop
from pcli.minibroker.settings import Settings

WAIT = 20
"""Timeout of a test in seconds, far longer than any step takes."""
LARGE = 200_000
"""Size of a large message in bytes."""
BOUND = 24 << 20
"""Maximum number of bytes that the broker buffers for one client that does not read: its responses, and one read."""
SHARED = pb.CommandSubscribe.Shared


class Peer:
    """A client on a socket with a small receive buffer. It reads only on request."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.socket.setblocking(False)
        self.address = (host, port)
        self.session = ClientSession()
        self.heard = []
        self.ended = False

    async def join(self):
        await asyncio.get_running_loop().sock_connect(self.socket, self.address)
        self.session.connect()
        await self.ask("CONNECTED")
        return self

    async def say(self, *bodies, entry=b""):
        for body in bodies:
            self.session.send(body, entry)
        await self.write(self.session.output())

    async def write(self, data):
        await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(self.socket, data), WAIT)

    async def read(self):
        """Return the next command; PINGs are answered."""
        try:
            data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.socket, 1 << 18), WAIT)
        except ConnectionResetError:
            data = b""
        self.ended = not data
        self.heard += self.session.receive(data)
        if answers := self.session.output():
            await self.write(answers)

    async def ask(self, name, *bodies, entry=b""):
        """Send a command; return the next command with this name."""
        await self.say(*bodies, entry=entry)
        while True:
            for event in self.heard:
                if event.name == name:
                    self.heard.remove(event)
                    return event
            assert not self.ended, f"the connection ended before {name}"
            await self.read()

    async def produce(self, topic="t"):
        await self.ask("LOOKUP_RESPONSE", pb.CommandLookupTopic(topic=topic))
        await self.ask("PRODUCER_SUCCESS", pb.CommandProducer(topic=topic, producer_id=1))

    async def publish(self, sequence, size=LARGE):
        about = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1)
        send = pb.CommandSend(producer_id=1, sequence_id=sequence)
        await self.ask("SEND_RECEIPT", send, entry=push_entry(about, b"x" * size))

    async def consume(self, topic="t", subscription="s", permits=1000):
        await self.ask("LOOKUP_RESPONSE", pb.CommandLookupTopic(topic=topic))
        subscribe = pb.CommandSubscribe(topic=topic, subscription=subscription, subType=SHARED, consumer_id=1)
        await self.ask("SUCCESS", subscribe)
        await self.say(pb.CommandFlow(consumer_id=1, messagePermits=permits))


@asynccontextmanager
async def listening(**settings):
    server = Server(Settings(**{"brokerServicePort": 0, "webServicePort": 0} | settings))
    await server.start()
    host, port = server.service_url.removeprefix("pulsar://").split(":")
    peers = []

    async def join():
        peers.append(Peer(host, int(port)))
        return await peers[-1].join()

    server.join = join
    try:
        yield server
    finally:
        for peer in peers:
            peer.socket.close()
        await server.stop()
    assert server.failures == []


def link_of(server, peer):
    port = peer.socket.getsockname()[1]
    return next(link for link in server.client_sockets if link.connection.peer[1] == port)


def held(server, peer):
    """Return the number of bytes that the broker buffers for a client: output, and input that is not parsed yet."""
    link = link_of(server, peer)
    connection = link.connection
    return link._transport.get_write_buffer_size() + connection.queued + len(connection._buffer)


async def gone(server, peer):
    """Wait until the broker has removed a client."""
    port = peer.socket.getsockname()[1]
    while any(link.connection.peer[1] == port for link in server.client_sockets):
        await asyncio.sleep(0.02)
    assert all(connection.peer[1] != port for connection in server.broker.connections)


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Run a coroutine on a loop of each kind."""
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    loop = new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()
    yield lambda work: loop.run_until_complete(asyncio.wait_for(work, 60))
    loop.close()


# -- clients that do not read ----------------------------------------------------------------------------------------


def test_one_reads_and_one_does_not(run):
    """On one Shared subscription, a slow client holds a few messages.

    After it disconnects, the other has each message once.
    """

    async def work():
        async with listening() as server:
            producer, slow, fast = [await server.join() for _ in range(3)]
            await producer.produce()
            await slow.consume()
            await fast.consume()
            got = []
            for sequence in range(150):
                await producer.publish(sequence)
                assert held(server, slow) < BOUND
            slow.socket.close()
            while len(got) < 150:
                got.append((await fast.ask("MESSAGE")).body.message_id.entryId)
            assert sorted(got) == list(range(150))

    run(work())


def test_many_clients_that_do_not_read(run):
    """Each has a subscription and permits for all messages, 600 MB together; the broker buffers little for each."""

    async def work():
        async with listening() as server:
            producer, reader = await server.join(), await server.join()
            await producer.produce()
            crowd = [await server.join() for _ in range(30)]
            for number, peer in enumerate(crowd):
                await peer.consume(subscription=f"s{number}")
            await reader.consume(subscription="reader")
            for sequence in range(100):
                await producer.publish(sequence)
                assert (await reader.ask("MESSAGE")).body.message_id.entryId == sequence
            waiting = [held(server, peer) for peer in crowd]
            assert max(waiting) < BOUND
            assert sum(waiting) < 30 * 6_000_000
            assert all(server.broker.topics["persistent://public/default/t"].subscriptions[f"s{n}"] for n in range(30))

    run(work())


@pytest.mark.slow
def test_large_unread_responses(run):
    """1000 requests in one write for a list of 300 topics with long names, 60 kB each."""

    async def work():
        async with listening() as server:
            peer, other = await server.join(), await server.join()
            broker = server.broker
            for number in range(300):
                broker.stored.add(f"persistent://public/default/{'long' * 40}-{number}")
            ask = pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=1)
            sending = asyncio.create_task(peer.write(push_frame(ask) * 1000))
            while link_of(server, peer).connection.reading and not sending.done():
                assert held(server, peer) < BOUND
                await other.ask("PONG", pb.CommandPing())
            assert held(server, peer) < BOUND
            await other.ask("PONG", pb.CommandPing())
            answers = 0
            while answers < 1000:
                await peer.read()
                answers += len(peer.heard)
                peer.heard.clear()
            await sending
            await peer.ask("PONG", pb.CommandPing())

    run(work())


async def one_stuck(server):
    """A producer, and a consumer that was sent more than it reads."""
    producer, slow = await server.join(), await server.join()
    await producer.produce()
    await slow.consume()
    for sequence in range(60):
        await producer.publish(sequence)
    return producer, slow


@pytest.mark.slow
def test_a_client_that_never_reads_is_closed(run):
    """A client with full buffers cannot receive the PING: the broker disconnects it and redelivers its messages."""

    async def work():
        async with listening(keepAliveIntervalSeconds=1) as server:
            producer, slow = await one_stuck(server)
            task = asyncio.create_task(gone(server, slow))
            while not task.done():
                await producer.ask("PONG", pb.CommandPing())
                await asyncio.sleep(0.1)
            await task
            [subscription] = server.broker.topics["persistent://public/default/t"].subscriptions.values()
            assert subscription.consumers == []
            assert subscription.backlog == 60

    run(work())


# -- half-open sockets -----------------------------------------------------------------------------------------------


def test_a_client_that_shuts_down_its_side(run):
    """Requests before the end of the input are answered, then the connection is closed."""

    async def work():
        async with listening() as server:
            peer = await server.join()
            await peer.say(pb.CommandLookupTopic(topic="t"))
            peer.socket.shutdown(socket.SHUT_WR)
            await peer.read()
            assert [event.name for event in peer.heard] == ["LOOKUP_RESPONSE"]
            while not peer.ended:
                await peer.read()
            await gone(server, peer)

    run(work())


@pytest.mark.slow
def test_half_open_and_not_reading(run):
    """The client has closed its output and does not read: the broker disconnects it after the keep-alive interval."""

    async def work():
        async with listening(keepAliveIntervalSeconds=1) as server:
            producer, slow = await one_stuck(server)
            slow.socket.shutdown(socket.SHUT_WR)
            task = asyncio.create_task(gone(server, slow))
            while not task.done():
                await producer.ask("PONG", pb.CommandPing())
                await asyncio.sleep(0.1)
            await task

    run(work())


@pytest.mark.slow
def test_an_incomplete_frame_and_silence(run):
    """A client stops within a large frame: its bytes are released after the keep-alive interval.

    Others are not affected.
    """

    async def work():
        async with listening(keepAliveIntervalSeconds=1) as server:
            half, other = await server.join(), await server.join()
            await half.write((5_000_000).to_bytes(4, "big") + b"\0" * 4_000_000)
            task = asyncio.create_task(gone(server, half))
            largest = 0
            while not task.done():
                await other.ask("PONG", pb.CommandPing())
                largest = max([largest, *(len(one._buffer) for one in server.broker.connections)])
                await asyncio.sleep(0.05)
            await task
            assert 3_900_000 < largest < 6_000_000

    run(work())


def test_byte_by_byte(run):
    """A frame that arrives in single bytes is valid."""

    async def work():
        async with listening() as server:
            peer = await server.join()
            peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in push_frame(pb.CommandLookupTopic(topic="t", request_id=7)):
                await peer.write(bytes([byte]))
                await asyncio.sleep(0)
            assert (await peer.ask("LOOKUP_RESPONSE")).body.request_id == 7

    run(work())
