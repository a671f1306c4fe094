"""`pcli consume` with a broker in this process. The client engine sends the messages.

Tests of signals and pipes run the command in its own process.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from pcli.codec.wire.hashes import sticky_hash
from pcli.minibroker import MiniBroker
from pcli.replay.client.asyncio_client import Client, run
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ProducerSettings
from pcli.replay.service_url import ServiceUrl


@pytest.fixture
def consume(pcli: Any, broker: MiniBroker) -> Callable[..., Any]:
    """Run ``pcli consume``."""
    return lambda topic, *arguments, **more: pcli("consume", topic, "-u", broker.service_url, *arguments, **more)


@pytest.fixture
def send(broker: MiniBroker) -> Callable[..., list[str]]:
    """Send messages in separate entries; return their ids."""

    async def main(topic: str, messages: list[Any]) -> list[str]:
        ids: list[str] = []
        async with Client(ServiceUrl.parse(broker.service_url)) as client:
            producer = await client.produce(topic, ProducerSettings(batchingEnabled=False))
            for one in messages:
                message = one if isinstance(one, OutgoingMessage) else OutgoingMessage(one.encode())
                found = await client.call(lambda done, message=message: producer.send(message, done))
                ids.append(f"{found.ledger}:{found.entry}")
        return ids

    return lambda topic, *messages: run(main(topic, list(messages)))


# -- start and end -----------------------------------------------------------------------------------------------------


def test_printed_messages_are_acknowledged(consume: Any, send: Any) -> None:
    send("acked", *"abcde")
    ran = consume("acked", "-s", "s", "--from", "earliest", "-n", 3)
    assert (ran.code, ran.out) == (0, "a\nb\nc\n")
    assert ran.err.startswith("pcli: 3 messages received, 3 B in ")
    assert consume("acked", "-s", "s", "--exit-at-end").out == "d\ne\n"


def test_nothing_is_acknowledged(consume: Any, send: Any) -> None:
    send("kept", *"ab")
    for _ in range(2):
        begin = () if _ else ("--from", "earliest")
        assert consume("kept", "-s", "s", *begin, "--no-ack", "-n", 2).out == "a\nb\n"


def test_from_an_id_and_from_a_time(consume: Any, send: Any) -> None:
    ids = send("places", *"abc")
    time.sleep(0.01)
    between = int(time.time() * 1000)
    time.sleep(0.01)
    send("places", *"de")
    for arguments in (("-s", "s", "--move-cursor"), ("--reader",)):
        assert consume("places", *arguments, "--from", ids[1], "--exit-at-end").out == "b\nc\nd\ne\n"
        assert consume("places", *arguments, "--from", between, "--exit-at-end").out == "d\ne\n"


def test_a_reader_of_all_partitions(consume: Any, send: Any, broker: MiniBroker) -> None:
    broker.create_topic("parts", partitions=3)
    send("parts", *"abcdef")
    ran = consume("parts", "--reader", "--from", "earliest", "--exit-at-end", "--format", "%p%s ")
    assert sorted(ran.out.split()) == sorted(word[-1:] and word for word in ran.out.split())
    assert sorted(word[1] for word in ran.out.split()) == list("abcdef")
    assert {word[0] for word in ran.out.split()} == {"0", "1", "2"}


def test_an_empty_topic_has_its_end_too(consume: Any) -> None:
    ran = consume("empty", "-s", "s", "--exit-at-end")
    assert (ran.code, ran.out) == (0, "")


# -- output ------------------------------------------------------------------------------------------------------------


def test_formats(consume: Any, send: Any) -> None:
    [place] = send("formats", OutgoingMessage(b"pay\xffload", key="k1", properties={"a": "1", "b": "2"}))
    arguments = ("--reader", "--from", "earliest", "-n", 1)
    ran = consume("formats", *arguments, "--format", r"%i|%p|%t|%k|%K|%h|%S|%s|%%|\x41\t.\n")
    assert ran.raw == (
        f"{place}|-1|persistent://public/default/formats|k1|2|a=1,b=2|8|".encode() + b"pay\xffload|%|A\t.\n"
    )
    row = json.loads(consume("formats", *arguments, "-T", "ndjson").out)
    assert (row["payload"], row["base64"]) == ("cGF5/2xvYWQ=", True)
    assert (row["key"], row["properties"], row["message_id"]) == ("k1", {"a": "1", "b": "2"}, place)


def test_a_format_of_any_bytes(consume: Any, send: Any) -> None:
    send("bytes", "x")
    assert consume("bytes", "--reader", "--from", "earliest", "-n", 1, "--format", "\udcff%s").raw == b"\xffx"


# -- receiving ---------------------------------------------------------------------------------------------------------


def test_keys_of_a_range(consume: Any, send: Any) -> None:
    keys = [f"key-{number}" for number in range(20)]
    send("keys", *(OutgoingMessage(key.encode(), key=key) for key in keys))
    low = [key for key in keys if sticky_hash(key.encode()) < 32768]
    assert consume("keys", "--reader", "--from", "earliest", "--key-range", "0-32767", "--exit-at-end").lines == low
    arguments = (
        "-s",
        "s",
        "--subscription-type",
        "Key_Shared",
        "--from",
        "earliest",
        "--key-range",
        "0-32767",
        "-n",
        len(low),
    )
    assert consume("keys", *arguments, "-n", len(low)).lines == low


def test_refused_messages_stay(consume: Any, send: Any) -> None:
    send("refused", *"abcdef")
    assert consume(
        "refused", "-s", "s", "--subscription-type", "Shared", "--from", "earliest", "-n", 6, "--nack-every", 3
    ).lines == list("abcdef")
    assert sorted(consume("refused", "-s", "s", "--subscription-type", "Shared", "--exit-at-end").lines) == ["c", "f"]


@pytest.mark.parametrize("size", [0, 1, 10])
def test_receiver_queues(consume: Any, send: Any, size: int) -> None:
    send(f"queue-{size}", *"abcde")
    arguments = ("-s", "s", "--from", "earliest", "-n", 5, "--receiver-queue", size)
    assert consume(f"queue-{size}", *arguments).lines == list("abcde")


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_acknowledges_the_printed_messages(broker: MiniBroker, consume: Any, send: Any) -> None:
    send("stopped", *"ab")
    command = [sys.executable, "-m", "pcli.cli", "consume", "stopped", "-u", broker.service_url, "-s", "s"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, "--from", "earliest"], **pipes)
    assert process.stdout is not None
    assert process.stdout.read(4) == b"a\nb\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert err.startswith(b"pcli: 2 messages received, 2 B in ")
    assert consume("stopped", "-s", "s", "--exit-at-end").out == ""


def test_the_command_ends_when_stdout_is_closed(broker: MiniBroker, send: Any) -> None:
    send("head", *(str(number) * 1000 for number in range(200)))
    command = f"{sys.executable} -m pcli.cli consume head -u {broker.service_url} -s s --from earliest | head -c 10"
    ran = subprocess.run(command, shell=True, capture_output=True, timeout=30, check=False)
    assert ran.stdout == b"0" * 10
    assert b"Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "use either -s NAME for a subscription or --reader"),
        (("-s", "s", "--reader"), "use either -s NAME for a subscription or --reader"),
        (("--reader", "--no-ack"), "--no-ack and --nack-every require a subscription: a reader does not acknowledge"),
        (
            ("-s", "s", "--no-ack", "--nack-every", 2),
            "--no-ack and --nack-every cannot be combined",
        ),
        (("-s", "\udcff"), "'\\udcff' is not UTF-8: names, keys and properties must be text"),
        (("-s", "s", "--key-range", "1-2"), "--key-range requires --reader or --subscription-type Key_Shared"),
        (
            ("-s", "s", "--from", "whenever"),
            "--from whenever: write earliest, latest, an id such as 5:0, or",
        ),
        (("-s", "s", "--format", "%q"), "--format: unknown %q; use %s %S %k %K %i %p %t %T %h or %%"),
        (("-s", "s", "--last", 3), "--last cannot be combined with -s or --from"),
        (("-s", "s", "--move-cursor"), "--move-cursor requires -s NAME and --from"),
    ],
)
def test_contradictory_options_are_refused(consume: Any, arguments: tuple[str, ...], text: str) -> None:
    ran = consume("t", *arguments)
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith(f"pcli: {text}")


def test_a_batch_for_a_queue_of_none(produce: Any, consume: Any) -> None:
    produce("batched", "-m", "a", "-m", "b")
    ran = consume("batched", "-s", "s", "--from", "earliest", "--receiver-queue", 0)
    assert ran.code == 2
    assert "is a batch, which a receiverQueueSize of 0 cannot hold" in ran.err.splitlines()[-1]


def test_a_subscription_in_use_is_refused(broker: MiniBroker, consume: Any) -> None:
    command = [sys.executable, "-m", "pcli.cli", "consume", "busy", "-u", broker.service_url, "-s", "s"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    broker.wait_until(lambda one: "busy" in str(one.topics) and one.topic("busy").subscriptions["s"].consumers, 20)
    ran = consume("busy", "-s", "s")
    assert ran.code == 2
    assert "ConsumerBusy: Exclusive consumer is already connected" in ran.err
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)


def test_ctrl_c_while_stdout_is_blocked(broker: MiniBroker, consume: Any, send: Any) -> None:
    """Messages whose output is complete are acknowledged; all others are redelivered."""
    lines = [f"{number:05d}" * 1000 for number in range(40)]
    send("stalled", *lines)
    command = [sys.executable, "-m", "pcli.cli", "consume", "stalled", "-u", broker.service_url, "-s", "s"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, "--from", "earliest"], **pipes)
    assert process.stdout is not None
    first = process.stdout.read(5001).decode()
    process.send_signal(signal.SIGINT)
    process.wait(20)
    *whole, _half = (first + process.stdout.read().decode()).split("\n")
    assert 0 < len(whole) < 40
    process.communicate()
    assert whole + consume("stalled", "-s", "s", "--exit-at-end").lines == lines


# -- positions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", ["earliest", "latest", "5:0", "-10m"])
def test_from_is_refused_on_an_existing_subscription(consume: Any, send: Any, position: str) -> None:
    send("existing", *"ab")
    assert consume("existing", "-s", "s", "--from", "earliest", "-n", 1).out == "a\n"
    ran = consume("existing", "-s", "s", "--from", position, "--exit-at-end")
    assert (ran.code, ran.out) == (2, "")
    assert f"--from {position}: the subscription s exists and has a cursor; use --move-cursor" in ran.err
    assert consume("existing", "-s", "s", "--exit-at-end").out == "b\n"


def test_move_cursor_moves_an_existing_subscription(consume: Any, send: Any) -> None:
    send("moved", *"abc")
    assert consume("moved", "-s", "s", "--from", "earliest", "--exit-at-end").out == "a\nb\nc\n"
    again = consume("moved", "-s", "s", "--from", "earliest", "--move-cursor", "--exit-at-end")
    assert (again.code, again.out) == (0, "a\nb\nc\n")
    consume("moved", "-s", "s", "--from", "earliest", "--move-cursor", "-n", 1)
    assert consume("moved", "-s", "s", "--from", "latest", "--move-cursor", "--exit-at-end").out == ""


@pytest.mark.parametrize(("count", "out"), [(2, "d\ne\n"), (5, "a\nb\nc\nd\ne\n"), (9, "a\nb\nc\nd\ne\n")])
def test_the_last_messages(consume: Any, send: Any, count: int, out: str) -> None:
    send("ends", *"abcde")
    ran = consume("ends", "--last", count, "--exit-at-end")
    assert (ran.code, ran.out) == (0, out)


def test_the_last_messages_of_batches_and_partitions(consume: Any, produce: Any, broker: MiniBroker) -> None:
    assert produce("batched", "--size", 3, "-n", 50).code == 0
    assert consume("batched", "--last", 3, "--exit-at-end").lines == ["047", "048", "049"]
    broker.create_topic("divided", partitions=2)
    assert produce("divided", "--size", 3, "-n", 10).code == 0
    assert len(consume("divided", "--last", 4, "--exit-at-end").lines) == 4


def test_the_last_messages_of_an_empty_topic(consume: Any) -> None:
    ran = consume("nothing-yet", "--last", 3, "--exit-at-end")
    assert (ran.code, ran.out) == (0, "")


def test_ndjson_is_one_object_per_message_and_json_an_array_of_them(consume: Any, send: Any) -> None:
    send("rows", *"ab")
    array, lines = (consume("rows", "--last", 2, "--exit-at-end", "-T", form) for form in ("json", "ndjson"))
    rows = [json.loads(line) for line in lines.lines]
    assert [row["payload"] for row in rows] == ["a", "b"]
    assert json.loads(array.out) == rows
    assert json.loads(consume("rows", "--reader", "--exit-at-end", "-T", "json").out) == []
