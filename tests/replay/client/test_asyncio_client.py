"""The client on sockets: a broker on real ports, TLS, and every fault of an address."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.errors import LocalError, RemoteError
from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker
from pcli.replay.client.asyncio_client import Client, run
from pcli.replay.client.message_ids import EARLIEST
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, ReaderSettings
from pcli.replay.service_url import Security, ServiceUrl

TOPIC = "persistent://public/default/t"


@pytest.fixture(scope="module")
def broker() -> Iterator[MiniBroker]:
    with MiniBroker() as broker:
        yield broker


def _connect(url: str, **settings: Any) -> None:
    async def main() -> None:
        async with Client(ServiceUrl.parse(url), ClientSettings(**settings)) as client:
            await client.connect()

    run(main())


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_receive_waits_for_a_message(broker: MiniBroker, size: int) -> None:
    """The consumer waits; then >> SEND  << MESSAGE; a reader reads it afterwards."""
    topic = f"{TOPIC}-waits-{size}"

    async def main() -> list[bytes]:
        async with Client(ServiceUrl.parse(broker.service_url)) as client:
            consumer = await client.subscribe(
                ConsumerSettings(topicNames=(topic,), subscriptionName="s", receiverQueueSize=size)
            )
            waiting = asyncio.create_task(client.receive(consumer))
            producer = await client.produce(topic, ProducerSettings(batchingEnabled=False))
            await client.call(lambda done: producer.send(OutgoingMessage(b"hello"), done))
            reader = await client.read(ReaderSettings(topicName=topic, startMessageId=EARLIEST))
            return [message.data for message in (await waiting, await client.read_next(reader))]

    assert run(main()) == [b"hello", b"hello"]


def test_a_waiting_receive_fails_with_the_consumer(broker: MiniBroker) -> None:
    topic = f"{TOPIC}-ends"

    async def main() -> None:
        async with Client(ServiceUrl.parse(broker.service_url)) as client:
            consumer = await client.subscribe(
                ConsumerSettings(topicNames=(topic,), subscriptionName="s", receiverQueueSize=0)
            )
            waiting = asyncio.create_task(client.receive(consumer))
            producer = await client.produce(topic, ProducerSettings())
            for _ in range(2):
                producer.send(OutgoingMessage(b"in a batch"), None)
            with client.turn():
                producer.trigger_flush()
            await waiting

    with pytest.raises((LocalError, RemoteError), match="is a batch"):
        run(main())


# -- use ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["service_url", "http_url"])
def test_a_conversation(broker: MiniBroker, scheme: str) -> None:
    async def main() -> list[Any]:
        async with Client(ServiceUrl.parse(getattr(broker, scheme))) as client:
            await client.connect()
            count = await client.call(lambda done: client.engine.partitions(TOPIC, done))
            connection = await client.call(lambda done: client.engine.connection_for(TOPIC, done))
            body = pb.CommandProducer(topic=TOPIC, producer_id=0, producer_name=scheme)
            response = await client.call(lambda done: connection.request(body, done))
            return [count, response.body.producer_name]

    assert run(main()) == [0, scheme]


def test_timers_run_by_the_clock(broker: MiniBroker) -> None:
    async def main() -> str:
        async with Client(ServiceUrl.parse(broker.service_url)) as client:
            engine = client.engine
            return await client.call(lambda done: engine.call_at(engine.now + 20, lambda: done("rang")))

    assert run(main()) == "rang"


def test_a_lost_connection_is_reported(broker: MiniBroker) -> None:
    async def main() -> None:
        async with Client(ServiceUrl.parse(broker.service_url)) as client:
            connection = await client.call(lambda done: client.engine.connection_for(TOPIC, done))
            with client.turn():
                connection.write(b"\xff" * 8)
            await client.call(lambda done: connection.request(pb.CommandGetSchema(topic=TOPIC), done))

    with pytest.raises(RemoteError, match=r"the broker closed the connection$"):
        run(main())


def test_an_exception_in_the_engine_ends_all_waits(broker: MiniBroker) -> None:
    async def main() -> None:
        async with Client(ServiceUrl.parse(broker.service_url)) as client:
            await client.call(lambda done: client.engine.call_at(client.engine.now, lambda: 1 // 0))

    with pytest.raises(ZeroDivisionError):
        run(main())


def test_another_host_of_the_url_is_tried(broker: MiniBroker) -> None:
    _connect(f"pulsar://127.0.0.1:{_free_port()},{broker.service_url.removeprefix('pulsar://')}")


# -- errors ------------------------------------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize("scheme", ["pulsar", "http"])
def test_an_unreachable_broker_is_an_error(scheme: str) -> None:
    with pytest.raises(RemoteError, match=r"127\.0\.0\.1:\d+: connection refused$"):
        _connect(f"{scheme}://127.0.0.1:{_free_port()}")


@pytest.mark.parametrize("scheme", ["pulsar", "pulsar+ssl", "http"])
def test_an_unknown_host_is_an_error(scheme: str) -> None:
    with pytest.raises(RemoteError, match=r"there is no host with this name$"):
        _connect(f"{scheme}://nobody.invalid:6650")


def test_a_silent_listener_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(RemoteError, match=f"no data was received from 127.0.0.1:{port}"):
            _connect(f"pulsar://127.0.0.1:{port}", keepAliveIntervalSeconds=0.05)


def test_a_web_port_is_an_error(broker: MiniBroker) -> None:
    with pytest.raises(RemoteError, match=r"the port uses HTTP: write http://$"):
        _connect(broker.http_url.replace("http", "pulsar"))


# -- TLS ---------------------------------------------------------------------------------------------------------------


async def _tunnel(broker: MiniBroker, certificate: tuple[Path, Path]) -> asyncio.Server:
    """A TLS port that forwards to the broker."""
    port = int(broker.service_url.rpartition(":")[2])

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
        except ConnectionError:
            pass
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pipe(reader, outer), pipe(inner, writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)


def _through_tls(broker: MiniBroker, certificate: tuple[Path, Path], scheme: str, security: Security) -> None:
    async def main() -> None:
        async with await _tunnel(broker, certificate) as server:
            url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with Client(ServiceUrl.parse(url), ClientSettings(security=security)) as client:
                await client.connect()

    run(main())


def test_tls(broker: MiniBroker, certificate: tuple[Path, Path]) -> None:
    _through_tls(broker, certificate, "pulsar+ssl", Security(trust=str(certificate[0])))


def test_an_untrusted_certificate_is_an_error(broker: MiniBroker, certificate: tuple[Path, Path]) -> None:
    with pytest.raises(RemoteError, match="its certificate is not trusted: self-signed certificate"):
        _through_tls(broker, certificate, "pulsar+ssl", Security())


def test_cleartext_to_a_tls_port_is_an_error(broker: MiniBroker, certificate: tuple[Path, Path]) -> None:
    with pytest.raises(RemoteError, match=r"in the handshake; for a TLS port write pulsar\+ssl://$"):
        _through_tls(broker, certificate, "pulsar", Security())


def test_tls_to_a_cleartext_port_is_an_error(broker: MiniBroker, certificate: tuple[Path, Path]) -> None:
    with pytest.raises(RemoteError, match=r"the port does not use TLS: write pulsar://$"):
        _connect(broker.service_url.replace("pulsar", "pulsar+ssl"), security=Security(trust=str(certificate[0])))


def test_unusable_certificates_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="no such file"):
        _connect("pulsar+ssl://127.0.0.1:1", security=Security(trust=str(tmp_path / "none.pem")))


def test_closing_the_client_fails_waiting_calls() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = ServiceUrl.parse(f"http://127.0.0.1:{server.getsockname()[1]}")
            async with Client(url) as client:
                waiting = asyncio.ensure_future(client.produce(TOPIC, ProducerSettings()))
                await asyncio.sleep(0)
            await waiting

    with pytest.raises(RemoteError, match="the client is closed"):
        run(main())
