"""Recipes for options that only the Java client has, or that behave differently in it."""

from __future__ import annotations

from collections.abc import Iterable

from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import Problem, Track
from scenarios.diagnosis.recipes.registry import recipe

_DELIVERIES = r"redelivered (\d+) time"


def _subject(topic: str) -> dict[str, str]:
    return {"topic": topic, "subscription": "work"}


def _start(track: Track, topic: str, name: str, kind: str = "Shared", **options: object) -> None:
    track.do(name, "subscribe", consumer=name, topic=topic, subscription="work", type=kind, **options)
    track.do("maker", "producer", producer="maker", topic=topic)


@recipe("ack-timeout-too-short", "redelivered-after-ack-timeout", clients=("java",))
def slow_listener(track: Track) -> None:
    """Processing that takes longer than the ack timeout. Near miss: messages that are never acknowledged."""
    topic, count = track.topic(), track.draw(2, 6)
    _start(track, topic, "slow", ack_timeout_ms=1100, kind=track.pick("Shared", "Key_Shared"))
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("slow", "receive", consumer="slow", count=count, ack="none")
    track.sleep(3.8)  # the client checks for timeouts every second
    if not track.near:
        track.do("slow", "ack", consumer="slow")
        track.sleep(0.5)  # longer than the ack grouping time, which merges the ACKs of both deliveries
        subject = {**_subject(topic), "consumer": track.who("slow")}
        track.expect(Problem("ack-timeout-too-short", subject, "application"))
    track.do("slow", "receive", consumer="slow", count=count, fewer=True, timeout_ms=1500)

    def problems(log: Log) -> Iterable[Problem]:
        again = log.redelivered(track.who("slow"))
        found = Problem("redelivered-after-ack-timeout", _subject(topic), "application", (again, again), _DELIVERIES)
        return [found] if again else []

    track.expect(problems)
    track.sleep(0.3)


@recipe("redelivery-storm", clients=("java",))
def storm_without_backoff(track: Track) -> None:
    """All messages are rejected all the time. Near miss: with a redelivery back-off."""
    topic, count = track.topic(), track.draw(30, 45)
    options = {"nack_backoff_ms": [1000, 8000]} if track.near else {"nack_delay_ms": 100}
    _start(track, topic, "broken", **options)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("broken", "consume", consumer="broken", ack="nack")
    track.sleep(3)
    track.allowed |= {"redelivered-after-nack", "poison-message"}
    if track.near:  # the frames of a back-off are those of an ack timeout, and messages wait for it at the end
        track.allowed |= {"redelivered-after-ack-timeout", "never-acked"}
    else:
        track.expect(Problem("redelivery-storm", _subject(topic), "application"))


@recipe("poison-message", clients=("java",))
def last_delivery(track: Track) -> None:
    """Messages that are rejected until they are dead letters. Near miss: they are acknowledged at the last delivery."""
    topic, bad, limit = track.topic(), track.draw(1, 4), track.draw(1, 3)
    _start(track, topic, "picky", nack_delay_ms=100, dead_letter=[limit, track.topic("dead")])
    track.do("maker", "send", producer="maker", count=bad, one_by_one=True)
    for _ in range(limit):
        track.do("picky", "receive", consumer="picky", count=bad, ack="nack")
    track.do("picky", "receive", consumer="picky", count=bad, ack="each" if track.near else "nack")
    track.sleep(1.5)
    track.stats(topic)
    if not track.near:
        text = r"(\d+) messages? of"
        found = Problem("poison-message", _subject(topic), "application", (bad, bad), text, "dead-lettered")
        track.expect(found)


@recipe("poison-message", clients=("java",))
def retried_later(track: Track) -> None:
    """Messages that go to the dead letter topic through the retry topic. Near miss: they are accepted before."""
    topic, bad, limit = track.topic(), track.draw(1, 3), 2
    options = {"retry": True, "dead_letter": [limit, track.topic("dead")]}
    _start(track, topic, "picky", **options)
    track.do("maker", "send", producer="maker", count=bad, one_by_one=True)
    for _ in range(limit):
        track.do("picky", "receive", consumer="picky", count=bad, ack="later", delay_ms=200)
    track.do("picky", "receive", consumer="picky", count=bad, ack="each" if track.near else "later")
    track.sleep(1)
    if not track.near:
        text = r"(\d+) messages? of"
        found = Problem("poison-message", {"subscription": "work"}, "application", (bad, bad), text, "dead-lettered")
        track.expect(found)


@recipe("chunk-resent", clients=("java",))
def interrupted_chunks(track: Track) -> None:
    """A connection that breaks between the chunks of a message. Near miss: it breaks after the last receipt."""
    topic, size = track.topic(), 1000
    _start(track, topic, "reader")
    track.do("reader", "consume", consumer="reader")
    track.do("big", "producer", producer="big", topic=topic, chunking=True, chunk_size=size)
    track.do("big", "send", producer="big", count=2, size=size * 3, one_by_one=True)
    if track.near:
        track.sleep(0.3)
        track.rest("PUT", topic, "unload")
        track.sleep(1)  # the producer connects again
    else:
        track.fault(f"pulsar.type == 'SEND_RECEIPT' and pulsar.topic == '{topic}'", "close", times=1)
        track.features.add("cut")
    track.do("big", "send", producer="big", first=2, count=1, size=size * track.draw(4, 12))
    track.sleep(1)
    if not track.near:
        track.allowed |= {"resend-stored"}
        subject = {"topic": topic, "producer": track.who("big")}
        track.expect(Problem("chunk-resent", subject, "network|broker"))


@recipe("redelivered-after-reconnect", clients=("java",))
def acks_in_the_client(track: Track) -> None:
    """Acknowledgements that a killed client has not sent. Near miss: acknowledgements that are sent at once."""
    topic, count = track.topic(), track.draw(4, 20)
    _start(track, topic, "victim", ack_group_ms=0 if track.near else 60_000)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("victim", "receive", consumer="victim", count=count)
    track.sleep(0.3)
    track.do("heir", "subscribe", consumer="heir", topic=topic, subscription="work", type="Shared")
    track.do("heir", "consume", consumer="heir")
    track.drive("kill", of="victim")
    track.sleep(1)
    track.stats(topic)
    if not track.near:
        number = (count, count)
        rule = "redelivered-after-reconnect"
        track.expect(Problem(rule, _subject(topic), "application", number, _DELIVERIES, "lost"))


@recipe("ack-lost", clients=("java",))
def lost_acks_with_receipts(track: Track) -> None:
    """An acknowledgement with a receipt that does not arrive at the broker. Near miss: it arrives late.

    The application waits for the receipt, and does not acknowledge the other messages before.
    """
    topic, count = track.topic(), track.draw(3, 15)
    _start(track, topic, "app", ack_receipts=True, ack_group_ms=200)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    action, ms = ("delay", 300) if track.near else ("drop", 0)
    track.do("app", "receive", consumer="app", count=count, ack="none")
    track.fault(f"pulsar.type == 'ACK' and pulsar.topic == '{topic}'", action, times=1, ms=ms)
    track.do("app", "ack", consumer="app", wait=track.near)
    track.sleep(0.8)
    track.drive("kill", of="app")
    track.do("next", "subscribe", consumer="next", topic=topic, subscription="work", type="Shared")
    track.do("next", "consume", consumer="next")
    track.sleep(0.8)
    if not track.near:
        subject = {**_subject(topic), "consumer": track.who("app")}
        track.expect(Problem("ack-lost", subject, "network|broker", (1, 1), variant="unanswered"))


@recipe("producer-refused", "producer-waiting", clients=("java",))
def fenced_producer(track: Track) -> None:
    """A producer that another fences while it works. Near miss: it is closed before."""
    topic = track.topic()
    track.do("old", "producer", producer="old", topic=topic, access="Exclusive")
    track.do("old", "send", producer="old", count=5)
    if track.near:
        track.do("old", "close_producer", producer="old")
    track.do("new", "producer", producer="new", topic=topic, access="ExclusiveWithFencing")
    track.do("new", "send", producer="new", count=5)
    if not track.near:
        track.do("old", "send", producer="old", first=5, count=1, fails=True)
        track.expect(Problem("producer-refused", {"topic": topic, "producer": track.who("old")}, "application"))
    track.sleep(0.5)


@recipe("never-acked", clients=("java",))
def pattern(track: Track) -> None:
    """A pattern consumer that acknowledges no messages of a new topic. Near miss: it acknowledges them."""
    first, second = track.topic("orders-1"), track.topic("orders-2")
    track.do("maker", "producer", producer="one", topic=first)
    regex = f"persistent://{track.namespace}/orders-.*"
    common = {"consumer": "all", "topic": regex, "pattern": True, "subscription": "work"}
    track.do("all", "subscribe", type=track.pick("Shared", "Exclusive", "Failover"), **common)
    track.do("maker", "send", producer="one", count=5, one_by_one=True)
    track.do("all", "receive", consumer="all", count=5)
    if track.near:
        track.fault(f"pulsar.type == 'ACK' and pulsar.topic == '{first}'", "close", times=1)
        track.features.add("cut")
        track.allowed |= {"ack-lost", "redelivered-after-reconnect"}
        track.sleep(0.3)
        track.do("all", "consume", consumer="all")
    track.do("maker", "producer", producer="two", topic=second)
    count = track.draw(2, 10)
    track.do("maker", "send", producer="two", count=count, one_by_one=True)
    if not track.near:
        track.do("all", "receive", consumer="all", count=count, ack="none")
    track.sleep(1.6)
    if not track.near:
        text = r"(?:holds|held|left) (\d+) unacknowledged"
        subject = {"topic": second, "subscription": "work"}
        track.expect(Problem("never-acked", subject, "application", (count, count), text))
