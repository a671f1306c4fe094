"""`pcli produce | pcli consume` beside the official Python client (C++ inside) doing the same, in one run.

    python bench/client.py [--messages 1000000] [--size 100] [--rounds 3] [--url pulsar://localhost:6650]

Lines of a file go through stdin of a producer to a broker, and from there through a consumer, which acknowledges each
of them, to a file again; both are processes of their own, as their users have them. The time is from the start of the
producer to the end of the consumer, which waits already. The files are compared: nothing lost, nothing twice, in order.
Without ``--url`` a mini-broker is started, and shares the machine's cores with them.

The official client has what suits it best of what was tried: the batch limits of pcli's defaults, a queue of 50,000
messages that blocks when it is full, and on the other side `batch_receive` with a receiver queue of 10,000 (less CPU
than `receive`, a third of a listener's). Both sides hear of each message whether it was stored, and acknowledge each.
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


def commands(who: str, url: str, topic: str, number: int) -> tuple[list[str], list[str]]:
    """How this client produces, and how it consumes."""
    if who == "pcli":
        where = (topic, "-u", url)
        consume = f"-s s --from earliest -n {number}".split()
        return [*PCLI, "produce", *where], [*PCLI, "consume", *where, *consume]
    python = [sys.executable, "-c"]
    return [*python, PRODUCE, url, topic], [*python, CONSUME, url, topic, str(number)]


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """A mini-broker as a process of its own; its service URL."""
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


def play(who: str, url: str, lines: Path, number: int, folder: Path) -> tuple[float, float]:
    """Seconds from beginning to end, and CPU seconds of both processes."""
    topic, out = f"bench-{who}-{time.time_ns()}", folder / "out"
    produce, consume = commands(who, url, topic, number)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = {"stderr": subprocess.DEVNULL}
    with out.open("wb") as written, lines.open("rb") as read:
        consumer = subprocess.Popen(consume, stdout=written, **quiet)  # type: ignore[call-overload]
        time.sleep(3)  # it waits for messages by then
        began = time.perf_counter()
        subprocess.run(produce, stdin=read, check=True, **quiet)  # type: ignore[call-overload]
        if consumer.wait():
            raise SystemExit(f"{who}: the consumer ended with {consumer.returncode}")
        seconds = time.perf_counter() - began
    if not filecmp.cmp(lines, out, shallow=False):
        raise SystemExit(f"{who}: what came is not what was sent")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = folder / "in"
        with lines.open("wb") as file:
            file.writelines(b"%0*d\n" % (given.size, number) for number in range(given.messages))
        print(f"{given.messages:,} messages of {given.size} B, {os.cpu_count()} cores, median of {given.rounds} rounds")
        results: dict[str, list[tuple[float, float]]] = {"pcli": [], "pulsar-client": []}
        for _ in range(given.rounds):
            for who, rows in results.items():
                if given.url:
                    rows.append(play(who, given.url, lines, given.messages, folder))
                else:
                    with broker(folder) as url:
                        rows.append(play(who, url, lines, given.messages, folder))
        medians = []
        for who, rows in results.items():
            wall, cpu = (statistics.median(column) for column in zip(*rows))
            rate, each = given.messages / wall, cpu / given.messages * 1e6
            print(f"{who:14} {wall:6.1f} s  {rate:10,.0f} messages/s  {each:5.1f} us of CPU a message")
            medians.append((wall, cpu))
        (ours, our_cpu), (theirs, their_cpu) = medians
        print(f"pcli is {theirs / ours:.2f} times as fast, with {our_cpu / their_cpu:.2f} of the CPU")


if __name__ == "__main__":
    main()
