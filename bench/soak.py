"""Soak test of the mini-broker: an hour of clients, topics and subscriptions that come and go.

    python bench/soak.py [--minutes 60] [--connections 2000] [--topics 10000] [--data]

`pcli broker` runs in a process of its own. Clients connect, publish, consume, unsubscribe or only disconnect, and are
replaced by others. Inactive topics and subscriptions are deleted, and messages expire after a minute. The test prints
the resident memory of the broker every half minute. It fails if the memory of the last quarter is more than 10 %
above that of the second quarter.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from broker import Broker, free_port, running

from pcli.codec.proto import pb
from pcli.codec.session import ClientSession
from pcli.codec.wire.build import push_entry

LIFETIMES = (5.0, 60.0)
"""Minimum and maximum time in seconds for which a client stays connected."""
SAMPLE_SECONDS = 30
GROWTH = 1.10
SETTINGS = {
    "brokerDeleteInactiveTopicsFrequencySeconds": "30",
    "ttlDurationDefaultInSeconds": "60",
    "messageExpiryCheckIntervalInMinutes": "1",
    "subscriptionExpirationTimeMinutes": "1",
    "subscriptionExpiryCheckIntervalInMinutes": "1",
    "retentionCheckIntervalInSeconds": "60",
    "managedLedgerMaxLedgerRolloverTimeMinutes": "1",
    "managedLedgerMinLedgerRolloverTimeMinutes": "1",
}
"""Settings with which everything that clients leave behind is deleted after minutes, not hours."""
TYPES = (pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared)


@dataclass
class Soak:
    """The parameters and results of one run."""

    port: int
    topics: int
    random: random.Random
    end: float
    """Time (`time.monotonic`) at which the clients stop."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of commands received by the clients, by name, and of connections."""
    memory: list[float] = field(default_factory=list)
    """Resident memory in MB, every SAMPLE_SECONDS."""

    async def keep_connected(self) -> None:
        """Replace a client by the next one until the end."""
        while time.monotonic() < self.end:
            lifetime = self.random.uniform(*LIFETIMES)
            try:
                await Client(self).live(min(time.monotonic() + lifetime, self.end))
            except (OSError, asyncio.IncompleteReadError) as fault:
                self.counts[f"failure: {type(fault).__name__}"] += 1
                await asyncio.sleep(1)


class Client:
    """One client: a producer or a consumer of one topic, or both."""

    def __init__(self, soak: Soak) -> None:
        self._soak = soak
        self._random = soak.random
        self._session = ClientSession(client_version=f"soak-{soak.random.randrange(1 << 30)}")
        self._topic = f"persistent://public/default/soak-{soak.random.randrange(soak.topics)}"
        self._sent = 0

    async def live(self, end: float) -> None:
        """Connect, work until the end, and disconnect with or without closing first."""
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._soak.port)
        self._soak.counts["connections"] += 1
        receiving = asyncio.create_task(self._receive(reader))
        try:
            self._session.connect()
            self._flush()
            await asyncio.sleep(0.2)
            self._open()
            while time.monotonic() < end and not receiving.done():
                self._publish()
                await asyncio.sleep(self._random.uniform(1, 10))
            self._leave()
            await asyncio.sleep(0.2)
        finally:
            receiving.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await receiving
            self._writer.transport.abort()

    def _open(self) -> None:
        self._send(pb.CommandLookupTopic(topic=self._topic))
        self._send(pb.CommandProducer(topic=self._topic, producer_id=1))
        if self._random.random() < 0.7:
            self._send(
                pb.CommandSubscribe(
                    topic=self._topic,
                    subscription=f"sub-{self._random.randrange(3)}",
                    subType=self._random.choice(TYPES),
                    consumer_id=1,
                )
            )
            self._send(pb.CommandFlow(consumer_id=1, messagePermits=1000))

    def _publish(self) -> None:
        if self._soak.random.random() < 0.5:
            payload = self._random.randbytes(self._random.randrange(2000))
            metadata = pb.MessageMetadata(producer_name="soak", sequence_id=self._sent, publish_time=1)
            metadata.partition_key = str(self._random.randrange(100))
            command = pb.CommandSend(producer_id=1, sequence_id=self._sent, num_messages=1)
            self._send(command, push_entry(metadata, payload))
            self._sent += 1

    def _leave(self) -> None:
        """Unsubscribe, close, or do nothing before the disconnect."""
        choice = self._random.randrange(3)
        if choice == 0:
            self._send(pb.CommandUnsubscribe(consumer_id=1))
        elif choice == 1:
            self._send(pb.CommandCloseConsumer(consumer_id=1))
            self._send(pb.CommandCloseProducer(producer_id=1))

    def _send(self, body: Any, entry: bytes = b"") -> None:
        self._session.send(body, entry)
        self._flush()

    def _flush(self) -> None:
        self._writer.write(self._session.output())

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        """Receive commands until the connection ends. Half of the messages are acknowledged."""
        while data := await reader.read(1 << 16):
            for event in self._session.receive(data):
                self._soak.counts[event.name] += 1
                if event.name == "MESSAGE" and self._random.random() < 0.5:
                    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
                    ack.message_id.append(event.body.message_id)
                    self._session.send(ack)
            self._flush()


def get(http_port: int, path: str) -> None:
    """Send a GET request and read the response."""
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}{path}", timeout=60) as response:
        response.read()


async def sample(soak: Soak, broker: Broker, http_port: int) -> None:
    """Print the memory at regular intervals."""
    began, spent = time.monotonic(), broker.cpu()
    print("minute  RSS MB  CPU %  connections  receipts  messages", flush=True)
    while time.monotonic() < soak.end:
        await asyncio.sleep(SAMPLE_SECONDS)
        for path in ("/metrics", "/admin/v2/persistent/public/default"):
            try:
                await asyncio.to_thread(get, http_port, path)
            except OSError as fault:
                soak.counts[f"failure of {path}: {type(fault).__name__}"] += 1
        soak.memory.append(broker.resident())
        cpu, counts = broker.cpu(), soak.counts
        print(
            f"{(time.monotonic() - began) / 60:6.1f} {soak.memory[-1]:7.0f} {(cpu - spent) / SAMPLE_SECONDS:6.0%}"
            f" {counts['connections']:12d} {counts['SEND_RECEIPT']:9d} {counts['MESSAGE']:9d}",
            flush=True,
        )
        spent = cpu


async def run(soak: Soak, connections: int, broker: Broker, http_port: int) -> None:
    """Run the clients. They start over ten seconds."""
    tasks = [asyncio.create_task(sample(soak, broker, http_port))]
    for number in range(connections):
        tasks.append(asyncio.create_task(soak.keep_connected()))
        if number % 50 == 0:
            await asyncio.sleep(10 * 50 / connections)
    await asyncio.gather(*tasks)


def main() -> int:
    """Run the test. Return 1 if the memory has grown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--data", action="store_true", help="store the messages in a directory")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, http_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        data = ["--data", str(Path(folder) / "data")] if options.data else []
        command = [sys.executable, "-m", "pcli.cli", "broker", "--port", str(port), "--http-port", str(http_port)]
        with running("pcli", [*command, *settings, *data], port) as broker:
            end = time.monotonic() + options.minutes * 60
            soak = Soak(port, options.topics, random.Random(options.seed), end)
            asyncio.run(run(soak, options.connections, broker, http_port))
    print(", ".join(f"{count} {name}" for name, count in soak.counts.most_common()))
    quarter = len(soak.memory) // 4
    if not quarter:
        print("the run was too short for a comparison")
        return 0
    before, after = median(soak.memory[quarter : 2 * quarter]), median(soak.memory[-quarter:])
    print(f"memory: {before:.0f} MB in the second quarter, {after:.0f} MB in the last quarter")
    return int(after > before * GROWTH)


if __name__ == "__main__":
    sys.exit(main())
