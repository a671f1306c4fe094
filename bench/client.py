"""Benchmark of `pcli produce | pcli consume` against the official Python client (based on C++), in one run.

    python bench/client.py [--messages 1000000] [--size 100] [--rounds 3] [--url pulsar://localhost:6650]

A producer process sends the lines of a file from stdin to a broker. A consumer process acknowledges them and writes
them to another file. The time is from the start of the producer to the end of the consumer, which was started before.
The two files must be equal. Without ``--url`` a mini-broker is started, which shares the cores with the clients.

The official client uses the fastest of the tested settings: the batch limits of pcli's defaults, a queue of 50,000
messages that blocks when it is full, and `batch_receive` with a receiver queue of 10,000 (less CPU than `receive`, and
a third of that of a listener). Both clients check the receipt of each message, and acknowledge each message.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PCLI = [sys.executable, "-m", "pcli.cli"]

PRODUCE = """
import sys, pulsar
url, topic = sys.argv[1:]
client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
producer = client.create_producer(topic, block_if_queue_full=True, batching_enabled=True,
    batching_max_messages=1000, batching_max_allowed_size_in_bytes=131072, batching_max_publish_delay_ms=1,
    max_pending_messages=50000)
sent = 0
def heard(result, place):
    global sent
    sent += result == pulsar.Result.Ok
number = 0
for number, line in enumerate(sys.stdin.buffer, 1):
    producer.send_async(line[:-1], heard)
producer.flush()
client.close()
sys.exit(sent != number)
"""

CONSUME = """
import sys, pulsar
url, topic, number = sys.argv[1:]
client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest, receiver_queue_size=10000,
    batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(1000, -1, 10))
left = int(number)
while left > 0:
    messages = consumer.batch_receive()
    sys.stdout.buffer.write(b"".join([message.data() + b"\\n" for message in messages]))
    for message in messages:
        consumer.acknowledge(message)
    left -= len(messages)
sys.stdout.buffer.flush()
client.close()
"""


def commands(client: str, url: str, topic: str, number: int) -> tuple[list[str], list[str]]:
    """Return the commands with which this client produces and consumes."""
    if client == "pcli":
        where = (topic, "-u", url)
        consume = f"-s s --from earliest -n {number}".split()
        return [*PCLI, "produce", *where], [*PCLI, "consume", *where, *consume]
    python = [sys.executable, "-c"]
    return [*python, PRODUCE, url, topic], [*python, CONSUME, url, topic, str(number)]


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Run a mini-broker in its own process; yield its service URL."""
    ready = folder / "ready"
    words = ["broker", "--port", "0", "--http-port", "0", "--ready-file", str(ready)]
    process = subprocess.Popen([*PCLI, *words], stdout=subprocess.DEVNULL)
    while not ready.exists():
        time.sleep(0.05)
    try:
        yield json.loads(ready.read_text())["service_url"]
    finally:
        process.terminate()
        process.wait()


def run_client(client: str, url: str, lines: Path, number: int, folder: Path) -> tuple[float, float]:
    """Return the elapsed seconds, and the CPU seconds of both processes."""
    topic, out = f"bench-{client}-{time.time_ns()}", folder / "out"
    produce, consume = commands(client, url, topic, number)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = {"stderr": subprocess.DEVNULL}
    with out.open("wb") as written, lines.open("rb") as read:
        consumer = subprocess.Popen(consume, stdout=written, **quiet)  # type: ignore[call-overload]
        time.sleep(3)  # wait until it is ready for messages
        began = time.perf_counter()
        subprocess.run(produce, stdin=read, check=True, **quiet)  # type: ignore[call-overload]
        if consumer.wait():
            raise SystemExit(f"{client}: the consumer ended with {consumer.returncode}")
        seconds = time.perf_counter() - began
    if not filecmp.cmp(lines, out, shallow=False):
        raise SystemExit(f"{client}: the received messages differ from the sent ones")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = folder / "in"
        with lines.open("wb") as file:
            file.writelines(b"%0*d\n" % (options.size, number) for number in range(options.messages))
        print(
            f"{options.messages:,} messages of {options.size} B, {os.cpu_count()} cores, "
            f"median of {options.rounds} rounds"
        )
        results: dict[str, list[tuple[float, float]]] = {"pcli": [], "pulsar-client": []}
        for _ in range(options.rounds):
            for client, rows in results.items():
                if options.url:
                    rows.append(run_client(client, options.url, lines, options.messages, folder))
                else:
                    with broker(folder) as url:
                        rows.append(run_client(client, url, lines, options.messages, folder))
        medians = []
        for client, rows in results.items():
            wall, cpu = (statistics.median(column) for column in zip(*rows))
            rate, each = options.messages / wall, cpu / options.messages * 1e6
            print(f"{client:14} {wall:6.1f} s  {rate:10,.0f} messages/s  {each:5.1f} us of CPU a message")
            medians.append((wall, cpu))
        (ours, our_cpu), (theirs, their_cpu) = medians
        print(f"pcli is {theirs / ours:.2f} times as fast, with {our_cpu / their_cpu:.2f} of the CPU")


if __name__ == "__main__":
    main()
