"""A program that uses the official Python client: it executes commands and writes a log of what the client reports.

    python application.py SERVICE_URL LOG [TOKEN]

stdin: a JSON object per line with the command in `do` and the name of the application in `app`. stdout: one line per
command, in the same order, with `app` and `result` or `error`. LOG: a JSON object per event with the wall-clock time in
`t`; README.md lists the events.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pulsar
from pulsar.schema import AvroSchema, Integer, Record, String

Command = dict[str, Any]

TYPES = {
    "Exclusive": pulsar.ConsumerType.Exclusive,
    "Failover": pulsar.ConsumerType.Failover,
    "Shared": pulsar.ConsumerType.Shared,
    "Key_Shared": pulsar.ConsumerType.KeyShared,
}
ACCESS = {
    "Shared": pulsar.ProducerAccessMode.Shared,
    "Exclusive": pulsar.ProducerAccessMode.Exclusive,
    "WaitForExclusive": pulsar.ProducerAccessMode.WaitForExclusive,
    "ExclusiveWithFencing": pulsar.ProducerAccessMode.ExclusiveWithFencing,
}
COMPRESSIONS = {"NONE": "NONE", "LZ4": "LZ4", "ZLIB": "ZLib", "ZSTD": "ZSTD", "SNAPPY": "SNAPPY"}


class User(Record):
    """A schema."""

    name = String()


class OtherUser(Record):
    """A schema that is incompatible with User."""

    name = Integer()


SCHEMAS = {"user": User, "other": OtherUser}


def id_text(message_id: Any) -> str:
    """Return ``ledger:entry:partition:batch``."""
    return f"{message_id.ledger_id()}:{message_id.entry_id()}:{message_id.partition()}:{message_id.batch_index()}"


class Application:
    """The client's producers and consumers, and the log."""

    def __init__(self, service_url: str, log: Path, token: str) -> None:
        self._service_url, self._token = service_url, token
        self._client = self._new_client()
        self._log_file = log.open("w", buffering=1)
        self._lock = threading.Lock()
        self._producers: dict[str, pulsar.Producer] = {}
        self._consumers: dict[str, pulsar.Consumer] = {}
        self._readers: dict[str, pulsar.Reader] = {}
        self._held: dict[str, list[pulsar.Message]] = {}
        self._loops: dict[str, tuple[threading.Event, threading.Thread]] = {}

    def execute(self, command: Command) -> Any:
        """Execute one command and return its result."""
        return getattr(self, f"do_{command['do']}")(command)

    def log(self, kind: str, **fields: Any) -> None:
        """Write an event."""
        line = json.dumps({"t": time.time(), "type": kind, **fields})
        with self._lock:
            self._log_file.write(line + "\n")

    def _new_client(self) -> pulsar.Client:
        options = {"authentication": pulsar.AuthenticationToken(lambda: self._token)} if self._token else {}
        return pulsar.Client(self._service_url, operation_timeout_seconds=20, **options)

    def do_connect(self, command: Command) -> None:
        """Close the client and create another, with another token if there is one."""
        self._client.close()
        self.do_renew(command)
        self._client = self._new_client()

    def do_renew(self, command: Command) -> None:
        """Set the token for the next requests of the broker."""
        self._token = command.get("token", self._token)

    # -- producers

    def do_producer(self, command: Command) -> None:
        """Create a producer."""
        options: Command = {
            "producer_name": command["producer"],
            "batching_enabled": bool(command.get("batch")),
            "batching_max_publish_delay_ms": command.get("batch_ms", 10),
            "chunking_enabled": command.get("chunking", False),
            "compression_type": getattr(pulsar.CompressionType, COMPRESSIONS[command.get("compression", "NONE")]),
            "send_timeout_millis": command.get("send_timeout_ms", 30_000),
            "access_mode": ACCESS[command.get("access", "Shared")],
            "block_if_queue_full": True,
        }
        if command.get("batch"):
            options["batching_max_messages"] = command["batch"]
        if command.get("schema"):
            options["schema"] = AvroSchema(SCHEMAS[command["schema"]])
        if command.get("initial_sequence") is not None:
            options["initial_sequence_id"] = command["initial_sequence"]
        self._producers[command["producer"]] = self._client.create_producer(command["topic"], **options)

    def do_send(self, command: Command) -> int:
        """Send messages and wait for their receipts. Return the number of messages that the broker stored."""
        name, first, failures, stored = command["producer"], command.get("first", 0), [], []
        producer, sequences, keys = self._producers[name], command.get("sequences"), command.get("keys") or [None]
        done = threading.Semaphore(0)

        def on_sent(number: int) -> Callable[..., None]:
            def sent(result: Any, message_id: Any) -> None:
                if result == pulsar.Result.Ok:
                    stored.append(number)
                    self.log("produced", producer=name, n=number, message_id=id_text(message_id))
                else:
                    failures.append(str(result))
                    self.log("send_failed", producer=name, n=number, error=str(result))
                done.release()

            return sent

        for number in range(first, first + command["count"]):
            options = {"partition_key": keys[number % len(keys)]}
            if sequences is not None:
                options["sequence_id"] = sequences[number - first]
            payload = f"{name}:{number}:".encode().ljust(command.get("size", 20), b"x")
            self.log("sending", producer=name, n=number)
            producer.send_async(payload, on_sent(number), **{k: v for k, v in options.items() if v is not None})
            if command.get("one_by_one"):
                producer.flush()
            if command.get("interval_ms"):
                time.sleep(command["interval_ms"] / 1000)
        if command.get("async"):
            return 0
        producer.flush()
        for _ in range(command["count"]):
            if not done.acquire(timeout=20):
                raise TimeoutError("a SEND has no result after 20 s")
        if failures:
            raise RuntimeError(failures[0])
        return len(stored)

    def do_close_producer(self, command: Command) -> None:
        """Close a producer."""
        self._producers.pop(command["producer"]).close()

    # -- consumers

    def do_subscribe(self, command: Command) -> None:
        """Subscribe a consumer."""
        options: Command = {
            "consumer_type": TYPES[command["type"]],
            "consumer_name": command["consumer"],
            "receiver_queue_size": command.get("queue", 1000),
            "negative_ack_redelivery_delay_ms": command.get("nack_delay_ms", 60_000),
            "initial_position": getattr(pulsar.InitialPosition, command.get("position", "Earliest")),
            "batch_index_ack_enabled": command.get("batch_index", False),
        }
        if command.get("ack_timeout_ms"):
            options["unacked_messages_timeout_ms"] = command["ack_timeout_ms"]
        if command.get("any_order"):
            options["key_shared_policy"] = pulsar.ConsumerKeySharedPolicy(allow_out_of_order_delivery=True)
        if command.get("ranges"):
            mode = pulsar.KeySharedMode.Sticky
            ranges = [(first, last) for first, last in command["ranges"]]
            options["key_shared_policy"] = pulsar.ConsumerKeySharedPolicy(key_shared_mode=mode, sticky_ranges=ranges)
        if command.get("dead_letter"):
            deliveries, topic = command["dead_letter"]
            options["dead_letter_policy"] = pulsar.ConsumerDeadLetterPolicy(deliveries, topic, "dead")
        if command.get("schema"):
            options["schema"] = AvroSchema(SCHEMAS[command["schema"]])
        name = command["consumer"]
        topic = re.compile(command["topic"]) if command.get("pattern") else command["topic"]
        self._consumers[name] = self._client.subscribe(topic, command["subscription"], **options)
        self._held[name] = []
        self.log("subscribed", consumer=name)

    def do_receive(self, command: Command) -> int:
        """Receive messages and handle them; return their number. It ends early if none arrives for ``timeout_ms``."""
        name, count, got = command["consumer"], command["count"], 0
        while got < count:
            message = self._next(name, command.get("timeout_ms", 10_000))
            if message is None:
                break
            got += 1
            time.sleep(command.get("work_ms", 0) / 1000)
            self._handle(name, message, command.get("ack", "each"))
        if got < count and not command.get("fewer"):
            raise TimeoutError(f"{name} received {got} of {count} messages")
        return got

    def do_consume(self, command: Command) -> None:
        """Receive and handle messages in the background until `stop` or `close_consumer`."""
        name, over = command["consumer"], threading.Event()

        def run() -> None:
            while not over.is_set():
                with suppress(pulsar.PulsarException):
                    message = self._next(name, None if command.get("zero") else 200)
                    if message is not None:
                        time.sleep(command.get("work_ms", 0) / 1000)
                        self._handle(name, message, command.get("ack", "each"), command.get("nacks", ()))

        thread = threading.Thread(target=run, daemon=True)
        self._loops[name] = (over, thread)
        thread.start()

    def do_stop(self, command: Command) -> None:
        """End a background loop."""
        over, thread = self._loops.pop(command["consumer"])
        over.set()
        thread.join(timeout=5)

    def _next(self, name: str, timeout_ms: int | None) -> pulsar.Message | None:
        consumer = self._consumers[name]
        try:
            message = consumer.receive() if timeout_ms is None else consumer.receive(timeout_ms)
        except pulsar.Timeout:
            return None
        _, number, _ = message.data().split(b":", 2)
        fields = {"message_id": id_text(message.message_id()), "redelivery": message.redelivery_count()}
        producer = message.data().split(b":", 1)[0].decode()
        self.log("received", consumer=name, producer=producer, n=int(number), **fields)
        return message

    def _handle(self, name: str, message: pulsar.Message, ack: str, nacks: Iterable[int] = ()) -> None:
        number = int(message.data().split(b":", 2)[1])
        if number in nacks or ack == "nack":
            self._consumers[name].negative_acknowledge(message)
            self.log("nacked", consumer=name, n=number)
        elif ack == "each":
            self._acknowledge(name, message)
        else:
            self._held[name].append(message)

    def _acknowledge(self, name: str, message: pulsar.Message, *, cumulative: bool = False) -> None:
        consumer, number = self._consumers[name], int(message.data().split(b":", 2)[1])
        try:
            (consumer.acknowledge_cumulative if cumulative else consumer.acknowledge)(message)
            self.log("acked", consumer=name, n=number, cumulative=cumulative)
        except pulsar.PulsarException as fault:
            self.log("ack_failed", consumer=name, n=number, error=str(fault))

    def do_ack(self, command: Command) -> int:
        """Acknowledge messages that the consumer holds: the first ``count``, or all; return their number."""
        name, held = command["consumer"], self._held[command["consumer"]]
        count = command.get("count", len(held))
        chosen, held[:] = held[:count], held[count:]
        if command.get("cumulative"):
            self._acknowledge(name, chosen[-1], cumulative=True)
        else:
            for message in chosen:
                self._acknowledge(name, message)
        return len(chosen)

    def do_nack(self, command: Command) -> int:
        """Reject the first ``count`` held messages, or all."""
        name, held = command["consumer"], self._held[command["consumer"]]
        count = command.get("count", len(held))
        chosen, held[:] = held[:count], held[count:]
        for message in chosen:
            self._consumers[name].negative_acknowledge(message)
            self.log("nacked", consumer=name, n=int(message.data().split(b":", 2)[1]))
        return len(chosen)

    def do_redeliver_all(self, command: Command) -> None:
        """Request all unacknowledged messages."""
        self._consumers[command["consumer"]].redeliver_unacknowledged_messages()
        self._held[command["consumer"]].clear()
        self.log("redeliver_all", consumer=command["consumer"])

    def do_seek(self, command: Command) -> None:
        """Seek to the start or the end of the topic."""
        position = pulsar.MessageId.earliest if command["to"] == "earliest" else pulsar.MessageId.latest
        self._consumers[command["consumer"]].seek(position)
        self.log("seek", consumer=command["consumer"], to=command["to"])

    def do_unsubscribe(self, command: Command) -> None:
        """Unsubscribe a consumer."""
        self._consumers.pop(command["consumer"]).unsubscribe()
        self.log("unsubscribed", consumer=command["consumer"])

    def do_close_consumer(self, command: Command) -> None:
        """Close a consumer."""
        if command["consumer"] in self._loops:
            self.do_stop(command)
        self._consumers.pop(command["consumer"]).close()
        self.log("closed", consumer=command["consumer"])

    def do_read(self, command: Command) -> int:
        """Read messages with a reader from the start of the topic; return their number."""
        name = command["reader"]
        if name not in self._readers:
            options = {"receiver_queue_size": command.get("queue", 1000), "reader_name": name}
            options["is_read_compacted"] = command.get("compacted", False)
            self._readers[name] = self._client.create_reader(command["topic"], pulsar.MessageId.earliest, **options)
        got = 0
        while got < command["count"] and self._readers[name].has_message_available():
            self._readers[name].read_next(5_000)
            got += 1
        return got

    def do_exit(self, command: Command) -> None:
        """Acknowledge the held messages of a consumer; the process ends without closing the client."""
        self.do_ack(command)

    def do_close(self, _command: Command) -> None:
        """Close the client with its producers and consumers."""
        for over, _ in self._loops.values():
            over.set()
        with suppress(pulsar.PulsarException):
            self._client.close()


def main() -> None:
    """Execute the commands on stdin."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the library logs to stdout, which is reserved for results
    application = Application(sys.argv[1], Path(sys.argv[2]), *(sys.argv[3:] or [""]))
    for line in sys.stdin:
        command = json.loads(line)
        try:
            result = {"result": application.execute(command)}
        except Exception as fault:  # the plan decides whether a failure is expected
            application.log("failed", do=command["do"], error=f"{type(fault).__name__}: {fault}")
            result = {"error": f"{type(fault).__name__}: {fault}"}
        output.write(json.dumps({"app": command["app"], **result}) + "\n")
        output.flush()
        if command["do"] == "exit":
            return  # the client's objects are destroyed at the end of the interpreter
        if command["do"] == "close":
            break
    os._exit(0)  # the client's threads may still run


main()
