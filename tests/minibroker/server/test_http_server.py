"""Limits of HTTP connections: idle clients, slow clients, too many clients."""

from __future__ import annotations

import asyncio
import re

import pytest

from pcli.minibroker.server.tcp_server import Server, new_event_loop
from pcli.minibroker.settings import Settings

REQUEST = b"GET /admin/v2/clusters HTTP/1.1\r\nHost: b\r\n"
LARGE = b"GET /admin/v2/brokers/configuration/runtime HTTP/1.1\r\nHost: b\r\n\r\n"
BODY = b"POST /admin/v2/namespaces/public/default/retention HTTP/1.1\r\nHost: b\r\nContent-Length: 100\r\n\r\n{"


def run(work, **settings):
    """Run work(connect) with a broker; connect() returns a new HTTP connection."""
    writers = []

    async def serve():
        server = Server(Settings(brokerServicePort=0, webServicePort=0, **settings))
        await server.start()
        port = int(server.http_url.rpartition(":")[2])

        async def connect():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            return reader, writer

        try:
            return await work(connect, server)
        finally:
            for writer in writers:
                writer.transport.abort()
            await server.stop()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(asyncio.wait_for(serve(), 10))


async def received(reader):
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("sent", [b"", REQUEST, BODY])
def test_a_client_that_does_not_complete_its_request_is_closed(sent):
    async def work(connect, _):
        reader, writer = await connect()
        writer.write(sent)
        return await received(reader)

    assert run(work, httpServerIdleTimeout=50) == b""


def test_a_client_that_does_not_read_the_response_is_closed():
    async def work(connect, server):
        _, writer = await connect()
        writer.transport.pause_reading()
        writer.write(LARGE * 2000)
        while not server._http_server._state.connections:
            await asyncio.sleep(0.01)
        while server._http_server._state.connections:
            await asyncio.sleep(0.01)

    run(work, httpServerIdleTimeout=100)


def test_a_request_in_time_is_answered():
    async def work(connect, _):
        reader, writer = await connect()
        for _ in range(3):
            writer.write(REQUEST)
            await asyncio.sleep(0.1)
            writer.write(b"\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await reader.readuntil(b"]")

    run(work, httpServerIdleTimeout=2000)


def test_connections_above_the_limit_are_closed(caplog):
    async def work(connect, _):
        kept = [await connect() for _ in range(2)]
        reader, _ = await connect()
        assert await received(reader) == b""
        kept[0][1].write(REQUEST + b"\r\n")
        assert (await kept[0][0].readline()).startswith(b"HTTP/1.1 200")

    run(work, maxHttpServerConnections=2)
    [record] = caplog.records
    assert re.fullmatch(
        r"127\.0\.0\.1:\d+: more than 2 HTTP connections; the connection is closed", record.getMessage()
    )
