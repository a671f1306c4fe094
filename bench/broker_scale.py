"""Benchmark of the mini-broker with many topics, consumers and unacknowledged messages, beside a Pulsar standalone.

    python bench/broker_scale.py [--real ../shared/real-broker/start] [--size 1.0] [--only topics|consumers|backlog]

Each operation is measured at a quarter of the size and at the full size. The growth is the ratio of the CPU times of
the broker per item: 1 means that an item costs the same at any size. The elapsed times also contain the time of the
client, and they depend on other programs on the machine. Ratios above that of the real broker are marked. The memory is
the resident memory of the mini-broker, and the used heap after a garbage collection of the real broker (jcmd).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from broker import REAL, Broker, Client, free_port, running

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame

TOPICS = 10_000
CONSUMERS = 2_000
BACKLOG = 1_000_000
SETTINGS = {
    "maxUnackedMessagesPerConsumer": "0",
    "maxUnackedMessagesPerSubscription": "0",
    "brokerDeleteInactiveTopicsEnabled": "false",
}
"""Settings of both brokers, by their names in broker.conf: no limits."""

KEY_SHARED = pb.CommandSubscribe.Key_Shared
SHARED = pb.CommandSubscribe.Shared


@dataclass
class Scaled:
    """Times per item of one broker, in seconds, at a quarter of the size and at the full size."""

    broker: Broker
    http_port: int
    times: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Elapsed time and CPU time of each operation."""
    memory: dict[str, float] = field(default_factory=dict)
    """Bytes per item."""

    def time(self, operation: str, items: int, action: Callable[[], object], repeat: int = 1) -> None:
        """Measure an action that handles a number of items. The CPU time has a resolution of 10 ms."""
        before, began = self.broker.cpu(), time.perf_counter()
        for _ in range(repeat):
            action()
        elapsed, spent = time.perf_counter() - began, self.broker.cpu() - before
        self.times.setdefault(operation, []).append((elapsed / (items * repeat), spent / (items * repeat)))

    def time_get(self, operation: str, items: int, path: str, parse: Callable[[bytes], object] = json.loads) -> None:
        """Measure a GET request whose response describes a number of items."""
        self.time(operation, items, lambda: self.get(path, parse), repeat=10)

    def used(self) -> float:
        """Return the used memory in bytes."""
        if self.broker.name == "pcli":
            return self.broker.resident() * 1e6
        pid = str(self.broker.process.pid)
        subprocess.run(["jcmd", pid, "GC.run"], capture_output=True, check=True)
        heap = subprocess.run(["jcmd", pid, "GC.heap_info"], capture_output=True, text=True, check=True).stdout
        return sum(float(number) for number in re.findall(r"heap .*used (\d+)K", heap)) * 1024

    def get(self, path: str, parse: Callable[[bytes], object] = json.loads) -> object:
        """Return the parsed response of a GET request."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=600) as response:
            return parse(response.read())


def topics(run: Scaled, count: int) -> None:
    """Create topics with a producer and a subscription each, and read lists and statistics."""
    client, before, quarter = Client(run.broker.port), run.used(), count // 4

    def create(first: int) -> None:
        for number in range(first, first + quarter):
            topic = f"persistent://public/default/many-{number}"
            client.new_producer(topic, number)
            request = pb.CommandSubscribe(topic=topic, subscription="sub", subType=SHARED, consumer_id=number)
            client.exchange(request, "SUCCESS")

    for first in range(0, count, quarter):
        if 0 < first < count - quarter:
            create(first)
            continue
        run.time("new topic with producer and consumer", quarter, lambda: create(first))  # noqa: B023
        made = first + quarter
        run.time_get("list of topics, per topic", made, "/admin/v2/persistent/public/default")
        run.time_get("stats of a topic", 1, "/admin/v2/persistent/public/default/many-1/stats")
        run.time_get("/metrics, per topic", made, "/metrics/", parse=bytes.splitlines)
    run.memory["topic with producer and consumer"] = (run.used() - before) / count


def send_all(client: Client, producer: int, count: int, keys: int = 0) -> None:
    """Send messages and wait for their receipts. At most 1000 messages are in flight."""
    received = 0
    for first in range(0, count, 1000):
        last = min(first + 1000, count)
        frames = []
        for number in range(first, last):
            about = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
            if keys:
                about.partition_key = str(number % keys)
            command = pb.CommandSend(producer_id=producer, sequence_id=number)
            frames.append(push_frame(command, push_entry(about, b"x" * 10)))
        client.socket.sendall(b"".join(frames))
        while received < last:
            received += sum(event.name == "SEND_RECEIPT" for event in client.session.receive(read(client)))


def read(client: Client) -> bytes:
    """Return received bytes after the pending output is written."""
    client.socket.sendall(client.session.output())
    data = client.socket.recv(1 << 18)
    if not data:
        raise ConnectionError("closed by the broker")
    return data


def receive_all(client: Client, count: int) -> list[pb.MessageIdData]:
    """Return the ids of this number of messages."""
    ids = []
    while len(ids) < count:
        ids += [event.body.message_id for event in client.session.receive(read(client)) if event.name == "MESSAGE"]
    return ids


def subscribe(client: Client, topic: str, number: int, kind: int, permits: int) -> None:
    request = pb.CommandSubscribe(
        topic=topic, subscription="sub", subType=kind, consumer_id=number,
        initialPosition=pb.CommandSubscribe.Earliest,
    )  # fmt: skip
    client.exchange(request, "SUCCESS")
    client.session.post(pb.CommandFlow(consumer_id=number, messagePermits=permits))
    client.socket.sendall(client.session.output())


def consumers(run: Scaled, count: int) -> None:
    """Let consumers of one Key_Shared subscription join and leave while messages are unacknowledged."""
    for size in (count // 4, count):
        topic = f"persistent://public/default/keys-{size}"
        path = f"/admin/v2/{topic.replace('://', '/')}"
        sender, client = Client(run.broker.port), Client(run.broker.port)
        client.exchange(pb.CommandLookupTopic(topic=topic), "LOOKUP_RESPONSE")
        sender.new_producer(topic, 1)
        before = run.used()

        def join(first: int, last: int, topic: str = topic, client: Client = client) -> None:
            for number in range(first, last):
                subscribe(client, topic, number, KEY_SHARED, 100)

        def leave(first: int, last: int, client: Client = client) -> None:
            for number in range(first, last):
                client.exchange(pb.CommandCloseConsumer(consumer_id=number), "SUCCESS")

        join(0, size - count // 8)
        run.time("join of a Key_Shared consumer", count // 8, lambda: join(size - count // 8, size))  # noqa: B023
        run.memory["Key_Shared consumer"] = (run.used() - before) / size
        run.time("publish to them", 10 * size, lambda: send_all(sender, 1, 10 * size, 10 * size))  # noqa: B023
        receive_all(client, 10 * size)
        run.time_get("statistics, per consumer", size, f"{path}/stats")
        run.time("leave with unacked messages", count // 8, lambda: leave(0, count // 8))
        run.time("join while slots drain", count // 8, lambda: join(size, size + count // 8))  # noqa: B023
        run.time_get("statistics while slots drain, per consumer", size, f"{path}/stats")
        client.socket.close()
        sender.socket.close()


def backlog(run: Scaled, count: int) -> None:
    """Publish a backlog, deliver it to one consumer, and acknowledge it in random order."""
    for size in (count // 4, count):
        topic = f"persistent://public/default/backlog-{size}"
        path = f"/admin/v2/{topic.replace('://', '/')}"
        sender, client = Client(run.broker.port), Client(run.broker.port)
        client.exchange(pb.CommandLookupTopic(topic=topic), "LOOKUP_RESPONSE")
        subscribe(client, topic, 1, SHARED, 1)
        sender.new_producer(topic, 1)
        run.time("publish to a backlog", size, lambda: send_all(sender, 1, size))  # noqa: B023
        before = run.used()
        client.session.post(pb.CommandFlow(consumer_id=1, messagePermits=size))
        ids: list[pb.MessageIdData] = []
        run.time("deliver the backlog", size, lambda: ids.extend(receive_all(client, size)))  # noqa: B023
        run.memory["unacked message"] = (run.used() - before) / size
        random.Random(1).shuffle(ids)
        half = ids[: size // 2]
        run.time("random acknowledgements", len(half), lambda: acknowledge(client, half))  # noqa: B023
        run.time_get("statistics of it", 1, f"{path}/stats")
        run.time_get("internal statistics, per message", size, f"{path}/internalStats")
        client.session.post(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))
        client.session.post(pb.CommandFlow(consumer_id=1, messagePermits=size))
        rest = size - len(half)
        run.time("redelivery of the rest", rest, lambda: receive_all(client, rest))  # noqa: B023
        run.time("acknowledge the rest", rest, lambda: acknowledge(client, ids[len(half) :]))  # noqa: B023
        client.socket.close()
        sender.socket.close()


def acknowledge(client: Client, ids: list[pb.MessageIdData]) -> None:
    """Acknowledge messages one by one, and wait until all are handled."""
    for first in range(0, len(ids), 1000):
        for one in ids[first : first + 1000]:
            client.session.post(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[one]))
        client.socket.sendall(client.session.output())
    client.exchange(pb.CommandGetLastMessageId(consumer_id=1), "GET_LAST_MESSAGE_ID_RESPONSE")


PARTS = {"topics": (topics, TOPICS), "consumers": (consumers, CONSUMERS), "backlog": (backlog, BACKLOG)}


def measure(name: str, command: list[str], port: int, http_port: int, parts: list[str], size: float) -> Scaled:
    with running(name, command, port) as broker:
        run = Scaled(broker, http_port)
        run.get("/admin/v2/clusters")  # the first request loads code
        for part in parts:
            action, count = PARTS[part]
            action(run, int(count * size))
        return run


def show(runs: list[Scaled]) -> None:
    print(f"{'per item: elapsed time, CPU time and growth':44}" + "".join(f"{run.broker.name:>60}" for run in runs))
    for operation in runs[0].times:
        cells, growths = [], []
        for run in runs:
            (elapsed, small), (elapsed_full, full) = run.times[operation]
            growths.append(full / small if small else 1.0)
            cells.append(
                f"{elapsed * 1e6:11,.1f} {elapsed_full * 1e6:11,.1f} us "
                f"{small * 1e6:11,.1f} {full * 1e6:11,.1f} us {growths[-1]:6.2f}x"
            )
        mark = "  grows faster" if len(runs) > 1 and growths[0] > max(1.5, 1.5 * growths[1]) else ""
        print(f"{operation:44}" + "".join(f"{cell:>60}" for cell in cells) + mark)
    print(f"\n{'memory per item':44}" + "".join(f"{run.broker.name:>60}" for run in runs))
    for item in runs[0].memory:
        print(f"{item:44}" + "".join(f"{run.memory[item]:>56,.0f} B  " for run in runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", default=str(REAL))
    parser.add_argument("--size", type=float, default=1.0, help="fraction of the full size")
    parser.add_argument("--only", choices=PARTS, action="append", help="run only this part")
    options = parser.parse_args()
    parts, runs = options.only or list(PARTS), []
    port, http = free_port(), free_port()
    ours = [sys.executable, "-m", "pcli.cli", "broker", "--port", str(port), "--http-port", str(http), "--log", "quiet"]
    ours += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    runs.append(measure("pcli", ours, port, http, parts, options.size))
    if shutil.which("java") and shutil.which("jcmd") and Path(options.real).exists():
        with tempfile.TemporaryDirectory() as folder:
            port, http = free_port(), free_port()
            real = [options.real, folder, f"brokerServicePort={port}", f"webServicePort={http}"]
            real += [f"{name}={value}" for name, value in SETTINGS.items()]
            runs.append(measure("real 4.2.4", real, port, http, parts, options.size))
    else:
        print("no Java with jcmd, or no real broker: nothing to compare with")
    show(runs)


if __name__ == "__main__":
    main()
