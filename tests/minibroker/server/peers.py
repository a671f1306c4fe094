"""A server on real sockets, and clients that use the client side of a session."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager, suppress

from pcli.codec.proto import pb
from pcli.codec.session import ClientSession
from pcli.codec.wire.build import push_entry
from pcli.minibroker.server.tcp_server import Server
from pcli.minibroker.settings import Settings

WAIT = 10
"""Timeout of a test in seconds, far longer than any step takes."""


_peers = defaultdict(list)
"""The clients of each server."""


class Peer:
    """One client on a socket."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.session = ClientSession()
        self.heard = []

    def say(self, *bodies, entry=b""):
        for body in bodies:
            self.session.send(body, entry)
        self.writer.write(self.session.output())

    async def hear(self, kind):
        """Read until a command of this class arrives."""
        while True:
            while self.heard:
                event = self.heard.pop(0)
                if isinstance(event.body, kind):
                    return event.body
            data = await asyncio.wait_for(self.reader.read(1 << 16), WAIT)
            assert data, f"the connection ended before {kind.__name__}"
            self.heard += self.session.receive(data)

    async def ask(self, kind, body, entry=b""):
        self.say(body, entry=entry)
        return await self.hear(kind)

    async def end(self):
        """Read to the end of the connection."""
        try:
            while data := await asyncio.wait_for(self.reader.read(1 << 16), WAIT):
                self.heard += self.session.receive(data)
        except ConnectionResetError:
            pass

    async def close(self):
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def listening(database=None, **settings):
    """A server on free ports, which must not have internal errors at the end."""
    server = Server(Settings(**{"brokerServicePort": 0, "webServicePort": 0} | settings), database=database)
    await server.start()
    try:
        yield server
    finally:
        for peer in _peers.pop(server, []):
            await peer.close()
        await server.stop()
    assert server.failures == []


async def join(server, **streams):
    """Return a client after its handshake."""
    host, port = server.service_url.removeprefix("pulsar://").split(":")
    peer = Peer(*await asyncio.open_connection(host, int(port), **streams))
    _peers[server].append(peer)
    peer.session.connect()
    peer.say()
    await peer.hear(pb.CommandConnected)
    return peer


async def producing(peer, topic="t"):
    await peer.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic=topic))
    await peer.ask(pb.CommandProducerSuccess, pb.CommandProducer(topic=topic, producer_id=1))


async def consuming(peer, topic="t", permits=1000):
    await peer.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic=topic))
    subscribe = pb.CommandSubscribe(topic=topic, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1)
    await peer.ask(pb.CommandSuccess, subscribe)
    peer.say(pb.CommandFlow(consumer_id=1, messagePermits=permits))


def entry(size=10):
    return push_entry(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x" * size)
