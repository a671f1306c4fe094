"""Scenarios of the Python client. README.md describes the scenarios, and the protocol on stdin and stdout."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import Any

import pulsar
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema

# The library logs to stdout, which is reserved for results. Its lines are redirected to stderr.
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

WAIT_MS = 10_000
QUIET_MS = 200
TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Failover": pulsar.ConsumerType.Failover,
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
COMPRESSIONS = {"NONE": "NONE", "LZ4": "LZ4", "ZLIB": "ZLib", "ZSTD": "ZSTD", "SNAPPY": "SNAPPY"}


class User(Record):
    name = String()
    age = Integer()


class Play:
    """A running scenario with its parameters."""

    def __init__(self, client: pulsar.Client, args: dict[str, Any]) -> None:
        self.client = client
        self.args = args
        self.topic = args.get("topic", "orders")

    # -- scenarios

    def exchange(self) -> Any:
        consumer, producer = self.consumer(self.kind), self.producer()
        count = self.args.get("count", 20)
        please("look")
        for n in range(count):
            producer.send_async(payload(n), accepted, **whole(n))
        producer.flush()
        received = []
        for _ in range(count):
            message = consumer.receive(WAIT_MS)
            consumer.acknowledge(message)
            received.append(record(message))
        consumer.close()
        return {"received": received}

    def failover(self) -> Any:
        first, second = self.consumer("Failover", consumer_name="c1"), self.consumer("Failover", consumer_name="c2")
        producer = self.producer()
        send(producer, 0, 5)
        saw = {"c1": take_all(first, 5), "c2 meanwhile": rest(second)}
        first.close()
        send(producer, 5, 10)
        saw["c2"] = take_all(second, 5)
        return saw

    def shared(self) -> Any:
        consumers = {name: self.consumer("Shared") for name in ("c1", "c2")}
        send(self.producer(), 0, 20)
        return deal(consumers, 20)

    def nack(self) -> Any:
        consumer = self.consumer("Shared", negative_ack_redelivery_delay_ms=100)
        send(self.producer(), 0, 3)
        received = []
        for _ in range(4):
            message = consumer.receive(WAIT_MS)
            if message.data() == b"message-1" and message.redelivery_count() == 0:
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)
            received.append([data(message), message.redelivery_count()])
        return {"received": received}

    def key_shared(self) -> Any:
        consumers = {name: self.consumer("Key_Shared") for name in ("c1", "c2")}
        send_keyed(self.producer(), 40)
        return deal(consumers, 40)

    def sticky(self) -> Any:
        def open_range(first: int, last: int) -> pulsar.Consumer:
            mode = pulsar.KeySharedMode.Sticky
            policy = pulsar.ConsumerKeySharedPolicy(key_shared_mode=mode, sticky_ranges=[(first, last)])
            return self.consumer("Key_Shared", key_shared_policy=policy)

        consumers = {"low": open_range(0, 32767), "high": open_range(32768, 65535)}
        refused = refusal(lambda: open_range(30000, 40000))
        send_keyed(self.producer(), 40)
        return {"refused": refused, **deal(consumers, 40)}

    def chunks(self) -> Any:
        large = bytes((n * 7 + n // 256) & 255 for n in range(self.args.get("count", 100_000)))
        consumer, producer = self.consumer(), self.producer(chunking_enabled=True)
        for one in (b"before", large, b"after"):
            producer.send(one)
        received = []
        for _ in range(3):
            message = consumer.receive(WAIT_MS)
            consumer.acknowledge(message)
            received.append([len(message.data()), sha1(message.data())])
        consumer.close()
        return {"received": received, "sent": [len(large), sha1(large)]}

    def schema(self) -> Any:
        kind = self.args.get("kind", "string")
        user = User(name="Ada", age=36)
        schema, value = {
            "string": (StringSchema(), "eins"),
            "json": (JsonSchema(User), user),
            "avro": (AvroSchema(User), user),
        }[kind]
        consumer, producer = self.consumer(schema=schema), self.producer(schema=schema)
        producer.send(value)
        message = consumer.receive(WAIT_MS)
        consumer.acknowledge(message)
        found = message.value()
        other = AvroSchema(User) if kind == "string" else StringSchema()
        return {
            "value": found if kind == "string" else {"name": found.name, "age": found.age},
            "refused": refusal(lambda: self.producer(schema=other)),
        }

    def seek(self) -> Any:
        consumer, producer = self.consumer(), self.producer()
        for n in range(10):
            producer.send(payload(n), **whole(n))
            time.sleep(0.005)
        every = [consumer.receive(WAIT_MS) for _ in range(10)]
        consumer.acknowledge_cumulative(every[9])
        saw = {}
        consumer.seek(every[4].message_id())
        saw["by_id"] = take_until(consumer, "message-9")
        consumer.seek(every[7].publish_timestamp())
        saw["by_time"] = take_until(consumer, "message-9")
        consumer.seek(pulsar.MessageId.earliest)
        saw["earliest"] = take_until(consumer, "message-9")
        return saw

    def reader(self) -> Any:
        def open_at(start: Any, inclusive: bool = False) -> pulsar.Reader:
            return self.client.create_reader(self.topic, start, start_message_id_inclusive=inclusive)

        producer, latest = self.producer(), open_at(pulsar.MessageId.latest)
        saw = {"available in nothing": latest.has_message_available()}
        ids = [producer.send(payload(n), **whole(n)) for n in range(5)]
        saw["latest"] = read_all(latest)
        earliest = open_at(pulsar.MessageId.earliest)
        saw["earliest"] = read_all(earliest)
        saw["available at the end"] = earliest.has_message_available()
        earliest.seek(ids[2])
        saw["sought"] = read_all(earliest)
        saw["after an id"] = read_all(open_at(ids[2]))
        saw["from an id"] = read_all(open_at(ids[2], inclusive=True))
        return saw

    def table_view(self) -> Any:
        producer = self.producer()
        send_keyed(producer, 20)
        view = self.client.create_table_view(self.topic)
        producer.send(b"changed", partition_key="k0")
        wait_for(lambda: view.get("k0") == b"changed")
        rows: dict[str, str] = {}
        view.for_each(lambda key, value: rows.update({key: value.decode()}))
        view.close()
        return {"rows": rows}

    def dead_letter(self) -> Any:
        policy = pulsar.ConsumerDeadLetterPolicy(2, "dead", "undertaker")
        consumer = self.consumer("Shared", negative_ack_redelivery_delay_ms=50, dead_letter_policy=policy)
        producer = self.producer()
        producer.send(b"poison")
        producer.send(b"good")
        deliveries = []
        while len(deliveries) < 4:
            message = consumer.receive(WAIT_MS)
            deliveries.append(f"{data(message)} {message.redelivery_count()}")
            if message.data() == b"good":
                consumer.acknowledge(message)
            else:
                consumer.negative_acknowledge(message)
        dead = self.client.subscribe("dead", "undertaker")
        message = dead.receive(WAIT_MS)
        dead.acknowledge(message)
        return {"deliveries": deliveries, "dead": record(message)}

    def delayed(self) -> Any:
        consumer, producer = self.consumer("Shared"), self.producer()
        producer.send(b"later", deliver_at=round(time.time() * 1000) + 3_600_000)
        producer.send(b"at once")
        received = take_all(consumer, 1) + rest(consumer)
        please("advance")
        return {"received": received + take_all(consumer, 1)}

    def cumulative(self) -> Any:
        consumer, producer = self.consumer(), self.producer()
        send(producer, 0, 10)
        every = [consumer.receive(WAIT_MS) for _ in range(10)]
        consumer.acknowledge_cumulative(every[5])
        consumer.close()
        return {"again": take_until(self.consumer(), "message-9")}

    def batch_index(self) -> Any:
        producer = self.client.create_producer(
            self.topic, batching_enabled=True, batching_max_messages=10, batching_max_publish_delay_ms=1000
        )
        consumer = self.consumer(batch_index_ack_enabled=True)
        for n in range(10):
            producer.send_async(payload(n), accepted)
        producer.flush()
        every = [consumer.receive(WAIT_MS) for _ in range(10)]
        for n in (0, 2, 4):
            consumer.acknowledge(every[n])
        consumer.close()
        please("look")
        return {"again": take_until(self.consumer(batch_index_ack_enabled=True), "message-9")}

    def unsubscribe(self) -> Any:
        consumer = self.consumer()
        please("look")
        consumer.unsubscribe()
        return {}

    def zero_queue(self) -> Any:
        consumer, producer = self.consumer("Shared", receiver_queue_size=0), self.producer()
        send(producer, 0, 3)
        please("look")
        received = []
        for _ in range(3):
            message = consumer.receive()  # without a receiver queue, receive() accepts no timeout
            consumer.acknowledge(message)
            received.append(data(message))
        return {"received": received}

    def partitions(self) -> Any:
        consumer, producer = self.consumer(), self.producer()
        send(producer, 0, 9)
        send_keyed(producer, 20)
        received = []
        for _ in range(29):
            message = consumer.receive(WAIT_MS)
            consumer.acknowledge(message)
            received.append([message.topic_name().rpartition("-")[2], message.partition_key(), data(message)])
        return {"received": received}

    def topics(self) -> Any:
        consumer = self.client.subscribe(["a", "b"], "work")
        send(self.client.create_producer("a"), 0, 5)
        send(self.client.create_producer("b"), 5, 10)
        return {"received": by_topic(consumer, 10)}

    def pattern(self) -> Any:
        # The library looks for new topics only once a minute, whatever its settings. All topics therefore exist before.
        first, other = self.client.create_producer("watch-a"), self.client.create_producer("other")
        late = self.client.create_producer("watch-b")
        consumer = self.client.subscribe(
            re.compile("persistent://public/default/watch-.*"),
            "work",
            initial_position=pulsar.InitialPosition.Earliest,
        )
        other.send(b"elsewhere")
        send(first, 0, 2)
        send(late, 2, 4)
        return {"received": by_topic(consumer, 4)}

    def deduplicate(self) -> Any:
        consumer, last = self.consumer(), []
        for numbers in ((0, 1, 2), (1, 2, 3)):
            producer = self.producer(producer_name="p")
            last.append(producer.last_sequence_id())
            for n in numbers:
                producer.send(payload(n), sequence_id=n)
            producer.close()
        return {"received": take_until(consumer, "message-3") + rest(consumer), "last": last}

    def access_modes(self) -> Any:
        modes = pulsar.ProducerAccessMode
        holder = self.producer(producer_name="holder", access_mode=modes.Exclusive)
        refused = refusal(lambda: self.producer(access_mode=modes.Exclusive))
        heirs: list[pulsar.Producer] = []
        thread = threading.Thread(
            target=lambda: heirs.append(self.producer(producer_name="heir", access_mode=modes.WaitForExclusive))
        )
        thread.start()
        thread.join(QUIET_MS / 1000)
        early = bool(heirs)
        holder.send(b"holder")
        holder.close()
        thread.join()
        heirs[0].send(b"heir")
        return {"refused": refused, "early": early}

    def fencing(self) -> Any:
        modes = pulsar.ProducerAccessMode
        holder = self.producer(producer_name="holder", access_mode=modes.Exclusive, send_timeout_millis=2000)
        holder.send(b"holder")
        usurper = self.producer(producer_name="usurper", access_mode=modes.ExclusiveWithFencing)
        usurper.send(b"usurper")
        return {"fenced": refusal(lambda: holder.send(b"too late"))}

    def reconnect(self) -> Any:
        consumer, producer = self.consumer(self.kind), self.producer()
        send(producer, 0, 10)
        received = take_all(consumer, 5)
        please("interrupt")
        send(producer, 10, 20)
        return {"received": received + take_until(consumer, "message-19")}

    def habits(self) -> Any:
        consumer = self.client.subscribe(self.topic, "work", pulsar.ConsumerType.Shared)
        producer = self.producer()
        send(producer, 0, 1200)
        for _ in range(1200):
            consumer.acknowledge(consumer.receive(WAIT_MS))
        batch = self.client.create_producer(self.topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
        for n in range(10):
            batch.send_async(payload(n), accepted)
        batch.flush()
        messages = [consumer.receive(WAIT_MS) for _ in range(10)]
        for message in messages[:4]:
            consumer.acknowledge(message)
        for message in messages[4:7]:
            consumer.negative_acknowledge(message)
        please("idle")
        consumer.close()
        return {}

    # -- helpers of the scenarios

    @property
    def kind(self) -> str:
        return str(self.args.get("type", "Exclusive"))

    def consumer(self, kind: str = "Exclusive", **options: Any) -> pulsar.Consumer:
        return self.client.subscribe(self.topic, "work", TYPES[kind], **options)

    def producer(self, **options: Any) -> pulsar.Producer:
        batching = self.args.get("batching", "none")
        kind = pulsar.BatchingType.KeyBased if batching == "key" else pulsar.BatchingType.Default
        compression = getattr(pulsar.CompressionType, COMPRESSIONS[self.args.get("compression", "NONE")])
        options |= {"batching_enabled": batching != "none", "batching_type": kind, "compression_type": compression}
        return self.client.create_producer(self.topic, **options)


def accepted(result: Any, _: Any) -> None:
    if result != pulsar.Result.Ok:
        sys.exit(f"a send failed: {result}")


def whole(n: int) -> dict[str, Any]:
    return {
        "partition_key": f"k{n % 5}",
        "ordering_key": f"o{n % 5}",
        "properties": {"n": str(n)},
        "event_timestamp": 1000 + n,
    }


def send(producer: pulsar.Producer, first: int, end: int) -> None:
    for n in range(first, end):
        producer.send(payload(n))


def send_keyed(producer: pulsar.Producer, count: int) -> None:
    for n in range(count):
        producer.send_async(payload(n), accepted, partition_key=f"k{n % 10}")
    producer.flush()


def payload(n: int) -> bytes:
    return b"message-%d" % n


def take_all(consumer: pulsar.Consumer, count: int) -> list[str]:
    received = []
    while len(received) < count:
        message = consumer.receive(WAIT_MS)
        consumer.acknowledge(message)
        received.append(data(message))
    return received


def take_until(consumer: pulsar.Consumer, last: str) -> list[str]:
    received = take_all(consumer, 1)
    while received[-1] != last:
        received += take_all(consumer, 1)
    return received


def rest(consumer: pulsar.Consumer) -> list[str]:
    received = []
    while True:
        try:
            received.append(data(consumer.receive(QUIET_MS)))
        except pulsar.Timeout:
            return received


def read_all(reader: pulsar.Reader) -> list[str]:
    read = []
    while reader.has_message_available():
        read.append(data(reader.read_next(WAIT_MS)))
    return read


def by_topic(consumer: pulsar.Consumer, count: int) -> list[list[str]]:
    received = []
    while len(received) < count:
        message = consumer.receive(WAIT_MS)
        consumer.acknowledge(message)
        received.append([message.topic_name(), data(message)])
    return received


def deal(consumers: dict[str, pulsar.Consumer], count: int) -> dict[str, list[str]]:
    hands: dict[str, list[str]] = {name: [] for name in consumers}
    end = time.monotonic() + WAIT_MS / 1000
    while sum(map(len, hands.values())) < count and time.monotonic() < end:
        for name, consumer in consumers.items():
            try:
                message = consumer.receive(20)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            key = message.partition_key()
            hands[name].append(f"{key}={data(message)}" if key else data(message))
    return hands


def wait_for(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_MS / 1000
    while not happened() and time.monotonic() < end:
        time.sleep(0.01)


def data(message: pulsar.Message) -> str:
    return message.data().decode()


def record(message: pulsar.Message) -> dict[str, Any]:
    return {
        "data": data(message),
        "key": message.partition_key(),
        "ordering_key": message.ordering_key(),
        "properties": message.properties(),
        "event_time": message.event_timestamp(),
    }


def sha1(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def refusal(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except pulsar.PulsarException as refused:
        return type(refused).__name__
    return ""


def say(what: object) -> None:
    print(json.dumps(what), file=OUT, flush=True)


def please(what: str) -> None:
    say({"please": what})
    sys.stdin.readline()


WORDS = ("__init__", "consumer", "producer")
SCENARIOS = {name: deed for name, deed in vars(Play).items() if callable(deed) and name not in WORDS}


@contextmanager
def connected(url: str) -> Any:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, logger=quiet, operation_timeout_seconds=WAIT_MS // 1000)
    try:
        yield client
    finally:
        with suppress(pulsar.AlreadyClosed):  # raised by close() shortly after a producer was fenced
            client.close()


def run(line: str) -> dict[str, Any]:
    args = json.loads(line)
    name = args["scenario"]
    if name == "list":
        return {"scenario": name, "saw": sorted(SCENARIOS)}
    try:
        with connected(args["url"]) as client:
            return {"scenario": name, "saw": SCENARIOS[name](Play(client, args))}
    except Exception as failure:
        return {"scenario": name, "failed": repr(failure)}


if __name__ == "__main__":
    for order in sys.argv[1:] or iter(sys.stdin.readline, ""):
        say(run(order))
