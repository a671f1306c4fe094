"""Statistics in recorded states (states.jsonl) equal those of a real 4.2.4, except ids, times, rates and addresses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.minibroker.admin.stage import Stage

STATES = [json.loads(line) for line in Path(__file__).with_name("states.jsonl").read_text().splitlines()]

MASKED = (
    "address",
    "connectedSince",
    "averageMsgSize",
    "lastAckedTime",
    "lastConsumedTime",
    "clientVersion",
    "blockedAttempts",
    "lastCompactionDurationTimeInMills",
    "CompactedTopicLedger",
    "cursorLedger",
    "cursorLedgerLastEntry",
    "nonContiguousDeletedMessagesRangesSerializedSize",
)
"""Values that depend on the time or on the client, and ids of ledgers that this broker does not have."""
RATES = ("Rate", "Throughput")
TIMES = ("Timestamp", "TimeStamp", "AgeSeconds")
POSITION = re.compile(r"-?\d+:(-?\d+)")


class WorldStage(Stage):
    """A broker without sockets."""

    def __init__(self, world, rest):
        super().__init__()
        self._world, self._rest, self._clients = world, rest, {}

    def send(self, client, command, entry=b""):
        if client not in self._clients:
            self._clients[client] = self._world.client(client_version="stage")
        found = self._clients[client](command, entry=entry)
        self._world.wait(100)
        return found

    def rest(self, method, path, body=None):
        answer = self._rest(method, path, body)
        text = answer.headers.get("content-type", "").startswith("text/")
        return answer.data.decode() if text else answer.json

    def wait(self, milliseconds):
        self._world.wait(milliseconds)


def comparable(value, key=""):
    """Return statistics without the values that differ between runs; positions are entry ids."""
    if key in MASKED or any(part in key for part in RATES):
        return "masked"
    if any(part in key for part in TIMES):
        return value > 0 if isinstance(value, int) else type(value).__name__
    if key == "schemaLedgers":
        return len(value)
    if isinstance(value, dict):
        return {name: comparable(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if key == "ledgerId":
        return value >= 0
    return POSITION.sub(r"L:\1", value).removesuffix(" (ackSet is null)") if isinstance(value, str) else value


def differences(ours, real, path=""):
    """Yield the path, our value and the real value of each difference."""
    if isinstance(ours, dict) and isinstance(real, dict):
        for key in ours.keys() | real.keys():
            yield from differences(ours.get(key, "(missing)"), real.get(key, "(missing)"), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        for place, (one, other) in enumerate(zip(ours, real, strict=True)):
            yield from differences(one, other, f"{path}[{place}]")
    elif ours != real:
        yield path, ours, real


@pytest.mark.parametrize("state", STATES, ids=[one["state"] for one in STATES])
def test_statistics_equal_a_real_brokers(make_rest, state):
    world, rest = make_rest(transactionCoordinatorEnabled=True)
    world.wait(3_600_000)  # the messages are old
    stage, found = WorldStage(world, rest), []
    for row in state["steps"]:
        operation, *arguments = row["step"]
        options = arguments.pop() if operation != "rest" and isinstance(arguments[-1], dict) else {}
        answer = stage.run(operation, *arguments, **options)
        if operation == "read":
            found += [(row["step"][1], *one) for one in differences(comparable(answer), comparable(row["answer"]))]
    assert found == []


def test_the_stored_size_of_acknowledged_ranges(world, rest):
    """The sizes of a real 4.2.4: bits in words of 64 entries, in each ledger."""
    stage, topic = WorldStage(world, rest), "persistent://public/default/t"
    stage.do_producer("c", 1, topic, producer_name="p")
    stage.do_subscribe("c", 1, topic, "Shared", "sub", consumer_name="n")
    stage.do_flow("c", 1, 100)
    for _ in range(10):
        stage.do_publish("c", 1)
    sizes = []
    for numbers in ([1, 3], [9], [0, 2]):
        stage.do_ack("c", 1, topic, numbers)
        stats = rest("GET", "/admin/v2/persistent/public/default/t/stats").json["subscriptions"]["sub"]
        sizes.append(stats["nonContiguousDeletedMessagesRangesSerializedSize"])
    assert sizes == [6, 7, 7]
