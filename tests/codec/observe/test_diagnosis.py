"""The diagnosis engine: which records it evaluates, when, and the order of findings."""

from __future__ import annotations

import gc
from collections import deque
from types import FunctionType, ModuleType
from typing import Any

import pytest

from pcli.codec.capture.frames import Note, StreamEnd
from pcli.codec.observe import Observer
from pcli.codec.observe.diagnosis import Diagnosis, checked_counts_text
from pcli.codec.observe.tracking import transactions
from pcli.codec.observe.tracking.connections import connection_table, repeated_connections
from pcli.codec.observe.tracking.producers import producer_registry
from pcli.codec.observe.tracking.scalable import scalable_topic_tracker
from pcli.codec.observe.tracking.subscriptions import consumer_sessions
from pcli.codec.proto import pb

SYSTEM = "persistent://public/default/__change_events"


@pytest.fixture
def idle(make_scene):
    """A consumer with a backlog that sends no FLOW for five seconds."""

    def play(topic: str = "persistent://public/default/t", consumers: int = 1) -> Any:
        scene = make_scene()
        client = scene.actor()
        client.producer(topic)
        for number in range(consumers):
            client.subscribe(topic, consumer_id=number, kind="Shared")
        client.publish(0)
        scene.wait(5000)
        client(pb.CommandPing())  # advances the capture's time
        return scene

    return play


def test_a_finding_with_its_evidence(diagnose, idle):
    scene = idle()
    diagnosis = diagnose(scene)
    [found] = diagnosis.findings()
    assert (found.rule, found.variant) == ("stuck-no-permits", "never-asked")
    [number] = found.frames
    assert scene.frames[number - 1].command.type == pb.BaseCommand.SUCCESS


def test_checked_counts(diagnose, idle):
    counts = diagnose(idle(consumers=2)).checked_counts()
    assert (counts["connections"], counts["producers"], counts["consumers"]) == (1, 1, 2)
    assert (counts["subscriptions"], counts["topics"], counts["messages"]) == (1, 1, 1)
    text = checked_counts_text(counts)
    assert "1 connection, 1 producer, 2 consumers" in text
    assert text.endswith(f", {counts['rules']} rules checked")


def test_only_the_given_rules(diagnose, idle):
    assert diagnose(idle(), only=["never-acked"]).findings() == []
    diagnosis = diagnose(idle(), only=["never-acked", "stuck-no-permits"])
    assert len(diagnosis.findings()) == 1
    assert diagnosis.checked_counts()["rules"] == 2


def test_the_brokers_own_traffic_is_not_evaluated(diagnose, idle):
    assert diagnose(idle(SYSTEM)).findings() == []


def test_findings_are_ordered_by_severity(diagnose, make_scene):
    scene = make_scene()
    client = scene.actor()
    client.producer()
    client.subscribe(kind="Exclusive")
    client.subscribe(consumer_id=2, kind="Shared")  # refused
    client.subscribe(consumer_id=3, kind="Shared", subscription="other")
    client.flow(consumer_id=3)
    client.publish(0)
    scene.wait(5000)
    client(pb.CommandPing())
    found = diagnose(scene).findings()
    assert [(one.rule, one.severity, one.certainty) for one in found] == [
        ("subscribe-refused", "error", "certain"),
        ("stuck-no-permits", "error", "likely"),  # began earlier, but is less certain
        ("never-acked", "warning", "likely"),
    ]


def test_poll_returns_each_finding_once(idle):
    scene, diagnosis, observer = idle(), Diagnosis(), Observer()
    *frames, _, _ = scene.frames  # without PING and PONG
    for frame in frames:
        diagnosis.see(observer.see(frame))
    last = frames[-1].time_ns
    assert diagnosis.poll(last) == []  # it has waited for less than a second
    [found] = diagnosis.poll(last + 2_000_000_000)
    assert found.rule == "stuck-no-permits"
    assert diagnosis.poll(last + 9_000_000_000) == []
    diagnosis.finish()
    assert diagnosis.poll(last + 9_000_000_000) == []


def test_poll_returns_a_finding_again_when_its_severity_rises(conversation):
    """A LOOKUP without a response is a warning, and an error when clients stop waiting."""
    diagnosis, second = Diagnosis(["answers-missing"]), 1_000_000_000
    diagnosis.see(conversation.client(pb.CommandLookupTopic(topic="t", request_id=1)))
    diagnosis.see(conversation.client(pb.CommandPing()))
    found = [one.severity for after in range(60) for one in diagnosis.poll(after * second)]
    assert found == ["warning", "error"]
    conversation.now = 60 * second
    diagnosis.see(conversation.client(pb.CommandPing()))
    diagnosis.finish()
    assert [one.severity for one in diagnosis.findings()] == ["error"]
    assert diagnosis.unreported() == []


def test_poll_detects_missing_frames(make_scene):
    scene = make_scene(maxUnackedMessagesPerConsumer=3)
    client = scene.actor()
    client.producer()
    client.subscribe(kind="Shared")
    client.flow(100)
    for number in range(6):
        client.publish(number)
    diagnosis, observer = Diagnosis(["stuck-unacked-limit"]), Observer()
    for frame in scene.frames:
        diagnosis.see(observer.see(frame))
    last = scene.frames[-1].time_ns
    assert diagnosis.poll(last) == []
    [found] = diagnosis.poll(last + 10_000_000_000)
    assert "held 3 unacknowledged messages when the broker stopped" in found.what
    assert "had requested 97 more" in found.what


def test_too_many_findings_are_counted(diagnose, idle, monkeypatch):
    monkeypatch.setattr("pcli.codec.observe.diagnosis.MAX_FINDINGS", 3)
    diagnosis = diagnose(idle(consumers=5))
    assert (len(diagnosis.findings()), diagnosis.dropped) == (3, 2)


def test_tables_of_many_connections_are_bounded(conversation, monkeypatch):
    """Nothing grows with the number of connections, even if doubts about an ended connection follow."""
    for module in (connection_table, consumer_sessions, producer_registry, scalable_topic_tracker, transactions):
        monkeypatch.setattr(module, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr("pcli.codec.observe.diagnosis._MAX_SERVERS", 10)
    monkeypatch.setattr(repeated_connections, "_MAX_CONNECTIONS", 10)
    monkeypatch.setattr("pcli.codec.observe.tracking.subscriptions.subscription_tracker._MAX_OPEN_PRODUCERS", 10)
    diagnosis = Diagnosis()
    for stream in range(150):
        diagnosis.see(conversation.client(pb.CommandConnect(client_version="c"), stream=stream))
        diagnosis.see(conversation.broker(pb.CommandConnected(server_version="b"), stream=stream))
        for body in (
            pb.CommandProducer(
                topic="t", producer_id=1, request_id=1, producer_name="p", initial_subscription_name="s"
            ),
            pb.CommandSubscribe(
                topic="t", subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=2,
                consumer_name="c",
            ),
        ):  # fmt: skip
            diagnosis.see(conversation.client(body, stream=stream))
        place = conversation.streams[stream]
        diagnosis.ended(
            StreamEnd(place, 1, conversation.now, from_client=True, reset=False, refused=False, silent=False)
        )
        diagnosis.note(Note("gap", "", 1, place, from_client=False, offset=0, length=1))
    diagnosis.finish()
    assert [list(one)[:3] for one in tables(diagnosis) if len(one) > 100] == []


def tables(start: object) -> list[Any]:
    """The tables that an object contains, directly or indirectly."""
    seen: dict[int, object] = {}
    left = [start]
    while left:
        one = left.pop()
        if id(one) not in seen and not isinstance(one, (type, FunctionType, ModuleType, str)):
            seen[id(one)] = one
            left += gc.get_referents(one)
    return [one for one in seen.values() if isinstance(one, (dict, set, list, deque))]
