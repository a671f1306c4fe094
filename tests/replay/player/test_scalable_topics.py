"""Replays of scalable topics: layouts, assignments, changes of the layout, and other ids of segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pcli.cli.replay.in_memory_broker import InMemoryBroker
from pcli.codec.capture import Packet, PcapngWriter, read_packets
from pcli.minibroker import MiniBroker
from pcli.replay.client.asyncio_client import Client, run
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ConsumerSettings, ProducerSettings
from pcli.replay.player.player import Pace
from pcli.replay.player.replay import Replay
from pcli.replay.player.script.script import RestCall
from pcli.replay.service_url import ServiceUrl

TOPIC = "topic://public/default/orders"
PATH = "scalable/public/default/orders"


def unexplained(report: Any) -> set[tuple[str, str]]:
    return {(one["command"], one["field"]) for one in report.differences if not one["rule"]}


def calls_of(replay: Replay) -> list[str]:
    """The REST calls about scalable topics, in order."""
    found = replay.preparation
    calls = [*replay.calls, *(call for step in sorted({**found.before, **found.instead}) for call in of(found, step))]
    return [f"{call.method} {call.path}" for call in calls if call.path.startswith("s")]


def of(found: Any, step: int) -> list[RestCall]:
    return [*found.before.get(step, ()), *found.instead.get(step, ())]


# -- captures of the Java client -------------------------------------------------------------------------------------


def test_a_split_is_repeated(small_captures, script, play):
    path = small_captures / "java5" / "split.pcap"
    replay = Replay(script(path))
    assert calls_of(replay) == [f"PUT {PATH}?numInitialSegments=2", f"POST {PATH}/split/0"]
    assert replay.preparation.version == "5.0.1"
    report = play(path)
    assert unexplained(report) == set()
    assert report.equal["MESSAGE"] == 84
    assert report.equal["SCALABLE_TOPIC_ASSIGNMENT_UPDATE"] == 2


def test_without_rest_the_layout_is_not_reached(small_captures, play):
    report = play(small_captures / "java5" / "split.pcap", administered=False)
    assert not report.good
    assert report.not_played["requests for scalable topics, which require --admin"] == 2


def test_captures_of_v5_clients_are_explained(captures_5, play):
    names = sorted(path.name for path in captures_5.glob("*.pcap"))
    for name in names:
        report = play(captures_5 / name)
        assert unexplained(report) == set(), name
        assert report.not_played.keys() <= {
            "connections that began before the capture",
            "connections of the broker's internal client",
        }, name
    assert len(names) >= 10


def test_operations_of_v5_captures_are_inferred(captures_5, script):
    """The truth files name the same requests."""
    found = {name: calls_of(Replay(script(captures_5 / f"{name}.pcap"))) for name in ("migrate", "namespace-consumers")}
    default, namespace = "scalable/public/default", "scalable/public/nsw"
    assert found["migrate"] == [
        f"PUT {default}/p1?numInitialSegments=1",
        f"POST {default}/old/migrate?force=true",
        f"POST {default}/old1/migrate?force=true",
    ]
    assert found["namespace-consumers"] == [
        f"PUT {namespace}/two?numInitialSegments=1",
        f"PUT {namespace}/one?numInitialSegments=1",
        f"PUT {namespace}/three?numInitialSegments=1",
        f"DELETE {namespace}/two",
    ]


@pytest.fixture
def cut(captures_5, tmp_path):
    """Return the first packets of a capture."""

    def first(name: str, packets: int) -> Path:
        with (captures_5 / name).open("rb") as file:
            found = [item for item in read_packets([(name, file)]) if isinstance(item, Packet)]
        path: Path = tmp_path / "cut.pcapng"
        with path.open("wb") as file:
            writer = PcapngWriter(file)
            for packet in found[:packets]:
                writer.packet(packet)
        return path

    return first


@pytest.mark.parametrize(
    ("name", "packets"), [("namespace-consumers.pcap", 72), ("namespace-consumers.pcap", 96), ("migrate.pcap", 75)]
)
def test_effects_of_a_change_after_the_end_of_a_capture_are_explained(cut, play, name, packets):
    report = play(cut(name, packets))
    assert unexplained(report) == set()
    assert report.rules["end of capture"] > 0


def test_effects_before_the_end_of_a_capture_are_not_explained(cut, play, faults):
    fault = faults.twice("WATCH_SCALABLE_TOPICS_UPDATE")
    found = unexplained(play(cut("namespace-consumers.pcap", 72), fault=fault))
    assert found == {("WATCH_SCALABLE_TOPICS_UPDATE", "extra")}


# -- a capture of pcli's own client ----------------------------------------------------------------------------------


def backlog(broker: MiniBroker, subscription: str) -> int:
    topics = map(broker.topic, (name for name in broker.topics if name.startswith("segment://")))
    return sum(one.subscriptions[subscription].backlog for one in topics if subscription in one.subscriptions)


async def converse(broker: MiniBroker) -> None:
    """Send and receive messages before and after a split and a merge."""
    topic = broker.scalable(TOPIC, segments=1)
    broker.clock.advance(1)  # the topic is older than its first lookup
    async with Client(ServiceUrl.parse(broker.service_url)) as client:
        consumers = [
            await client.subscribe(
                ConsumerSettings(
                    topicNames=(TOPIC,),
                    subscriptionName=kind,
                    consumerName=kind,
                    scalableType=kind,  # type: ignore[arg-type]
                    subscriptionInitialPosition="Earliest",
                    acknowledgementsGroupTimeMicros=0,
                )
            )
            for kind in ("stream", "queue")
        ]
        producer = await client.produce(TOPIC, ProducerSettings())
        for change in (lambda: topic.split(0), lambda: topic.merge(1, 2), lambda: topic.rebucket(3, 2)):
            for number in range(8):
                message = OutgoingMessage(b"%d" % number, key=f"k{number}")
                await client.call(lambda done, message=message: producer.send(message, done))
            for consumer in consumers:
                for _ in range(8):
                    received = await client.receive(consumer)
                    with client.turn():
                        consumer.acknowledge(received.id)
            await broker.await_until(lambda one: all(backlog(one, name) == 0 for name in ("stream", "queue")))
            change()
            broker.clock.advance(5)  # the stream consumer gets the new segments when it has read the old ones


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "orders.pcapng"
    with MiniBroker(version="5.0.1", clock="manual", capture=path) as broker:
        run(converse(broker))
    return path


def test_changes_of_a_layout_are_repeated(recorded, script, play):
    assert calls_of(Replay(script(recorded))) == [
        f"PUT {PATH}?numInitialSegments=1",
        f"POST {PATH}/split/0",
        f"POST {PATH}/merge/1/2",
        f"POST {PATH}/rebucket/3?bucketCount=2",
    ]
    report = play(recorded)
    assert unexplained(report) == set()
    assert report.equal["MESSAGE"] == 48


def test_ids_of_segments_are_translated(recorded, script):
    """The live topic has had other segments, which the broker has removed."""
    replay = Replay(script(recorded))
    broker = InMemoryBroker(replay.preparation.settings, replay.start_ms - 300_000, version=replay.preparation.version)
    for segment, count in ((0, 8), (1, 4)):
        broker.call(RestCall("PUT", PATH))
        assert broker.call(RestCall("POST", f"{PATH}/rebucket/{segment}?bucketCount={count}")) == 204
    broker.now = replay.start_ms
    broker.broker.advance(broker.now)
    assert list(broker.broker.scalable_topics.topics[TOPIC].layout.segments) == [2]
    player = replay.player(replay.start_ms, Pace(speed=1), administered=True)
    broker.play(player, lambda _: None)
    report = replay.report(player, own_broker=True, administered=True)
    assert unexplained(report) == set()
    assert report.equal["MESSAGE"] == 48
    assert "segment://public/default/orders/0000-7fff-3" in broker.broker.topics


def test_topics_can_be_renamed(recorded, script):
    import re

    replay = Replay(script(recorded), topics=[(re.compile("/orders"), "/others")])
    broker = InMemoryBroker(replay.preparation.settings, replay.start_ms, version=replay.preparation.version)
    for call in replay.calls:
        broker.call(call)
    player = replay.player(replay.start_ms, Pace(speed=1), administered=True)
    broker.play(player, lambda _: None)
    assert unexplained(replay.report(player, own_broker=True, administered=True)) == set()
    assert list(broker.broker.scalable_topics.topics) == ["topic://public/default/others"]


# -- a topic with messages and changes from before the capture --------------------------------------------------------


async def converse_late(broker: MiniBroker) -> None:
    """Receive with a new client what another one has sent before and after a split and a merge."""
    topic, url = broker.scalable(TOPIC, segments=1), ServiceUrl.parse(broker.service_url)
    broker.clock.advance(1)
    async with Client(url) as client:
        producer = await client.produce(TOPIC, ProducerSettings())
        for change in (lambda: topic.split(0), lambda: topic.merge(1, 2), lambda: None):
            for number in range(8):
                message = OutgoingMessage(b"%d" % number, key=f"k{number}")
                await client.call(lambda done, message=message: producer.send(message, done))
            change()
    async with Client(url) as client:
        settings = ConsumerSettings(
            topicNames=(TOPIC,), subscriptionName="queue", scalableType="queue", subscriptionInitialPosition="Earliest"
        )
        consumer = await client.subscribe(settings)
        for _ in range(24):
            await client.receive(consumer)


def test_messages_in_segments_that_were_replaced_are_published_first(tmp_path, script, play):
    path = tmp_path / "late.pcapng"
    with MiniBroker(version="5.0.1", clock="manual", capture=path) as broker:
        run(converse_late(broker))
    streams = {step.stream for step in script(path).steps if step.name == "MESSAGE"}
    replay = Replay(script(path, only=streams.pop()))
    assert calls_of(replay) == [f"PUT {PATH}?numInitialSegments=1", f"POST {PATH}/split/0", f"POST {PATH}/merge/1/2"]
    broker = InMemoryBroker(replay.preparation.settings, replay.start_ms, version=replay.preparation.version)
    for call in replay.calls:
        broker.call(call)
    player = replay.player(replay.start_ms, Pace(speed=1), administered=True)
    broker.play(player, lambda _: None)
    report = replay.report(player, own_broker=True, administered=True)
    assert unexplained(report) == set()
    assert report.equal["MESSAGE"] == 24
