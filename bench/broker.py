"""Benchmark of the mini-broker against a Pulsar standalone in the same run, with Pulsar's load generator.

    python bench/broker.py [--real ../shared/real-broker/start] [--perf pulsar-perf-go] [--seconds 20] [--data]
                           [--revision REV]

The mini-broker has the version of the real broker. If that version has scalable topics, they are measured too
(scalable_load.py). With --revision, the mini-broker of another revision is also measured; both are then installed in a
folder. With --data, the mini-broker is also measured with a data directory, on the file system of the temporary
directory. Like the real broker, which synchronizes its journal (journalSyncData=true), it then responds after an fsync.

Load: the Go client's perf tool (`go install github.com/apache/pulsar-client-go/perf@latest`) with a producer and a
consumer, for rates; the Python client for latencies; commands on one connection for transactions. The maximum rate of
the generator is measured first, with a sink that responds to every SEND and stores nothing. If a broker comes close to
it, the generator is the limit, and the CPU time of the broker per message is the relevant figure. The brokers share the
cores with the load. Missing programs are reported, and their measurements are omitted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scalable_load
from compare import install

from pcli.codec.proto import pb
from pcli.codec.session import ClientSession
from pcli.codec.wire.build import push_entry, push_frame
from pcli.minibroker.embedded.self_signed_certificate import create as create_certificate
from pcli.minibroker.versions import DEFAULT

HERE = Path(__file__).parent.parent
REAL = HERE.parent / "shared" / "real-broker" / "start"

UNBATCHED = ("--batching-num-messages", "1")
"""Options of the generator. Batches of one message are equivalent to no batches."""
LOADS = (
    ("batched 100 B", 100, (), False),
    ("batched 1 KB", 1024, (), False),
    ("unbatched 100 B", 100, UNBATCHED, False),
    ("TLS, batched 100 B", 100, (), True),
    ("TLS, batched 1 KB", 1024, (), True),
    ("TLS, unbatched 100 B", 100, UNBATCHED, True),
)
"""Name, bytes of a message, options of the generator, whether the clients use TLS."""
OPEN_TRANSACTIONS = 20
MESSAGES_PER_TRANSACTION = 10

_RATE = re.compile(r"Stats - (Publish|Consume) rate: +([0-9.]+) msg/s")


@dataclass
class Broker:
    """A running broker and its measured figures."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    tls_port: int = 0
    http_port: int = 0
    version: str = ""
    started: float = 0.0
    """Seconds from the start of the process to the first accepted producer."""
    figures: dict[str, str] = field(default_factory=dict)

    def url(self, *, tls: bool = False) -> str:
        """Return the service URL."""
        return f"pulsar+ssl://127.0.0.1:{self.tls_port}" if tls else f"pulsar://127.0.0.1:{self.port}"

    def cpu(self) -> float:
        """Return the CPU seconds of all its threads so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> float:
        """Return the resident memory in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024  # type: ignore[union-attr]


class Client:
    """A client with one blocking socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.session = ClientSession()
        self.session.connect()
        [self.connected] = self.wait("CONNECTED")

    def wait(self, name: str, count: int = 1) -> list[Any]:
        """Write pending output, and read until this many commands with this name arrive. Return their bodies."""
        bodies: list[Any] = []
        while len(bodies) < count:
            self.socket.sendall(self.session.output())
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("closed by the broker")
            for event in self.session.receive(data):
                if event.name == name:
                    bodies.append(event.body)
                if event.name == "ERROR":
                    raise ConnectionError(event.body.message)
        return bodies

    def exchange(self, request: object, response: str) -> None:
        """Send a request and wait for its response."""
        self.exchange_all([request], response)

    def exchange_all(self, requests: list[Any], response: str) -> list[Any]:
        """Send requests, and wait for their responses. Return the bodies of the responses."""
        for request in requests:
            self.session.send(request)
        return self.wait(response, len(requests))

    def new_producer(self, topic: str, number: int) -> None:
        """Look up a new topic and create a producer on it."""
        self.exchange(pb.CommandLookupTopic(topic=topic), "LOOKUP_RESPONSE")
        self.exchange(pb.CommandProducer(topic=topic, producer_id=number), "PRODUCER_SUCCESS")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def running(
    name: str, command: list[str], port: int, tls_port: int = 0, http_port: int = 0, where: str = ""
) -> Iterator[Broker]:
    """Start a broker, and measure the time until the first producer is accepted. ``where`` contains its revision."""
    # The first command writes the bytecode, as an installation does.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if where:
        environment["PYTHONPATH"] = where
    subprocess.run([sys.executable, "-m", "pcli.cli", "broker", "--dispatchers"], env=environment, capture_output=True)
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    broker = Broker(name, process, port, tls_port, http_port)
    try:
        while True:
            try:
                client = Client(port)
                client.new_producer("persistent://public/default/first", 1)
                broker.version = client.connected.server_version.removeprefix("Pulsar Server")
                broker.name = f"{name} {broker.version}"
                break
            except OSError:
                if process.poll() is not None or time.perf_counter() - began > 120:
                    raise
                time.sleep(0.01)
        broker.started = time.perf_counter() - began
        broker.figures["start to first accepted producer"] = f"{broker.started:.2f} s"
        yield broker
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def new_topics(broker: Broker, count: int = 200) -> None:
    client = Client(broker.port)
    times = []
    for number in range(count):
        began = time.perf_counter()
        client.new_producer(f"persistent://public/default/new-{number}", number)
        times.append(time.perf_counter() - began)
    broker.figures["new topic with producer"] = f"{statistics.median(times) * 1000:.2f} ms"


def latencies(broker: Broker, certificate: str, *, tls: bool, count: int = 2000) -> None:
    """Measure synchronous sends, and the time from send to a waiting consumer, with the Python client."""
    try:
        import pulsar
    except ImportError:
        print("pulsar-client is not installed: no latencies")
        return
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(broker.url(tls=tls), tls_trust_certs_file_path=certificate, logger=logger)
    producer = client.create_producer(f"latency-{tls}", batching_enabled=False)
    sends = []
    for _ in range(count):
        began = time.perf_counter()
        producer.send(b"x" * 100)
        sends.append(time.perf_counter() - began)
    consumer = client.subscribe(f"way-{tls}", "sub")
    producer = client.create_producer(f"way-{tls}", batching_enabled=False)
    delays = []
    for _ in range(count):
        producer.send_async(str(time.perf_counter()).encode(), None)
        message = consumer.receive()
        delays.append(time.perf_counter() - float(message.data()))
        consumer.acknowledge(message)
    client.close()
    prefix = "TLS, " if tls else ""
    broker.figures[f"{prefix}synchronous send p50 / p99"] = _percentiles(sends)
    broker.figures[f"{prefix}end to end p50 / p99"] = _percentiles(delays)


def transactions(broker: Broker, count: int = 1000) -> None:
    """Measure transactions that produce messages: one after the other, and many at a time on one connection."""
    client, topic = Client(broker.port), "persistent://public/default/transactions"
    coordinator = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
    client.exchange(pb.CommandLookupTopic(topic=coordinator), "LOOKUP_RESPONSE")
    connect = pb.CommandTcClientConnectRequest(tc_id=0)
    while client.exchange_all([connect], "TC_CLIENT_CONNECT_RESPONSE")[0].HasField("error"):
        time.sleep(0.1)
    client.exchange(pb.CommandLookupTopic(topic=topic), "LOOKUP_RESPONSE")
    client.exchange(pb.CommandProducer(topic=topic, producer_id=1, txn_enabled=True), "PRODUCER_SUCCESS")
    _run_transactions(client, topic, 1)
    times = []
    for _ in range(count // 5):
        began = time.perf_counter()
        _run_transactions(client, topic, 1)
        times.append(time.perf_counter() - began)
    broker.figures["transaction of 10 messages p50 / p99"] = _percentiles(times)
    before, began = broker.cpu(), time.perf_counter()
    for _ in range(count // OPEN_TRANSACTIONS):
        _run_transactions(client, topic, OPEN_TRANSACTIONS)
    elapsed, spent = time.perf_counter() - began, broker.cpu() - before
    broker.figures["transactions of 10 messages, 20 open"] = f"{count / elapsed:.0f} /s"
    broker.figures["CPU time per transaction"] = f"{spent / count * 1e6:.0f} us"


def _run_transactions(client: Client, topic: str, count: int) -> None:
    """Begin transactions, produce messages in each one, and commit them."""
    begin = [pb.CommandNewTxn(tc_id=0, txn_ttl_millis=60_000) for _ in range(count)]
    ids = [
        {"txnid_least_bits": body.txnid_least_bits, "txnid_most_bits": body.txnid_most_bits}
        for body in client.exchange_all(begin, "NEW_TXN_RESPONSE")
    ]
    added = [pb.CommandAddPartitionToTxn(partitions=[topic], **one) for one in ids]
    client.exchange_all(added, "ADD_PARTITION_TO_TXN_RESPONSE")
    for one in ids:
        for number in range(MESSAGES_PER_TRANSACTION):
            about = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1, **one)
            command = pb.CommandSend(producer_id=1, sequence_id=number, **one)
            client.session.post_frame(push_frame(command, push_entry(about, b"x" * 100)))
    client.wait("SEND_RECEIPT", count * MESSAGES_PER_TRANSACTION)
    ended = client.exchange_all([pb.CommandEndTxn(txn_action=pb.COMMIT, **one) for one in ids], "END_TXN_RESPONSE")
    if any(body.HasField("error") for body in ended):
        raise ConnectionError("a transaction was not committed")


def unbatched(broker: Broker, messages: int) -> float:
    """Publish and consume messages of 100 bytes, in steps of 1000. Return the CPU seconds of the broker.

    As with the Go client, a producer waits for up to 1000 receipts, and an ACK contains the ids of 1000 messages.
    """
    topic, step = "persistent://public/default/unbatched", 1000
    producer, consumer = Client(broker.port), Client(broker.port)
    producer.new_producer(topic, 1)
    consumer.exchange(pb.CommandLookupTopic(topic=topic), "LOOKUP_RESPONSE")
    consumer.exchange(pb.CommandSubscribe(topic=topic, subscription="sub", consumer_id=1, subType=0), "SUCCESS")
    before = broker.cpu()
    for first in range(0, messages, step):
        for number in range(first, first + step):
            about = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1_700_000_000_000)
            command = pb.CommandSend(producer_id=1, sequence_id=number, num_messages=1)
            producer.session.post_frame(push_frame(command, push_entry(about, b"x" * 100)))
        consumer.session.send(pb.CommandFlow(consumer_id=1, messagePermits=step))
        producer.wait("SEND_RECEIPT", step)
        places = [body.message_id for body in consumer.wait("MESSAGE", step)]
        ids = [pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId) for place in places]
        consumer.session.send(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=ids))
    return broker.cpu() - before


def _percentiles(seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=100)
    return f"{cuts[49] * 1000:.2f} / {cuts[98] * 1000:.2f} ms"


def load(broker: Broker, perf: str, certificate: str, seconds: int) -> int:
    """Run all loads; return the total number of consumed messages."""
    consumed = 0
    for name, size, options, tls in LOADS:
        topic = f"load-{name.replace(' ', '-').replace(',', '')}"
        before, url = broker.cpu(), broker.url(tls=tls)
        rates = generate([perf, "--trust-cert-file", certificate], url, topic, size, options, seconds, consumer=True)
        spent = broker.cpu() - before
        published, received = (statistics.mean(rates[kind][1:] or rates[kind]) for kind in ("Publish", "Consume"))
        broker.figures[f"{name}, published / consumed"] = f"{published / 1000:.1f} k / {received / 1000:.1f} k msg/s"
        total = sum(rates["Consume"]) * 10
        consumed += int(total)
        if name.startswith("unbatched"):
            broker.figures["CPU time per unbatched message"] = f"{spent / total * 1e6:.1f} us"
    return consumed


def generate(
    perf: list[str], url: str, topic: str, size: int, options: tuple[str, ...], seconds: int, *, consumer: bool
) -> dict[str, list[float]]:
    """Return the rates that the generator prints every ten seconds."""
    common = [*perf, "--metrics", "-1", "-u", url]
    produce = [*common, "produce", topic, "--rate", "0", "--size", str(size), *options]
    commands = [[*common, "consume", topic, "--receiver-queue-size", "10000"]] if consumer else []
    commands.append(produce)
    processes = []
    for command in commands:
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        time.sleep(0.5)
    time.sleep(seconds + 2)
    rates: dict[str, list[float]] = {"Publish": [], "Consume": []}
    for process in reversed(processes):
        process.send_signal(signal.SIGINT)
    for process in processes:
        try:
            output, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        for kind, rate in _RATE.findall(output):
            rates[kind].append(float(rate))
    return rates


def measure(broker: Broker, options: argparse.Namespace) -> None:
    time.sleep(1)
    broker.figures["resident memory, idle"] = f"{broker.resident():.0f} MB"
    new_topics(broker)
    latencies(broker, options.certificate, tls=False)
    latencies(broker, options.certificate, tls=True)
    transactions(broker)
    if options.perf:
        consumed = load(broker, options.perf, options.certificate, options.seconds)
        broker.figures["resident memory after the loads"] = (
            f"{broker.resident():.0f} MB ({consumed / 1e6:.1f} M consumed)"
        )
    if options.scalable and Client(broker.port).connected.feature_flags.supports_scalable_topics:
        http_url = f"http://127.0.0.1:{broker.http_port}"
        broker.figures |= scalable_load.measure(options.scalable, broker.url(), http_url, broker.cpu, options.seconds)


def ceiling(perf: str, seconds: int) -> None:
    port = free_port()
    process = subprocess.Popen([sys.executable, str(HERE / "bench" / "sink.py"), str(port)])
    try:
        time.sleep(1)
        for name, size, options, tls in LOADS:
            if tls:
                continue
            rates = generate([perf], f"pulsar://127.0.0.1:{port}", "sink", size, options, seconds, consumer=False)
            published = statistics.mean(rates["Publish"][1:] or rates["Publish"])
            print(f"the generator's ceiling, {name}: {published / 1000:.1f} k msg/s published into a sink")
    finally:
        process.terminate()
        process.wait()


def measured(options: argparse.Namespace, folder: Path) -> list[Broker]:
    """Measure the brokers one after the other: the real one first, which determines the version of the others."""
    files = create_certificate(folder, "127.0.0.1")
    options.certificate, brokers = str(files.certificate), []
    options.scalable = scalable_load.program(new_folder(folder, "java"))
    if shutil.which("java") and Path(options.real).exists():
        port, tls_port, http_port = free_port(), free_port(), free_port()
        real = [options.real, f"{folder}/real", f"brokerServicePort={port}", f"webServicePort={http_port}"]
        real += [f"brokerServicePortTls={tls_port}", f"tlsCertificateFilePath={options.certificate}"]
        real += [f"tlsKeyFilePath={files.key}", "transactionCoordinatorEnabled=true"]
        with running("real", real, port, tls_port, http_port) as broker:
            brokers.append(broker)
            measure(broker, options)
    else:
        print("no Java, or no real broker: nothing to compare with")
    port, tls_port, http_port = free_port(), free_port(), free_port()
    ours = [sys.executable, "-m", "pcli.cli", "broker", "--port", str(port), "--http-port", str(http_port)]
    ours += ["--log", "quiet", "--tls-port", str(tls_port), "--tls-cert", options.certificate]
    ours += ["--tls-key", str(files.key), "--set", "transactionCoordinatorEnabled=true"]
    if brokers and brokers[0].version != DEFAULT.name:
        ours += ["--pulsar", brokers[0].version]
    here = str(install("HEAD", new_folder(folder, "head"))) if options.revision else ""
    variants = [("pcli", [], here)]
    if options.data:
        variants.append(("pcli --data", ["--data", f"{folder}/data"], here))
    if options.revision:
        where = str(install(options.revision, new_folder(folder, "revision")))
        variants.append((f"pcli {options.revision}", [], where))
    for name, more, where in variants:
        with running(name, [*ours, *more], port, tls_port, http_port, where) as broker:
            brokers.append(broker)
            measure(broker, options)
    return brokers


def new_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", default=str(REAL))
    parser.add_argument("--perf", default=shutil.which("perf") or "")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--data", action="store_true")
    parser.add_argument("--revision", metavar="REV")
    options = parser.parse_args()
    options.perf = options.perf if options.perf and "pulsar-perf-go" in _help(options.perf) else None
    if options.perf is None:
        print("the Go client's perf tool is not installed: no rates (see --perf)")
    else:
        ceiling(options.perf, options.seconds)
    with tempfile.TemporaryDirectory() as folder:
        brokers = measured(options, Path(folder))
    print(f"{'':56}" + "".join(f"{broker.name:>32}" for broker in brokers))
    for name in brokers[-1].figures:
        print(f"{name:56}" + "".join(f"{broker.figures.get(name, ''):>32}" for broker in brokers))


def _help(perf: str) -> str:
    return subprocess.run([perf, "--help"], capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    main()
