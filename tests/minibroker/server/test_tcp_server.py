"""The broker on real sockets: ports, notifications, clients that do not read, HTTP, and no lost data.

Each test runs on asyncio's loop and, if it is installed, on uvloop's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.minibroker.server import tcp_server
from pcli.minibroker.server.tcp_server import Server, wall_clock
from pcli.minibroker.settings import Settings
from tests.minibroker.server.peers import WAIT, Peer, consuming, entry, join, listening, producing

PING = push_frame(pb.CommandPing())


# -- start and stop --------------------------------------------------------------------------------------------------


def test_a_message_is_sent_and_received(run):
    async def work():
        async with listening() as server:
            producer, consumer = await join(server), await join(server)
            await producing(producer)
            await consuming(consumer)
            await producer.ask(pb.CommandSendReceipt, pb.CommandSend(producer_id=1, sequence_id=0), entry())
            message = await consumer.hear(pb.CommandMessage)
            assert message.consumer_id == 1
            await producer.close()
            await consumer.close()

    run(work())


def test_urls(run):
    async def work():
        async with listening() as server, listening(advertisedAddress="broker.example") as other:
            assert server.service_url.startswith("pulsar://127.0.0.1:")
            assert server.http_url.startswith("http://127.0.0.1:")
            assert not server.service_url.endswith(":0")
            assert other.service_url.startswith("pulsar://broker.example:")

    run(work())


def test_a_port_in_use_is_an_error(run):
    async def work():
        async with listening() as server:
            port = int(server.service_url.rpartition(":")[2])
            other = Server(Settings(brokerServicePort=0, webServicePort=port))
            with pytest.raises(OSError):
                await other.start()

    run(work())


def test_stopping_notifies_the_clients(run):
    """<< CLOSE_PRODUCER or CLOSE_CONSUMER, then the end. A client that never reads does not delay it."""

    async def work():
        async with listening() as server:
            producer, consumer, stranger = await join(server), await join(server), await join(server)
            await producing(producer)
            await consuming(consumer)
            await asyncio.wait_for(server.stop(), WAIT)
            await producer.end()
            await consumer.end()
            await stranger.end()
            assert [event.name for event in producer.heard] == ["CLOSE_PRODUCER"]
            assert [event.name for event in consumer.heard] == ["CLOSE_CONSUMER"]
            assert stranger.heard == []
            assert server.client_sockets == set()
            for peer in (producer, consumer, stranger):
                await peer.close()

    run(work())


def test_a_disconnected_client_frees_its_name(run):
    async def work():
        async with listening() as server:
            first, second = await join(server), await join(server)
            await first.ask(pb.CommandLookupTopicResponse, pb.CommandLookupTopic(topic="t"))
            named = pb.CommandProducer(topic="t", producer_id=1, producer_name="same")
            await first.ask(pb.CommandProducerSuccess, named)
            first.writer.transport.abort()
            while len(server.client_sockets) > 1:
                await asyncio.sleep(0.01)
            named.ClearField("request_id")
            await second.ask(pb.CommandProducerSuccess, named)
            await second.close()

    run(work())


def test_timers_of_the_core(run):
    """A missing handshake, with an interval of one second."""

    async def work():
        async with listening(keepAliveIntervalSeconds=1) as server:
            host, port = server.service_url.removeprefix("pulsar://").split(":")
            stranger = Peer(*await asyncio.open_connection(host, int(port)))
            await stranger.end()
            assert stranger.heard == []
            await stranger.close()

    run(work())


# -- slow readers ----------------------------------------------------------------------------------------------------


def test_a_client_that_does_not_read(run):
    """The broker buffers little of 50 MB for a client that does not read; everything arrives later, in order."""

    async def work():
        async with listening() as server:
            producer, consumer = await join(server), await join(server, limit=1 << 12)
            await producing(producer)
            await consuming(consumer)
            for sequence_id in range(500):
                send = pb.CommandSend(producer_id=1, sequence_id=sequence_id)
                await producer.ask(pb.CommandSendReceipt, send, entry(100_000))
            [waiting] = [
                link._transport.get_write_buffer_size() for link in server.client_sockets if link.connection.consumers
            ]
            assert 0 < waiting < 10_000_000
            entries = [(await consumer.hear(pb.CommandMessage)).message_id.entryId for _ in range(500)]
            assert entries == list(range(500))
            await producer.close()
            await consumer.close()

    run(work())


@pytest.mark.slow
def test_a_client_that_only_sends_requests(run, monkeypatch):
    """Endless PINGs without reading: the broker stops reading, and continues when the client reads."""
    monkeypatch.setattr(tcp_server, "_FULL", 1 << 20)

    async def work():
        async with listening() as server:
            peer = await join(server, limit=1 << 12)
            [link] = server.client_sockets
            block, sent = PING * 50_000, 0
            while link.connection.reading:
                peer.writer.write(block)
                sent += 50_000
                await asyncio.sleep(0)
            assert link._transport.get_write_buffer_size() < 4_000_000
            received = 0
            while received < sent * len(PING):
                received += len(await asyncio.wait_for(peer.reader.read(1 << 20), WAIT))
            assert received == sent * len(PING)
            assert link.connection.reading
            await peer.close()

    run(work())


def test_throttled_connections_are_not_read(run):
    async def work():
        async with listening(maxPublishRatePerTopicInMessages=5) as server:
            peer = await join(server)
            await producing(peer)
            [link] = server.client_sockets
            for sequence_id in range(10):
                peer.say(pb.CommandSend(producer_id=1, sequence_id=sequence_id), entry=entry())
            await peer.hear(pb.CommandSendReceipt)
            while link.connection.reading:
                await asyncio.sleep(0)
            while not link.connection.reading:
                await asyncio.sleep(0.01)
            assert isinstance(await peer.ask(pb.CommandPong, pb.CommandPing()), pb.CommandPong)
            await peer.close()

    run(work())


# -- HTTP ------------------------------------------------------------------------------------------------------------


async def http(server, method, path, body=b"", headers=""):
    """Send one request on a new connection; return status and body."""
    host, port = server.http_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{headers}"
    writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    answer = await asyncio.wait_for(reader.read(), WAIT)
    writer.close()
    await writer.wait_closed()
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), content


def test_rest(run):
    async def work():
        async with listening() as server:
            status, content = await http(server, "GET", "/admin/v2/clusters")
            assert (status, json.loads(content)) == (200, ["standalone"])
            assert (await http(server, "GET", "/nothing"))[0] == 404

    run(work())


def test_an_upgrade_is_ignored_without_a_message(run, caplog):
    """Java's HTTP client requests h2c with its first request."""

    async def work():
        async with listening() as server:
            assert (await http(server, "GET", "/admin/v2/clusters", headers="Upgrade: h2c\r\n"))[0] == 200

    run(work())
    assert caplog.records == []


def test_an_invalid_http_request_is_logged_in_one_line(run, caplog):
    async def work():
        async with listening() as server:
            assert (await http(server, "GET", "/no path"))[0] == 400
            assert (await http(server, "GET", "/admin/v2/clusters"))[0] == 200

    run(work())
    [record] = caplog.records
    assert re.fullmatch(r"127\.0\.0\.1:\d+: an invalid HTTP request; the connection is closed", record.getMessage())


def test_rest_causes_frames_to_clients(run):
    """PUT …/unload  << CLOSE_PRODUCER"""

    async def work():
        async with listening() as server:
            peer = await join(server)
            await producing(peer)
            status, _ = await http(server, "PUT", "/admin/v2/persistent/public/default/t/unload")
            assert status == 204
            await peer.hear(pb.CommandCloseProducer)
            await peer.close()

    run(work())


# -- no data is lost -------------------------------------------------------------------------------------------------


def test_failures_are_reported(run, monkeypatch, caplog):
    """One line is in the log; the traceback is logged only at the debug level."""
    from pcli.minibroker.commands import HANDLERS

    def broken(*_):
        raise ZeroDivisionError("ours")

    for number in HANDLERS:
        monkeypatch.setitem(HANDLERS, number, broken)

    async def work():
        server = Server(Settings(brokerServicePort=0, webServicePort=0))
        await server.start()
        host, port = server.service_url.removeprefix("pulsar://").split(":")
        peer = Peer(*await asyncio.open_connection(host, int(port)))
        peer.session.connect()
        peer.say()
        await peer.end()
        await peer.close()
        await server.stop()
        assert [str(fault) for fault in server.failures] == ["ours"]

    with caplog.at_level(logging.INFO, logger="pcli.minibroker"):
        run(work())
    [record] = caplog.records
    assert record.getMessage().startswith("an internal error of the broker (connection of 127.0.0.1:")
    assert record.getMessage().endswith("ZeroDivisionError: ours")
    assert record.exc_info is None


def test_failures_of_tasks_are_reported(run, caplog):
    async def work():
        server = Server(Settings(brokerServicePort=0, webServicePort=0))
        await server.start()
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(0.01)
        await server.stop()
        assert [type(fault) for fault in server.failures] == [ZeroDivisionError]

    run(work())
    assert "ZeroDivisionError" in caplog.text


def test_half_open_sockets(run):
    """Connections that end at once, are reset, or stop within a frame do not affect other connections."""

    async def work():
        async with listening() as server:
            host, port = server.service_url.removeprefix("pulsar://").split(":")
            peer = await join(server)
            idle = []
            for number in range(50):
                one = socket.create_connection((host, int(port)))
                if number % 3 == 1:
                    one.sendall(PING[:6])
                if number % 3 == 2:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.close() if number % 3 else idle.append(one)
            assert isinstance(await peer.ask(pb.CommandPong, pb.CommandPing()), pb.CommandPong)
            while len(server.client_sockets) > 1 + len(idle):
                await asyncio.sleep(0.01)
            for one in idle:
                one.close()
            await peer.close()

    run(work())


def test_the_clock():
    now = wall_clock()
    first = now()
    assert 1_600_000_000_000 < first <= now() < first + 60_000
