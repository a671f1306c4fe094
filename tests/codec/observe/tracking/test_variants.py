"""Incomplete captures of the same traffic: findings are withdrawn or less certain, and no new ones appear."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.capture import ReadOptions, read_capture
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.rules import Finding
from pcli.codec.observe.tracking.tracker import process_events
from pcli.codec.proto import pb

TROUBLED = [
    "python/10-shared-redelivery", "python/23-dedup", "python/24-stuck-unacked", "python/25-no-flow",
    "java/ack-timeout", "java/auth-token", "java/dead-letter", "java/dedup", "java/key-shared-out-of-order",
    "java/killed-consumer", "java/paused-consumer", "java/refusals", "java/seek", "go/nack",
    "flex/04-reconnect",
]  # fmt: skip


def diagnose(data: bytes) -> list[Finding]:
    diagnosis = Diagnosis()
    process_events(read_capture([("", io.BytesIO(data))], ReadOptions(ends=True)), diagnosis)
    return diagnosis.findings()


def same(found: Finding, known: Finding) -> bool:
    """Whether two findings have the same rule and subject, as far as both contain its names.

    The number of a connection in a partial capture differs, because connections are numbered by their first packets.
    """
    mine, others = ({name: value for name, value in one.subject.items() if name != "stream"} for one in (found, known))
    agree = all(mine[name] == others[name] or unnamed(mine[name]) for name in mine.keys() & others.keys())
    return found.rule == known.rule and agree


def unnamed(value: Any) -> bool:
    """Whether a name is not in the capture and is replaced by ``consumer #2 of stream 1``."""
    return value is None or value == "" or "#" in str(value)


def wrong(found: Finding, whole: list[Finding]) -> str:
    """Return what is wrong with a finding on a part of the capture that gave these; empty if nothing."""
    if found.certainty != "certain" or found.culprit == "capture":
        return ""
    known = [one for one in whole if same(found, one)]
    if not known:
        return "made up"
    return "" if any(one.culprit == found.culprit for one in known) else "another culprit"


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", TROUBLED)
def test_incomplete_captures_give_no_new_findings(corpus: Any, variants: Any, name: str, seed: int) -> None:
    data = corpus.data(name)
    whole = diagnose(data)
    assert whole
    for what, less in variants(data, seed).items():
        for found in diagnose(less):
            assert not wrong(found, whole), (what, found)


FAULTS = [
    "drop after=1 times=1 on pulsar.type == 'FLOW'",
    "drop times=1 on pulsar.type == 'ACK'",
    "duplicate times=2 on pulsar.type == 'MESSAGE'",
    "drop times=1 on pulsar.type == 'SEND_RECEIPT'",
    "corrupt times=1 on pulsar.type == 'MESSAGE'",
    "close after=8 times=1 on pulsar.type == 'MESSAGE'",
]


@pytest.mark.parametrize("fault", FAULTS)
def test_lost_packets_give_no_new_findings(make_scene: Any, variants: Any, tmp_path: Path, fault: str) -> None:
    play = make_scene()
    play.fault(fault)
    source, sinks = play.actor(), [play.actor(), play.actor()]
    source.producer()
    for number, sink in enumerate(sinks):
        sink.subscribe(consumer_id=number, kind="Shared", initialPosition=pb.CommandSubscribe.Earliest)
        sink.flow(5, consumer_id=number)
    for number in range(20):
        source.publish(number)
        sink = sinks[number % 2]
        if sink.messages and not sink.closed:
            sink.ack(sink.messages[-1].message_id, consumer_id=number % 2)
            sink.flow(1, consumer_id=number % 2)
        play.wait(700)
    data = play.write(tmp_path / "scene.pcapng").read_bytes()
    whole = diagnose(data)
    for seed in range(5):
        for what, less in variants(data, seed).items():
            for found in diagnose(less):
                assert not wrong(found, whole), (what, seed, found)
