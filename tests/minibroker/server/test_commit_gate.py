"""A server with a database: output waits for the commit that contains its cause, and becomes errors if this fails."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.server import commit_gate, tcp_server
from pcli.minibroker.server.tcp_server import Server
from pcli.minibroker.settings import Settings
from tests.minibroker.server.peers import consuming, entry, join, listening, producing
from tests.minibroker.storage.memory_database import MemoryDatabase

SEND = pb.CommandSend(producer_id=1, sequence_id=7)


class SlowDatabase(MemoryDatabase):
    """A database that writes only while it is open, and fails if it is full."""

    def __init__(self):
        super().__init__()
        self.open = threading.Event()
        self.open.set()
        self.full = False
        self.writes = 0

    def write(self, batch):
        assert self.open.wait(10)
        if self.full:
            raise OSError("database or disk is full")
        self.writes += 1
        super().write(batch)


async def silence(peer):
    """Wait until the broker has answered everything that it can answer now."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(peer.reader.read(1), 0.05)


async def rest(server, method, path, body=b""):
    """Send a REST request; return its status and body."""
    host, port = server.http_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"{method} /admin/v2/{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


def test_a_receipt_and_the_message_wait_for_the_commit(run):
    async def work():
        database = SlowDatabase()
        async with listening(database) as server:
            producer, consumer = await join(server), await join(server)
            await producing(producer)
            await consuming(consumer)
            database.open.clear()
            producer.say(SEND, entry=entry())
            await silence(producer)
            await silence(consumer)
            database.open.set()
            receipt = await producer.hear(pb.CommandSendReceipt)
            place = (await consumer.hear(pb.CommandMessage)).message_id
            assert (place.ledgerId, place.entryId) == (receipt.message_id.ledgerId, receipt.message_id.entryId)

    run(work())


def test_sends_during_a_commit_share_the_next_commit(run):
    async def work():
        database = SlowDatabase()
        async with listening(database) as server:
            producer = await join(server)
            await producing(producer)
            await producer.ask(pb.CommandSendReceipt, SEND, entry())
            database.open.clear()
            before = database.writes
            for number in range(20):
                producer.say(pb.CommandSend(producer_id=1, sequence_id=number), entry=entry())
                await asyncio.sleep(0)
            await silence(producer)
            database.open.set()
            receipts = [(await producer.hear(pb.CommandSendReceipt)).sequence_id for _ in range(20)]
            assert receipts == list(range(20))
            assert database.writes <= before + 2

    run(work())


def test_a_connection_is_not_read_while_too_many_of_its_sends_wait(run):
    """maxPendingPublishRequestsPerConnection, as in ServerCnx: reading resumes at half of the limit."""

    async def work():
        database = SlowDatabase()
        async with listening(database, maxPendingPublishRequestsPerConnection=10) as server:
            peer = await join(server)
            await producing(peer)
            [producer] = server.broker.topics["persistent://public/default/t"].producers.values()
            database.open.clear()
            for number in range(10):
                assert producer.connection.reading
                peer.say(pb.CommandSend(producer_id=1, sequence_id=number), entry=entry())
                while producer.messages_in <= number:
                    await asyncio.sleep(0)
            assert not producer.connection.reading
            peer.say(pb.CommandSend(producer_id=1, sequence_id=10), entry=entry())
            await silence(peer)
            assert producer.messages_in == 10
            database.open.set()
            receipts = [(await peer.hear(pb.CommandSendReceipt)).sequence_id for _ in range(11)]
            assert receipts == list(range(11))

    run(work())


def test_a_connection_is_not_read_while_too_much_output_waits_for_a_commit(run, monkeypatch):
    """A PONG after a SEND waits for the commit of the SEND. These PONGs are limited like output that is not read."""
    monkeypatch.setattr(tcp_server, "_FULL", 200_000)

    async def work():
        database = SlowDatabase()
        async with listening(database) as server:
            peer = await join(server)
            await producing(peer)
            [link] = server.client_sockets
            database.open.clear()
            peer.say(SEND, entry=entry())
            sent = 0
            while link.connection.reading and sent < 100_000:
                peer.say(*[pb.CommandPing()] * 1000)
                sent += 1000
                await asyncio.sleep(0)
            assert not link.connection.reading
            database.open.set()
            await peer.hear(pb.CommandSendReceipt)
            for _ in range(sent):
                await peer.hear(pb.CommandPong)
            assert link.connection.reading

    run(work())


def test_a_connection_is_read_when_no_reason_not_to_read_it_remains(run):
    async def work():
        async with listening(SlowDatabase(), maxPendingPublishRequestsPerConnection=10) as server:
            await join(server)
            [link] = server.client_sockets
            full = 10 << 20
            link.hold(full, 10)
            link.release(0, 5)
            assert not link.connection.reading
            link.hold(0, 5)
            link.pause_writing()
            link.release(full, 0)
            link.resume_writing()
            assert not link.connection.reading
            link.release(0, 5)
            assert link.connection.reading

    run(work())


def test_messages_that_wait_for_a_commit_are_limited(run):
    async def work():
        database = SlowDatabase()
        async with listening(database) as server:
            producer, consumer = await join(server), await join(server)
            await producing(producer)
            await consuming(consumer, permits=1)
            for _ in range(50):
                await producer.ask(pb.CommandSendReceipt, SEND, entry(50_000))
            await consumer.hear(pb.CommandMessage)
            [reader] = server.broker.topics["persistent://public/default/t"].consumers
            database.open.clear()
            producer.say(SEND, entry=entry())
            await silence(producer)
            consumer.say(pb.CommandFlow(consumer_id=1, messagePermits=1000))
            await silence(consumer)
            assert 1 < reader.messages_out < 50
            database.open.set()
            for _ in range(50):
                await consumer.hear(pb.CommandMessage)

    run(work())


def test_a_ping_is_answered_although_an_acknowledgement_is_not_written(run):
    """Acknowledgements without a response are lazy: output after them does not wait, and a timer writes them."""

    async def work():
        database = SlowDatabase()
        async with listening(database) as server:
            producer, consumer = await join(server), await join(server)
            await producing(producer)
            await consuming(consumer)
            await producer.ask(pb.CommandSendReceipt, SEND, entry())
            message = await consumer.hear(pb.CommandMessage)
            before = dict(database.texts)
            database.open.clear()
            ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message.message_id])
            consumer.say(ack)
            await consumer.ask(pb.CommandPong, pb.CommandPing())
            ack.request_id = 9
            consumer.say(ack)
            await silence(consumer)
            assert database.texts == before
            database.open.set()
            assert (await consumer.hear(pb.CommandAckResponse)).request_id == 9
            assert database.texts != before

    run(work())


def test_a_rest_response_waits_for_the_commit(run):
    async def work():
        database = SlowDatabase()
        async with listening(database) as server:
            assert (await rest(server, "PUT", "persistent/public/default/a"))[0] == 204
            assert any("/a" in path for path in database.texts)
            database.open.clear()
            request = asyncio.ensure_future(rest(server, "PUT", "persistent/public/default/b"))
            await asyncio.sleep(0.05)
            assert not request.done()
            database.open.set()
            assert (await request)[0] == 204

    run(work())


def test_a_refused_request_causes_no_commit(run):
    """Otherwise a client without credentials could keep the disk busy."""

    async def work():
        for settings, status in (({"authenticationEnabled": True}, 401), ({}, 400)):
            database = SlowDatabase()
            async with listening(database, **settings) as server:
                await rest(server, "GET", "clusters")  # the first output waits for the initial state
                before = database.writes
                assert (await rest(server, "PUT", "persistent/public/default/a/partitions", b"x"))[0] == status
                assert database.writes == before == 1

    run(work())


def test_a_failed_commit_is_reported_and_the_stored_state_remains(run, caplog):
    async def work():
        database = SlowDatabase()
        async with listening(database) as server:
            producer = await join(server)
            await producing(producer)
            await producer.ask(pb.CommandSendReceipt, SEND, entry())
            database.full = True
            with caplog.at_level(logging.ERROR):
                producer.say(pb.CommandSend(producer_id=1, sequence_id=8), entry=entry())
                error = await producer.hear(pb.CommandSendError)
            assert (error.sequence_id, error.error) == (8, pb.PersistenceError)
            assert error.message == "database or disk is full"
            await producer.end()
            assert caplog.messages == [
                "the data directory cannot be written: database or disk is full; all clients are disconnected"
            ]
            status, body = await rest(server, "PUT", "persistent/public/default/b")
            assert (status, body) == (500, b'{"reason":"database or disk is full"}')

            database.full = False
            producer = await join(server)
            await producing(producer)
            receipt = await producer.ask(pb.CommandSendReceipt, SEND, entry())
            assert receipt.message_id.ledgerId > 0
            consumer = await join(server)
            await consuming(consumer)
            assert [len(entries) for entries in database.entries.values()] == [2]

    run(work())


def test_messages_are_refused_while_the_file_system_is_full(run):
    async def work():
        database = MemoryDatabase()
        async with listening(database) as server:
            producer = await join(server)
            await producing(producer)
            database.out_of_space = lambda: "data: no space left on device"
            await producer.ask(pb.CommandSendReceipt, SEND, entry())
            await producer.ask(pb.CommandCloseProducer, SEND, entry())
            error = await producer.hear(pb.CommandSendError)
            assert (error.error, error.message) == (pb.PersistenceError, "data: no space left on device")
            database.out_of_space = lambda: ""
            await asyncio.sleep(commit_gate._SPACE_SECONDS + 0.1)
            await producing(producer)
            await producer.ask(pb.CommandSendReceipt, SEND, entry())

    run(work())


def test_a_stop_writes_everything(run):
    async def work():
        database = SlowDatabase()
        server = Server(Settings(brokerServicePort=0, webServicePort=0), database=database)
        await server.start()
        producer = await join(server)
        await producing(producer)
        producer.say(SEND, entry=entry())
        while not server.broker.topics["persistent://public/default/t"].ledger.next:
            await asyncio.sleep(0)
        await asyncio.gather(server.stop(), producer.end())
        await producer.close()
        assert [len(entries) for entries in database.entries.values()] == [1]

    run(work())
