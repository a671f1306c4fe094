"""Benchmark of `pcli broker --data`: start, memory and disk with a large backlog, beside a broker without stored data.

    python bench/data_directory.py [--messages 1000000] [--topics 10000]

The broker stores unbatched messages in one topic with a subscription, and one message in each of many topics. It is
killed with SIGKILL and started again. Then a consumer reads and acknowledges the whole backlog, and the messages are
deleted. The memory must depend on the cache, not on the backlog, and the file must shrink.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker import Broker, Client, free_port, running

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry, push_frame

BACKLOG = "persistent://public/default/backlog"
WINDOW = 1000
"""Number of messages that are sent before their receipts are awaited, and permits of the consumer."""
SIZE = 100
"""Bytes of a payload."""
LIMIT = 1.0
"""The start with stored messages must take at most this time in seconds."""
SETTINGS = ("brokerDeleteInactiveTopicsEnabled=false", "retentionCheckIntervalInSeconds=1")


@contextmanager
def started(folder: Path) -> Iterator[Broker]:
    """Run a broker with a data directory, and kill it at the end."""
    port = free_port()
    command = [sys.executable, "-m", "pcli.cli", "broker", "--port", str(port), "--http-port", "0", "--log", "quiet"]
    command += ["--data", str(folder), *(part for setting in SETTINGS for part in ("--set", setting))]
    with running("pcli", command, port) as broker:
        yield broker
        broker.process.kill()


def subscribe(client: Client) -> None:
    client.exchange(pb.CommandLookupTopic(topic=BACKLOG), "LOOKUP_RESPONSE")
    client.exchange(
        pb.CommandSubscribe(topic=BACKLOG, subscription="reader", subType=pb.CommandSubscribe.Shared, consumer_id=1),
        "SUCCESS",
    )


def fill(broker: Broker, messages: int, topics: int) -> float:
    """Store the messages. Return the time in seconds."""
    client = Client(broker.port)
    subscribe(client)
    client.new_producer(BACKLOG, 0)
    began = time.perf_counter()
    for first in range(0, messages, WINDOW):
        send(client, 0, range(first, min(first + WINDOW, messages)))
    elapsed = time.perf_counter() - began
    for number in range(1, topics + 1):
        client.new_producer(f"persistent://public/default/topic-{number}", number)
        send(client, number, range(1))
        client.exchange(pb.CommandCloseProducer(producer_id=number), "SUCCESS")
    return elapsed


def send(client: Client, producer: int, numbers: range) -> None:
    """Send messages, and wait for their receipts."""
    for number in numbers:
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
        command = pb.CommandSend(producer_id=producer, sequence_id=number)
        client.session.post_frame(push_frame(command, push_entry(metadata, b"x" * SIZE)))
    client.wait("SEND_RECEIPT", len(numbers))


def read(broker: Broker, messages: int) -> tuple[float, float]:
    """Read and acknowledge the backlog. Return the times in seconds until the first and the last message."""
    began = time.perf_counter()
    client = Client(broker.port)
    subscribe(client)
    first, count = 0.0, 0
    while count < messages:
        expected = min(WINDOW, messages - count)
        client.session.send(pb.CommandFlow(consumer_id=1, messagePermits=expected))
        for message in client.wait("MESSAGE", expected):
            client.session.send(
                pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message.message_id])
            )
        first, count = first or time.perf_counter() - began, count + expected
    client.socket.sendall(client.session.output())
    return first, time.perf_counter() - began


def stored(folder: Path) -> int:
    """Return the size of the data directory in bytes."""
    return sum(file.stat().st_size for file in folder.iterdir())


def wait_until_small(folder: Path, size: int, seconds: float = 60) -> int:
    """Wait until the size of the directory is at most a quarter of this size. Return the size in bytes."""
    end = time.monotonic() + seconds
    while stored(folder) > size // 4 and time.monotonic() < end:
        time.sleep(1)
    return stored(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--topics", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with started(data) as broker:
            empty, idle = float(broker.figures["start to first accepted producer"].split()[0]), broker.resident()
            elapsed = fill(broker, options.messages, options.topics)
            print(
                f"stored {options.messages} messages, {options.messages / elapsed:.0f} messages/s, in {elapsed:.0f} s"
            )
            print(f"resident memory: {idle:.0f} MB idle, {broker.resident():.0f} MB after {options.topics} topics")
        with started(data) as broker:
            full, size = float(broker.figures["start to first accepted producer"].split()[0]), stored(data)
            print(f"start: {full:.2f} s with {size / 1e6:.0f} MB ({full / LIMIT:.2f} x the limit)", end=", ")
            print(f"{empty:.2f} s without data ({full / empty:.2f} x)")
            before = broker.resident()
            first, last = read(broker, options.messages)
            print(f"first {WINDOW} messages after {first:.2f} s, all messages acknowledged after {last:.0f} s")
            print(f"resident memory: {before:.0f} MB after the start, {broker.resident():.0f} MB after the backlog")
            after = wait_until_small(data, size)
            print(f"data directory: {size / 1e6:.0f} MB before, {after / 1e6:.0f} MB after the deletion", end=" ")
            print(f"({after / size:.2f} x)")


if __name__ == "__main__":
    main()
