"""Comparison of publish, dispatch and subscribe rates of the mini-broker with those of a real broker.

    python bench/rates.py pulsar://localhost:6650 http://localhost:8080 [--only WORD]

The script starts `pcli broker`, sends the same traffic to both brokers, and prints the time in seconds until half of
the messages and until the last message passed. It exits with code 1 if a time of the mini-broker differs from that of
the real broker by more than 10 % and 0.2 s. Settings of the real broker are changed at runtime and reset.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pulsar

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame

LEVELS = ("topic", "namespace", "resource group", "broker")
DISPATCH_LEVELS = ("topic", "subscription", "namespace", "namespace's subscriptions", "broker")
TYPES = {"Exclusive": pulsar.ConsumerType.Exclusive, "Shared": pulsar.ConsumerType.Shared}
Times = tuple[float, float]


class Broker:
    """One broker: clients of its binary protocol and requests to its REST API."""

    def __init__(self, service: str, web: str) -> None:
        self.service, self.web = service, web
        self.undo = ExitStack()

    def call(self, method: str, path: str, body: object = None) -> None:
        """Send a REST request. Raises OSError if it is refused."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = f"{self.web}/admin/v2/{path}"
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30):
            pass

    def client(self) -> pulsar.Client:
        """Return a client that is closed after the comparison."""
        client = pulsar.Client(self.service, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        self.undo.callback(client.close)
        return client

    def topic(self, domain: str = "persistent", *, create: bool = True) -> str:
        """Create a namespace, and a topic in it. Return the topic's full name."""
        space = f"public/rate-{time.time_ns()}"
        self.call("PUT", f"namespaces/{space}")
        if create:
            self.call("PUT", f"{domain}/{space}/t")
        return f"{domain}://{space}/t"

    def set(self, name: str, value: int) -> None:
        """Change a setting until the end of the comparison."""
        self.call("POST", f"brokers/configuration/{name}/{value}")
        self.undo.callback(self.call, "DELETE", f"brokers/configuration/{name}")


def limit_publishing(broker: Broker, topic: str, level: str, messages: int, size: int) -> None:
    """Set a publish rate. -1 is unlimited."""
    path = topic.replace("://", "/")
    space = "/".join(path.split("/")[1:3])
    rate = {"publishThrottlingRateInMsg": messages, "publishThrottlingRateInByte": size}
    if level == "topic":
        broker.call("POST", f"{path}/publishRate", rate)
    elif level == "namespace":
        broker.call("POST", f"namespaces/{space}/publishRate", rate)
    elif level == "broker":
        broker.set("brokerPublisherThrottlingMaxMessageRate", max(0, messages))
        broker.set("brokerPublisherThrottlingMaxByteRate", max(0, size))
    else:
        group = space.replace("/", "-")
        broker.call("PUT", f"resourcegroups/{group}", {"publishRateInMsgs": messages, "publishRateInBytes": size})
        broker.call("POST", f"namespaces/{space}/resourcegroup/{group}")
    time.sleep(2)


def half_and_last(times: list[float], count: int, most: float) -> Times:
    """Wait until ``count`` times are in the list. Return the middle one and the last one."""
    end = time.monotonic() + most
    while len(times) < count and time.monotonic() < end:
        time.sleep(0.01)
    return (times[count // 2 - 1], times[count - 1]) if len(times) >= count else (-1.0, -1.0)


def publish(broker: Broker, level: str, messages: int, size: int, count: int, **how: Any) -> Times:
    """Send messages of 100 bytes as fast as possible. Return the times of the receipts."""
    topic = broker.topic(how.get("domain", "persistent"), create=not how.get("late") or level == "topic")
    limit_publishing(broker, topic, level, messages, size)
    clients = [broker.client() for _ in range(how.get("clients", 1))]
    batch = how.get("batch", 0)
    options: dict[str, Any] = {"batching_enabled": bool(batch), "max_pending_messages": count}
    if batch:
        options |= {"batching_max_messages": batch, "batching_max_publish_delay_ms": 1000}
    producers = [one.create_producer(topic, **options) for one in clients for _ in range(how.get("producers", 1))]
    times: list[float] = []
    begin = time.monotonic()
    for index in range(count):
        producers[index % len(producers)].send_async(b"x" * 100, lambda *_: times.append(time.monotonic() - begin))
    for producer in producers:
        threading.Thread(target=producer.flush, daemon=True).start()
    return half_and_last(times, count, 30)


def limit_dispatching(broker: Broker, topic: str, level: str, rate: dict[str, Any]) -> None:
    path = topic.replace("://", "/")
    space = "/".join(path.split("/")[1:3])
    paths = {
        "topic": f"{path}/dispatchRate",
        "subscription": f"{path}/subscriptionDispatchRate",
        "namespace": f"namespaces/{space}/dispatchRate",
        "namespace's subscriptions": f"namespaces/{space}/subscriptionDispatchRate",
    }
    if level == "broker":
        broker.set("dispatchThrottlingRateInMsg", max(0, rate["dispatchThrottlingRateInMsg"]))
        broker.set("dispatchThrottlingRateInByte", max(0, rate["dispatchThrottlingRateInByte"]))
    else:
        broker.call("POST", paths[level], rate)
    time.sleep(2)


def dispatch(broker: Broker, level: str, messages: int, size: int, count: int, **how: Any) -> Times:
    """Publish messages of 100 bytes, then receive them. Return the times of the messages."""
    topic, client = broker.topic(how.get("domain", "persistent")), broker.client()
    rate = {"dispatchThrottlingRateInMsg": messages, "dispatchThrottlingRateInByte": size}
    rate |= {"ratePeriodInSecond": how.get("period", 1), "relativeToPublishRate": False}
    batch = how.get("batch", 0)
    options: dict[str, Any] = {"batching_enabled": bool(batch)}
    if batch:
        options |= {"batching_max_messages": batch, "batching_max_publish_delay_ms": 1000}
    producer = client.create_producer(topic, **options)
    times: list[float] = []
    begin = time.monotonic()

    def arrived(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        times.append(time.monotonic() - begin)
        consumer.acknowledge(message)

    def subscribe() -> None:
        options = {"initial_position": pulsar.InitialPosition.Earliest, "message_listener": arrived}
        if "queue" in how:
            options["receiver_queue_size"] = how["queue"]
        for number in range(how.get("consumers", 1)):
            client.subscribe(topic, "sub", TYPES[how.get("type", "Exclusive")], consumer_name=f"c{number}", **options)

    if how.get("tail"):
        limit_dispatching(broker, topic, level, rate)
        subscribe()
        begin = time.monotonic()
    for _ in range(count):
        producer.send_async(b"x" * 100, None)
    producer.flush()
    if not how.get("tail"):
        limit_dispatching(broker, topic, level, rate)
        begin = time.monotonic()
        subscribe()
    return half_and_last(times, count, 40)


class Link:
    """A connection that sends one request at a time."""

    def __init__(self, service: str) -> None:
        url = urlsplit(service)
        self.socket = socket.create_connection((url.hostname, url.port), timeout=10)
        self.buffer = b""
        self.ask(pb.CommandConnect(client_version="rates", protocol_version=21))

    def ask(self, command: Any) -> pb.BaseCommand:
        """Send a command and return the response."""
        self.socket.sendall(push_frame(command))
        while True:
            while len(self.buffer) < 4 or len(self.buffer) < 4 + int.from_bytes(self.buffer[:4]):
                self.buffer += self.socket.recv(65536)
            total, size = int.from_bytes(self.buffer[:4]), int.from_bytes(self.buffer[4:8])
            found = pb.BaseCommand.FromString(self.buffer[8 : 8 + size])
            self.buffer = self.buffer[4 + total :]
            if found.type not in (pb.BaseCommand.PING, pb.BaseCommand.ACTIVE_CONSUMER_CHANGE):
                return found


def subscribe(broker: Broker, level: str, rate: int, period: int, **how: Any) -> Times:
    """Subscribe and close every 50 ms for 2.5 periods. Return how many were accepted in half of the time and in all."""
    topic = broker.topic()
    path = topic.replace("://", "/")
    space = "/".join(path.split("/")[1:3])
    body = {"subscribeThrottlingRatePerConsumer": rate, "ratePeriodInSecond": period}
    if level == "broker":
        broker.set("subscribeThrottlingRatePerConsumer", rate)
        broker.set("subscribeRatePeriodPerConsumerInSecond", period)
    else:
        broker.call("POST", f"{path if level == 'topic' else f'namespaces/{space}'}/subscribeRate", body)
    time.sleep(2)
    link = Link(broker.service)
    link.ask(pb.CommandLookupTopic(topic=topic, request_id=1))
    accepted = []
    begin = time.monotonic()
    for number in range(2, 10_000):
        at = time.monotonic() - begin
        if at > 2.5 * period:
            break
        name = f"c{number % how.get('names', 1)}"
        fields = {"topic": topic, "subscription": "sub", "subType": "Exclusive", "consumer_name": name}
        answer = link.ask(pb.CommandSubscribe(consumer_id=1, request_id=number, **fields))
        if answer.type == pb.BaseCommand.SUCCESS:
            accepted.append(at)
            link.ask(pb.CommandCloseConsumer(consumer_id=1, request_id=number))
        time.sleep(0.05)
    return sum(at < 1.25 * period for at in accepted), len(accepted)


Case = tuple[str, Callable[[Broker], Times]]


def cases() -> list[Case]:
    """Return the names of all comparisons and their functions."""
    found: list[Case] = []

    def add(name: str, function: Callable[..., Times], *arguments: Any, **how: Any) -> None:
        found.append((name, lambda broker: function(broker, *arguments, **how)))

    for level in LEVELS:
        add(f"publish: {level}, 50 messages/s, 200 messages", publish, level, 50, -1, 200)
        add(f"publish: {level}, 8000 bytes/s, 200 messages", publish, level, -1, 8000, 200)
        add(f"publish: {level}, 50/s, two producers", publish, level, 50, -1, 200, producers=2)
        add(f"publish: {level}, 50/s, two connections", publish, level, 50, -1, 200, clients=2)
    add("publish: topic, 50/s, batches of 20", publish, "topic", 50, -1, 200, batch=20)
    add("publish: topic, 5/s, 20 messages", publish, "topic", 5, -1, 20)
    add("publish: topic, 1000/s, 4000 messages", publish, "topic", 1000, -1, 4000)
    for level in LEVELS:
        name = f"publish: non-persistent topic, {level}, 50/s"
        add(name, publish, level, 50, -1, 200, domain="non-persistent")
        add(f"{name}, set before its creation", publish, level, 50, -1, 200, domain="non-persistent", late=True)
    for level in DISPATCH_LEVELS:
        add(f"dispatch: {level}, 50 messages/s, 200 messages", dispatch, level, 50, -1, 200)
        add(f"dispatch: {level}, 8000 bytes/s, 200 messages", dispatch, level, -1, 8000, 200)
    for kind in TYPES:
        add(f"dispatch: topic, 5/s, {kind}", dispatch, "topic", 5, -1, 20, type=kind)
        add(f"dispatch: topic, 50/s, {kind}, at the tail", dispatch, "topic", 50, -1, 200, type=kind, tail=True)
        add(f"dispatch: topic, 50 in 2 s, {kind}", dispatch, "topic", 50, -1, 150, type=kind, period=2)
        add(f"dispatch: topic, 50/s, {kind}, batches of 20", dispatch, "topic", 50, -1, 200, type=kind, batch=20)
        add(f"dispatch: topic, 50/s, {kind}, queue of 1", dispatch, "topic", 50, -1, 150, type=kind, queue=1)
    add(
        "dispatch: subscription, 50/s, two consumers", dispatch, "subscription", 50, -1, 200, type="Shared", consumers=2
    )
    for level in ("topic", "namespace", "broker"):
        add(f"subscribe: {level}, 5 in 4 s (number accepted)", subscribe, level, 5, 4)
    add("subscribe: topic, 5 in 4 s, two names (number accepted)", subscribe, "topic", 5, 4, names=2)
    return found


@contextmanager
def mini_broker():
    """Run `pcli broker`; yield it."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [sys.executable, "-m", "pcli.cli", "broker", "--port", "0", "--http-port", "0", "--log", "quiet"]
        process = subprocess.Popen([*command, "--ready-file", str(ready)], stdout=subprocess.DEVNULL)
        try:
            while not (ready.exists() and ready.read_text()):
                time.sleep(0.05)
            urls = json.loads(ready.read_text())
            yield Broker(urls["service_url"], urls["http_url"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=10)


def measured(broker: Broker, function: Callable[[Broker], Times]) -> Times:
    with broker.undo:
        return function(broker)


def differ(real: float, mini: float) -> bool:
    return abs(real - mini) > max(0.2, 0.1 * real)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("service")
    parser.add_argument("web")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    worst = 0
    print(f"{'':60} {'real':>13}  {'mini-broker':>13}")
    with mini_broker() as mini, ThreadPoolExecutor(2) as pool:
        for name, function in cases():
            if arguments.only not in name:
                continue
            both = (Broker(arguments.service, arguments.web), mini)
            real, ours = pool.map(measured, both, (function, function))
            wrong = any(map(differ, real, ours))
            worst |= wrong
            columns = "  ".join(f"{half:6.2f} {last:6.2f}" for half, last in (real, ours))
            print(f"{name:60} {columns}{'  DIFFERS' if wrong else ''}", flush=True)
    return worst


if __name__ == "__main__":
    sys.exit(main())
