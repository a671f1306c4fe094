"""The WebSocket service 4.2.4 between WebSocket clients and a broker."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import subprocess

import pytest

aiohttp = pytest.importorskip("aiohttp")

ORDERS = [f"order-{n}" for n in range(10)]
TOPIC = "persistent/public/default/websocket"


@pytest.fixture
def service(traffic, tmp_path):
    """The URL of a running WebSocket service."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    configuration = tmp_path / "websocket.conf"
    configuration.write_text(
        f"brokerServiceUrl={traffic.service_url}\nserviceUrl={traffic.http_url}\nwebServicePort={port}\n"
        "clusterName=standalone\nbindAddress=127.0.0.1\n"
    )
    main = "org.apache.pulsar.websocket.service.WebSocketServiceStarter"
    command_line = traffic.java("websocket", main, str(configuration))
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command_line, stdout=log, stderr=log) as process:
        yield f"http://127.0.0.1:{port}/ws/v2"
        process.terminate()


async def connect(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientWebSocketResponse:
    """Connect to the service as soon as it listens."""
    for _ in range(300):
        with contextlib.suppress(aiohttp.ClientConnectorError):
            return await session.ws_connect(url)
        await asyncio.sleep(0.1)
    raise TimeoutError(url)


async def receive(socket: aiohttp.ClientWebSocketResponse) -> list[str]:
    """Receive and acknowledge the orders."""
    received = []
    for _ in ORDERS:
        message = await socket.receive_json(timeout=30)
        received.append(base64.b64decode(message["payload"]).decode())
        await socket.send_json({"messageId": message["messageId"]})
    return received


async def exchange(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        consumer = await connect(session, f"{url}/consumer/{TOPIC}/audit?subscriptionType=Shared")
        producer = await session.ws_connect(f"{url}/producer/{TOPIC}")
        for order in ORDERS:
            await producer.send_json({"payload": base64.b64encode(order.encode()).decode(), "context": order})
            receipt = await producer.receive_json(timeout=30)
            assert (receipt["result"], receipt["context"]) == ("ok", order)
        assert await receive(consumer) == ORDERS
        async with session.ws_connect(f"{url}/reader/{TOPIC}?messageId=earliest") as reader:
            assert await receive(reader) == ORDERS
        await producer.close()
        await consumer.close()


def test_websocket_service(service, traffic):
    asyncio.run(exchange(service))
    assert traffic.findings() == {}
