"""`pcli produce` with a broker in this process. The client engine reads the messages.

Tests of signals and pipes run the command in its own process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from pcli.cli.client.message_format import json_writer
from pcli.codec.wire.hashes import sticky_hash
from pcli.minibroker import MiniBroker
from pcli.replay.client.asyncio_client import Client, run
from pcli.replay.client.message_ids import EARLIEST
from pcli.replay.client.settings import ReaderSettings
from pcli.replay.service_url import ServiceUrl


@pytest.fixture
def produce(pcli: Any, broker: MiniBroker) -> Callable[..., Any]:
    """Run ``pcli produce``."""
    return lambda topic, *arguments, **more: pcli("produce", topic, "-u", broker.service_url, *arguments, **more)


@pytest.fixture
def read(broker: MiniBroker) -> Callable[..., list[Any]]:
    """Return all messages of a topic."""

    async def rows(topic: str) -> list[Any]:
        found: list[Any] = []
        async with Client(ServiceUrl.parse(broker.service_url)) as client:
            reader = await client.read(ReaderSettings(topicName=topic, startMessageId=EARLIEST))
            while await client.call(reader.has_message_available):
                with client.turn():
                    while (message := reader.read_next()) is not None:
                        found.append(json.loads(json_writer(message)))
                await asyncio.sleep(0.01)
        return found

    return lambda topic: run(rows(topic))


def _payloads(rows: list[Any]) -> list[str]:
    return [row["payload"] for row in rows]


# -- sources of messages -----------------------------------------------------------------------------------------------


def test_lines_of_stdin(produce: Any, read: Any) -> None:
    lines = [f"line {number}" for number in range(2500)]
    ran = produce("stdin", stdin="\n".join(lines).encode())
    assert ran.code == 0
    assert ran.out == ""
    assert ran.err.startswith("pcli: 2,500 messages sent in ")
    assert _payloads(read("stdin")) == lines


def test_num_produce_limits_the_lines_of_a_file(produce: Any, read: Any, tmp_path: Any) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n\xff\xfe\nthree\nfour\n")
    assert produce("file", "--file", path, "-n", 3).code == 0
    rows = read("file")
    assert _payloads(rows) == ["one", "//4=", "three"]
    assert [row.get("base64", False) for row in rows] == [False, True, False]


def test_messages_of_the_command_line_are_repeated(produce: Any, read: Any) -> None:
    assert produce("texts", "-m", "a", "-m", "b", "-n", 5, "-k", "key", "-p", "x=1", "-p", "y=2").code == 0
    rows = read("texts")
    assert _payloads(rows) == ["a", "b", "a", "b", "a"]
    assert all((row["key"], row["properties"]) == ("key", {"x": "1", "y": "2"}) for row in rows)


def test_numbered_messages_at_a_rate(produce: Any, read: Any) -> None:
    began = time.monotonic()
    assert produce("sized", "--size", 8, "-n", 20, "--rate", 100).code == 0
    assert time.monotonic() - began > 19 / 100
    assert _payloads(read("sized")) == [f"{number:08d}" for number in range(20)]


# -- sending -----------------------------------------------------------------------------------------------------------


def test_the_batch_limits_apply(produce: Any, read: Any) -> None:
    assert produce("batched", "--size", 4, "-n", 10, "--batch", "4,,50").code == 0
    entries = [row["message_id"].rpartition(":")[0] for row in read("batched")]
    assert [entries.count(one) for one in dict.fromkeys(entries)] == [4, 4, 2]


def test_no_batches(produce: Any, read: Any) -> None:
    assert produce("alone", "--size", 4, "-n", 3, "--batch", "0").code == 0
    assert len({row["message_id"] for row in read("alone")}) == 3
    assert all(row["message_id"].count(":") == 1 for row in read("alone"))


@pytest.mark.parametrize("compression", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_compression(produce: Any, read: Any, compression: str) -> None:
    assert produce(compression, "--size", 4000, "-n", 10, "--compression", compression).code == 0
    assert _payloads(read(compression)) == [f"{number:04000d}" for number in range(10)]


def test_keys_of_a_range(produce: Any, read: Any) -> None:
    assert produce("keyed", "--size", 4, "-n", 100, "--key-range", "0-9999", "--key-range", "60000-65535").code == 0
    keys = {row["key"] for row in read("keyed")}
    assert len(keys) > 10
    slots = [sticky_hash(key.encode()) for key in keys]
    assert all(slot <= 9999 or slot >= 60000 for slot in slots)


def test_sequence_ids(produce: Any, read: Any) -> None:
    assert produce("numbered", "-m", "x", "-n", 3, "--sequence-id", 41, "--producer-name", "p1").code == 0
    assert [(row["sequence_id"], row["producer_name"]) for row in read("numbered")] == [
        (41, "p1"), (42, "p1"), (43, "p1"),
    ]  # fmt: skip


def test_partitions(produce: Any, read: Any, broker: MiniBroker) -> None:
    broker.create_topic("parts", partitions=3)
    assert produce("parts", "--size", 4, "-n", 30, "--batch", "0").code == 0
    rows = read("parts")
    assert sorted(_payloads(rows)) == [f"{number:04d}" for number in range(30)]
    assert len({row["topic"] for row in rows}) == 3


# -- the end -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_waits_for_receipts_and_prints_their_number(broker: MiniBroker, read: Any) -> None:
    command = [sys.executable, "-m", "pcli.cli", "produce", "stopped", "-u", broker.service_url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\nhalf a li")
    process.stdin.flush()
    while len(read("stopped")) < 2:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    _, err = process.communicate()
    assert err.startswith(b"pcli: 2 messages sent in ")
    assert _payloads(read("stopped")) == ["one", "two"]


def test_a_refused_message_ends_it_though_more_may_come(broker: MiniBroker, read: Any) -> None:
    command = [sys.executable, "-m", "pcli.cli", "produce", "refused", "-u", broker.service_url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"fine\n" + b"x" * 6_000_000 + b"\n")
    process.stdin.flush()
    assert process.wait(20) == 2
    assert process.stderr is not None
    assert "message 2: 6000030 bytes exceed the broker's maximum of 5242880" in process.stderr.read().decode()
    process.communicate()
    assert _payloads(read("refused")) == ["fine"]


def test_ctrl_c_in_full_speed(broker: MiniBroker, read: Any) -> None:
    command = [sys.executable, "-m", "pcli.cli", "produce", "endless", "-u", broker.service_url, "--size", "100"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    broker.wait_until(lambda one: one.topic("endless").payloads, 60)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    sent = int(err.decode().split()[1].replace(",", ""))
    assert _payloads(read("endless")) == [f"{number:0100d}" for number in range(sent)]


def test_an_unreachable_broker_is_reported(pcli: Any) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    ran = pcli("produce", "t", "-u", f"pulsar://127.0.0.1:{port}", "-m", "x")
    assert ran.code == 2
    assert ran.err == f"pcli: 127.0.0.1:{port}: connection refused\n"


def test_a_message_above_the_limit_is_reported(produce: Any, broker: MiniBroker) -> None:
    ran = produce("large", "--size", 6_000_000, "-n", 1)
    assert ran.code == 2
    assert "pcli: 0 messages sent" in ran.err
    assert ran.err.splitlines()[-1].endswith("exceed the broker's maximum of 5242880")


def test_a_line_above_the_limit_is_refused(produce: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("pcli.cli.client.async_streams._LONGEST", 1 << 20)
    lines = [b"x" * 400_000] * 6
    assert produce("long", stdin=b"\n".join(lines)).code == 0
    ran = produce("long", stdin=b"x\n" + b"".join(lines))
    assert ran.code == 2
    assert ran.err.splitlines()[-1] == "pcli: a line has more than 1 MB, more than any broker accepts"


def test_a_topic_that_ends_while_it_is_written_to(broker: MiniBroker, produce: Any) -> None:
    assert produce("ending", "-m", "x").code == 0
    url = f"{broker.http_url}/admin/v2/persistent/public/default/ending/terminate"
    urllib.request.urlopen(urllib.request.Request(url, method="POST")).close()
    ran = produce("ending", "-m", "y")
    assert ran.code == 2
    assert "TopicTerminatedError" in ran.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-m", "x", "--size", "3"), "use only one of --file, -m and --size"),
        (("--file", "/nowhere/at/all"), "/nowhere/at/all: no such file or directory"),
        (("--file", os.sep), "/: is a directory"),
        (("-m", "x", "-p", "novalue"), "-p novalue: write key=value"),
        (("-m", "x", "-k", "\udcff"), "message 1: the metadata cannot be encoded: '\\udcff' is not UTF-8"),
        (("-m", "x", "--producer-name", "\udcff"), "'\\udcff' is not UTF-8: names, keys and properties must be text"),
        (("-m", "x", "--batch", "many"), "--batch many: write N,BYTES,MS, for example 1000,131072,1"),
        (
            ("-m", "x", "--key-range", "5-4"),
            "--key-range 5-4: write two slots between 0 and 65535",
        ),
        (("-m", "x", "-k", "a", "--key-range", "1-4"), "use only one of -k, -K, --key-range and --json"),
        (("-m", "x", "--token", "file:/nowhere"), "--token file:/nowhere: no such file or directory"),
    ],
)
def test_contradictory_options_are_refused(produce: Any, arguments: tuple[str, ...], text: str) -> None:
    ran = produce("t", *arguments)
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith(f"pcli: {text}")


def test_a_wrong_url(pcli: Any) -> None:
    ran = pcli("produce", "t", "-u", "kafka://x", "-m", "x")
    assert ran.code == 2
    assert ran.err.startswith("pcli: 'kafka://x' is not a service URL")


# -- keys and properties per line --------------------------------------------------------------------------------


def test_a_key_on_each_line(produce: Any, consume: Any) -> None:
    assert produce("keyed", "-K", ":", stdin=b"k1:a:b\nk2:\nno key\n").code == 0
    ran = consume("keyed", "--last", 3, "--exit-at-end", "--format", "%k|%s\\n")
    assert ran.lines == ["k1|a:b", "k2|", "|no key"]


def test_json_lines(produce: Any, consume: Any) -> None:
    rows = [
        {"payload": "a", "key": "k", "properties": {"p": "1"}, "event_time": 7},
        {"payload": "/w==", "base64": True},
        {"payload": {"x": 1}},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    assert produce("rows", "--json", "-p", "all=yes", stdin=lines).code == 0
    ran = consume("rows", "--last", 3, "--exit-at-end", "-T", "ndjson")
    found = [json.loads(line) for line in ran.lines]
    assert (found[0]["key"], found[0]["event_time"]) == ("k", 7)
    assert found[0]["properties"] == {"all": "yes", "p": "1"}
    assert [row["payload"] for row in found] == ["a", "/w==", '{"x": 1}']
    assert produce("copies", "--json", stdin=ran.raw).code == 0
    copies = [json.loads(line) for line in consume("copies", "--last", 3, "--exit-at-end", "-T", "ndjson").lines]
    for name in ("payload", "key", "properties", "base64"):
        assert [row.get(name) for row in copies] == [row.get(name) for row in found]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"no json", "line 2: not a JSON object"),
        (b"[1]", "line 2: not a JSON object"),
        (b'{"key": 1}', "line 2: the key must be a string"),
        (b'{"properties": {"a": 1}}', "line 2: properties must be an object of strings"),
        (b'{"payload": "!", "base64": true}', "line 2: the payload is not base64"),
    ],
)
def test_a_malformed_json_line_is_named(produce: Any, line: bytes, text: str) -> None:
    ran = produce("wrong", "--json", stdin=b'{"payload": "a"}\n' + line + b"\n")
    assert ran.code == 2
    assert ran.err.splitlines()[-1] == f"pcli: {text}"
