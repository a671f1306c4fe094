"""Recipes: faults between the client and the broker. Those that affect all connections of a run are `alone`."""

from __future__ import annotations

from collections import Counter

from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import CLIENTS, Problem, Track
from scenarios.diagnosis.recipes.registry import recipe

_ANYWHERE = "network|broker"
"""The culprits of a fault beyond the point of capture, on the side of the broker."""

_CONSEQUENCES = {"ack-lost", "redelivered-after-reconnect", "resend-stored", "producer-stuck", "messages-dropped"}
_CONSEQUENCES |= {"slow-answers", "reconnect-loop"}
"""Rules that can report the consequences of an outage. The Go client connects again at once, before the port closes."""


def _consumer(track: Track, name: str, topic: str) -> dict[str, str]:
    return {"topic": topic, "subscription": "work", "consumer": track.who(name)}


def _on(kind: str, topic: str) -> str:
    return f"pulsar.type == '{kind}' and pulsar.topic == '{topic}'"


def _start(track: Track, topic: str, **options: object) -> None:
    track.do("app", "subscribe", consumer="app", topic=topic, subscription="work", type="Shared", **options)
    track.do("maker", "producer", producer="maker", topic=topic)


@recipe("wrong-crc", alone=True, clients=CLIENTS)
def damaged_messages(track: Track) -> None:
    """A MESSAGE that is changed on its way. Near miss: one that is delayed."""
    topic = track.topic()
    _start(track, topic)
    track.do("app", "consume", consumer="app")
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    action, ms = ("delay", 400) if track.near else ("corrupt", 0)
    track.fault(_on("MESSAGE", topic), action, times=2, ms=ms)
    track.do("maker", "send", producer="maker", first=5, count=10, one_by_one=True)
    track.sleep(1)
    if not track.near:
        track.allowed |= {"permits-leaked", "poison-message"}
        track.expect(Problem("wrong-crc", {}, "broker", (2, 2), r"(\d+) MESSAGE"))


@recipe("producer-stuck", quick=False, clients=CLIENTS)
def lost_receipts(track: Track) -> None:
    """Receipts that never arrive. Near miss: receipts that arrive late."""
    topic = track.topic()
    track.do("maker", "producer", producer="maker", topic=topic, send_timeout_ms=60_000)
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    action, ms = ("delay", 2000) if track.near else ("drop", 0)
    track.fault(_on("SEND_RECEIPT", topic), action, ms=ms)
    track.do("maker", "send", producer="maker", first=5, count=3, **{"async": True})
    track.sleep(11)
    if not track.near:
        subject = {"topic": topic, "producer": track.who("maker")}
        track.expect(Problem("producer-stuck", subject, _ANYWHERE, (3, 3), r"(\d+) SEND"))


@recipe("slow-answers", clients=CLIENTS)
def late_receipts(track: Track) -> None:
    """Receipts that arrive more than a second late. Near miss: receipts that arrive a little late."""
    topic, count = track.topic(), track.draw(1, 4)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    track.fault(_on("SEND_RECEIPT", topic), "delay", times=count, ms=300 if track.near else 1400)
    track.do("maker", "send", producer="maker", first=5, count=count, **{"async": True})
    track.sleep(2)
    if not track.near:
        track.expect(Problem("slow-answers", {"request": "SEND"}, _ANYWHERE, (count, count), r"(\d+) of"))


@recipe("resend-stored", clients=CLIENTS)
def lost_connection_of_a_producer(track: Track) -> None:
    """A receipt that is lost with the connection: the message is stored twice. Near miss: with deduplication."""
    topic = track.topic()
    track.policy("deduplication", track.near)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    track.fault(_on("SEND_RECEIPT", topic), "close", times=1)
    track.features.add("cut")
    track.do("maker", "send", producer="maker", first=5, count=5, one_by_one=True)
    track.sleep(0.5)
    subject = {"topic": topic, "producer": track.who("maker")}
    if track.near:
        track.expect(Problem("resend-refused", subject, "client", (1, 1), r"resent (\d+) message", "resend"))
    else:
        track.expect(Problem("resend-stored", subject, _ANYWHERE, (1, 1), r"resent (\d+) SEND", "blind"))


@recipe("ack-lost", clients=CLIENTS)
def lost_acks(track: Track) -> None:
    """Acknowledgements that do not arrive at the broker. Near miss: they arrive."""
    topic, count = track.topic(), track.draw(3, 20)
    _start(track, topic)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    if not track.near:
        track.fault(_on("ACK", topic), "drop", times=1)
    track.do("app", "receive", consumer="app", count=count, ack="none")
    track.do("app", "ack", consumer="app")
    track.sleep(0.4)
    track.do("app", "close_consumer", consumer="app")
    track.do("next", "subscribe", consumer="next", topic=topic, subscription="work", type="Shared")
    track.do("next", "consume", consumer="next")
    track.sleep(0.8)
    if not track.near:
        count_of = (count, count)
        track.expect(Problem("ack-lost", _consumer(track, "app", topic), _ANYWHERE, count_of, r"(\d+) message"))


@recipe("redelivered-without-cause", clients=CLIENTS)
def repeated_messages(track: Track) -> None:
    """MESSAGEs that the network repeats. Near miss: a nack."""
    topic, count = track.topic(), track.draw(2, 6)
    _start(track, topic, nack_delay_ms=100)
    track.do("app", "consume", consumer="app", nacks=[1] if track.near else [])
    if not track.near:
        track.fault(_on("MESSAGE", topic), "duplicate", times=count)
    track.do("maker", "send", producer="maker", count=10, one_by_one=True)
    track.sleep(0.6)
    if track.near:
        track.allowed |= {"poison-message", "redelivered-after-nack"}
    else:
        subject = {"topic": topic, "subscription": "work"}
        text = r"(\d+) deliver"
        track.allowed |= {"permits-wrong-count"}
        track.expect(Problem("redelivered-without-cause", subject, _ANYWHERE, (count, count), text))


@recipe("receipts-unexpected", clients=CLIENTS)
def repeated_receipts(track: Track) -> None:
    """SEND_RECEIPTs that the network repeats. Near miss: they are delayed."""
    topic, count = track.topic(), track.draw(2, 6)
    track.do("maker", "producer", producer="maker", topic=topic)
    action, ms = ("delay", 100) if track.near else ("duplicate", 0)
    track.fault(_on("SEND_RECEIPT", topic), action, times=count, ms=ms)
    track.do("maker", "send", producer="maker", count=10, one_by_one=True)
    track.sleep(0.5)
    if not track.near:
        subject = {"topic": topic, "producer": track.who("maker")}
        track.expect(Problem("receipts-unexpected", subject, _ANYWHERE, (count, count), r"received (\d+) receipt"))


@recipe("answers-missing", quick=False, clients=CLIENTS)
def lost_response(track: Track) -> None:
    """A response that does not arrive. Near miss: it arrives late."""
    topic = track.topic()
    action, ms = ("delay", 2000) if track.near else ("drop", 0)
    track.fault(_on("LOOKUP_RESPONSE", topic), action, times=1, ms=ms)
    track.do("maker", "producer", producer="maker", topic=topic, wait=track.near)
    track.sleep(13.5)
    if not track.near:
        track.expect(Problem("answers-missing", {"request": "LOOKUP"}, _ANYWHERE))


@recipe("dispatcher-silent", quick=False, clients=CLIENTS)
def lost_permits(track: Track) -> None:
    """FLOWs that do not arrive at the broker. Near miss: they arrive late."""
    topic, queue = track.topic(), track.draw(4, 20)
    _start(track, topic, queue=queue)
    track.do("app", "consume", consumer="app")
    action, ms = ("delay", 500) if track.near else ("drop", 0)
    track.fault(_on("FLOW", topic), action, ms=ms)
    track.do("maker", "send", producer="maker", count=4 * queue, one_by_one=True)
    track.sleep(7)
    if not track.near:
        track.expect(Problem("dispatcher-silent", _consumer(track, "app", topic), _ANYWHERE))


@recipe("consumer-reconnect-loop", clients=CLIENTS)
def repeated_cuts(track: Track) -> None:
    """A connection that breaks again and again. Near miss: it breaks once."""
    topic, count = track.topic(), 1 if track.near else 4
    _start(track, topic)
    track.do("app", "consume", consumer="app")
    track.fault(_on("ACK", topic), "close", times=count)
    track.features.add("cut")
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    track.sleep(1.5 if track.near else 4)
    track.allowed |= {"ack-lost", "redelivered-after-reconnect", "reconnect-loop"}
    if not track.near:
        track.expect(Problem("consumer-reconnect-loop", _consumer(track, "app", topic), _ANYWHERE))


@recipe("reconnect-loop", clients=("python",))
def cut_at_the_start(track: Track) -> None:
    """A connection that breaks when the producer opens. Near miss: an application that closes its clients."""
    topic = track.topic()
    if not track.near:
        track.fault(_on("PRODUCER", topic), "close", times=4)
        track.features.add("cut")
    for number in range(4 if track.near else 1):
        track.do("maker", "producer", producer=f"maker{number}", topic=topic)
        track.do("maker", "send", producer=f"maker{number}", count=3, one_by_one=True)
        if track.near:
            track.do("maker", "connect")
    track.sleep(0.3)
    if not track.near:
        track.allowed |= {"producer-reconnect-loop"}
        track.expect(Problem("reconnect-loop", {}, _ANYWHERE))


@recipe("consumer-reconnect-loop", "producer-reconnect-loop", clients=CLIENTS)
def unloaded_often(track: Track) -> None:
    """A topic that is unloaded again and again. Near miss: twice."""
    topic = track.topic()
    _start(track, topic)
    track.do("app", "consume", consumer="app")
    for number in range(2 if track.near else 4):
        track.do("maker", "send", producer="maker", first=5 * number, count=5, one_by_one=True)
        track.sleep(0.5)
        track.rest("PUT", topic, "unload")
        track.sleep(0.7)
    track.do("maker", "send", producer="maker", first=50, count=5, one_by_one=True)
    track.sleep(0.4)
    if not track.near:
        track.expect(Problem("consumer-reconnect-loop", _consumer(track, "app", topic), "broker"))
        subject = {"topic": topic, "producer": track.who("maker")}
        track.expect(Problem("producer-reconnect-loop", subject, "broker"))


@recipe("broker-unavailable", alone=True, sniffed=True, clients=CLIENTS)
def outage(track: Track) -> None:
    """A server that is away for some seconds. Near miss: one connection that breaks."""
    topic = track.topic()
    _start(track, topic)
    track.do("app", "consume", consumer="app")
    track.do("maker", "send", producer="maker", count=20, one_by_one=True)
    track.sleep(0.3)
    if track.near:
        track.fault(_on("ACK", topic), "close", times=1)
    else:
        track.drive("outage", seconds=track.draw(1, 3))
    track.features.add("cut")
    track.sleep(2.5)
    track.do("maker", "send", producer="maker", first=20, count=20, one_by_one=True)
    track.sleep(1)
    track.allowed |= _CONSEQUENCES
    if not track.near:
        track.expect(Problem("broker-unavailable", {}, _ANYWHERE))


@recipe("keep-alive-missed", quick=False, alone=True)
def frozen_client(track: Track) -> None:
    """A process that is stopped until the broker closes its connection. Near miss: it is stopped for a shorter time."""
    topic = track.topic()
    _start(track, topic)
    track.do("app", "consume", consumer="app")
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    track.sleep(0.4)
    track.drive("pause", of="app")
    track.sleep(3 if track.near else 13)
    track.drive("resume", of="app")
    track.sleep(1.5)
    if not track.near:
        track.allowed |= {"redelivered-after-reconnect", "ack-lost", "slow-answers"}
        track.expect(Problem("keep-alive-missed", {}, "client"))


@recipe("broker-unavailable", "ack-lost", quick=False, alone=True, own_broker=True, sniffed=True, clients=CLIENTS)
def crash(track: Track) -> None:
    """A broker that is killed and started again. Near miss: the topic is unloaded."""
    topic, count = track.topic(), track.draw(10, 40)
    acked = track.draw(1, count - 1)
    track.do("app", "subscribe", consumer="app", topic=topic, subscription="work", type="Shared")
    track.do("maker", "producer", producer="maker", topic=topic, send_timeout_ms=60_000)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("app", "receive", consumer="app", count=count, ack="none")
    track.do("app", "ack", consumer="app", count=acked)
    track.sleep(track.pick(0.4, 2))
    if track.near:
        track.rest("PUT", topic, "unload")
    else:
        track.drive("crash")
    track.do("maker", "send", producer="maker", first=count, count=10, one_by_one=True, wait=False)
    track.do("app", "receive", consumer="app", count=count - acked + 10, timeout_ms=20_000)
    track.do("app", "receive", consumer="app", count=acked, fewer=True, timeout_ms=1_500)
    track.sleep(0.3)
    track.allowed |= _CONSEQUENCES
    if not track.near:
        track.expect(Problem("broker-unavailable", {}, "broker|network"))
        track.expect(lambda log: _lost_acks(log, topic, track.who("app"), acked))


def _lost_acks(log: Log, topic: str, name: str, acked: int) -> list[Problem]:
    """Return the problem of the messages that were acknowledged and came again after the broker was killed."""
    deliveries = Counter(event["n"] for event in log.of("received", consumer=name))
    lost = sum(deliveries[number] > 1 for number in range(acked))
    subject = {"topic": topic, "subscription": "work", "consumer": name}
    return [Problem("ack-lost", subject, _ANYWHERE, (lost, lost), r"(\d+) message")] if lost else []


@recipe("dispatcher-silent", quick=False, clients=CLIENTS)
def silence_before_the_first_message(track: Track) -> None:
    """A consumer that receives nothing although messages are stored. Near miss: none is stored while it waits."""
    topic, earlier = track.topic(), track.pick(0, track.draw(1, 5))
    kind = track.pick("Shared", "Exclusive", "Failover", "Key_Shared")
    track.do("maker", "producer", producer="maker", topic=topic)
    if earlier:
        track.do("maker", "send", producer="maker", count=earlier, one_by_one=True)
    track.fault(_on("MESSAGE", topic), "drop")
    track.do("app", "subscribe", consumer="app", topic=topic, subscription="work", type=kind)
    track.do("app", "consume", consumer="app", ack="each")
    track.sleep(0.5)
    if not track.near:
        track.do("maker", "send", producer="maker", first=earlier, count=track.draw(1, 20), one_by_one=True)
        track.expect(Problem("dispatcher-silent", _consumer(track, "app", topic), _ANYWHERE))
    track.sleep(6.5)
