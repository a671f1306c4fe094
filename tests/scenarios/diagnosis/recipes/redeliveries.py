"""Recipes: messages that are delivered more than once, and what causes it."""

from __future__ import annotations

from scenarios.diagnosis.plan import CLIENTS, Problem, Track
from scenarios.diagnosis.recipes.registry import recipe

_DELIVERIES = r"redelivered (\d+) time"


def _subject(topic: str) -> dict[str, str]:
    return {"topic": topic, "subscription": "work"}


def _start(track: Track, topic: str, *names: str, kind: str = "Shared", **options: object) -> None:
    for name in names:
        track.do(name, "subscribe", consumer=name, topic=topic, subscription="work", type=kind, **options)
    track.do("maker", "producer", producer="maker", topic=topic)


def _redeliveries(track: Track, rule: str, topic: str, culprit: str, cause: str, *names: str) -> None:
    """Expect a redelivery rule with the number of redeliveries in the logs."""

    def problems(log):
        count = log.redelivered(*map(track.who, names))
        return [Problem(rule, _subject(topic), culprit, (count, count), _DELIVERIES, cause)] if count else []

    track.expect(problems)


@recipe("redelivered-after-nack", clients=CLIENTS)
def rejected(track: Track) -> None:
    """Negative acknowledgements. Near miss: messages that are acknowledged late."""
    topic, count = track.topic(), track.draw(4, 30)
    _start(track, topic, "picky", nack_delay_ms=track.pick(100, 300, 500), kind=track.pick("Shared", "Key_Shared"))
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("picky", "receive", consumer="picky", count=count, ack="none")
    if track.near:
        track.sleep(0.7)
    else:
        track.do("picky", "nack", consumer="picky", count=track.draw(1, min(count, 10)))
        track.sleep(0.2)
        _redeliveries(track, "redelivered-after-nack", topic, "application", "nack", "picky")
    track.do("picky", "ack", consumer="picky")
    track.do("picky", "consume", consumer="picky")
    track.sleep(1.2)
    track.stats(topic)


@recipe("poison-message", clients=CLIENTS)
def poison(track: Track) -> None:
    """A message that is rejected again and again. Near miss: it is accepted at the second delivery."""
    topic = track.topic()
    _start(track, topic, "picky", nack_delay_ms=100)
    track.do("maker", "send", producer="maker", count=10, one_by_one=True)
    if track.near:
        track.do("picky", "receive", consumer="picky", count=10, ack="none")
        track.do("picky", "nack", consumer="picky", count=1)
        track.do("picky", "ack", consumer="picky")
        track.do("picky", "receive", consumer="picky", count=1)
        _redeliveries(track, "redelivered-after-nack", topic, "application", "nack", "picky")
    else:
        track.do("picky", "consume", consumer="picky", nacks=[track.draw(0, 9)])
        track.sleep(2)
        track.allowed |= {"redelivered-after-nack"}
        track.expect(Problem("poison-message", _subject(topic), "application", variant="again-and-again"))
    track.sleep(0.3)


@recipe("poison-message", clients=CLIENTS)
def dead_letters(track: Track) -> None:
    """Messages that go to a dead letter topic. Near miss: the limit is not reached."""
    topic, bad = track.topic(), track.draw(1, 3)
    dead = track.topic("dead")
    _start(track, topic, "picky", nack_delay_ms=100, dead_letter=[20 if track.near else 2, dead])
    track.do("maker", "send", producer="maker", count=8, one_by_one=True)
    track.do("picky", "receive", consumer="picky", count=8, ack="none")
    track.do("picky", "nack", consumer="picky", count=bad)
    track.do("picky", "ack", consumer="picky")
    if track.near:
        track.do("picky", "receive", consumer="picky", count=bad)
    else:
        track.do("picky", "consume", consumer="picky", ack="nack")
        text = r"(\d+) message"
        track.expect(
            Problem("poison-message", _subject(topic), "application", (bad, bad), text, variant="dead-lettered")
        )
    track.sleep(2)


@recipe("redelivery-storm", clients=CLIENTS)
def storm(track: Track) -> None:
    """All messages are rejected all the time. Near miss: they are rejected once."""
    topic, count = track.topic(), track.draw(40, 80)
    _start(track, topic, "broken", nack_delay_ms=100)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("broken", "receive", consumer="broken", count=count, ack="nack")
    track.do("broken", "consume", consumer="broken", ack="each" if track.near else "nack")
    track.sleep(2.5)
    track.allowed |= {"redelivered-after-nack"}
    if not track.near:
        track.allowed |= {"poison-message"}
        track.expect(Problem("redelivery-storm", _subject(topic), "application"))


@recipe("redelivered-after-reconnect", clients=CLIENTS)
def killed_consumer(track: Track) -> None:
    """A consumer that is killed while it holds messages. Near miss: it is killed after it acknowledged all."""
    topic, count = track.topic(), track.draw(4, 20)
    _start(track, topic, "victim", kind=track.pick("Shared", "Key_Shared"))
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("victim", "receive", consumer="victim", count=count, ack="none")
    track.do("victim", "ack", consumer="victim", **({} if track.near else {"count": track.draw(1, count - 1)}))
    track.sleep(0.4)
    kind = "Shared" if track.steps[0]["type"] == "Shared" else "Key_Shared"
    track.do("heir", "subscribe", consumer="heir", topic=topic, subscription="work", type=kind)
    track.do("heir", "consume", consumer="heir")
    track.drive("kill", of="victim")
    track.sleep(1.4)
    track.stats(topic)
    if not track.near:

        def problems(log):
            left = log.unacked(track.who("victim"))
            return [
                Problem(
                    "redelivered-after-reconnect", _subject(topic), "application", (left, left), _DELIVERIES, "lost"
                )
            ]

        track.expect(problems)


@recipe("redelivered-after-reconnect", clients=CLIENTS)
def closed_consumer(track: Track) -> None:
    """A consumer that is closed while it holds messages. Near miss: all are acknowledged."""
    topic, count = track.topic(), track.draw(4, 20)
    kind = track.pick("Shared", "Exclusive", "Failover")
    _start(track, topic, "first", kind=kind)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("first", "receive", consumer="first", count=count, ack="none")
    track.do("first", "ack", consumer="first", **({} if track.near else {"count": track.draw(1, count - 1)}))
    track.sleep(0.3)
    track.do("first", "close_consumer", consumer="first")
    track.do("next", "subscribe", consumer="next", topic=topic, subscription="work", type=kind)
    track.do("next", "consume", consumer="next")
    track.sleep(1.2)
    track.stats(topic)
    if not track.near:

        def problems(log):
            left = log.unacked(track.who("first"))
            return [Problem("redelivered-after-reconnect", _subject(topic), "application", (left, left), _DELIVERIES)]

        track.expect(problems)


@recipe("redelivered-after-reconnect", clients=CLIENTS)
def unloaded(track: Track) -> None:
    """An unload while a consumer holds messages. Near miss: a reset of the cursor."""
    topic, count = track.topic(), track.draw(4, 20)
    kind = track.pick("Shared", "Exclusive", "Failover", "Key_Shared")
    _start(track, topic, "holder", kind=kind)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("holder", "receive", consumer="holder", count=count, ack="none")
    track.sleep(0.3)
    if track.near:
        track.rest("POST", topic, "subscription/work/resetcursor/0")
    else:
        track.rest("PUT", topic, "unload")
    track.do("holder", "receive", consumer="holder", count=count)
    track.sleep(0.6)
    track.stats(topic)
    rule, cause = ("after-seek", "reset") if track.near else ("redelivered-after-reconnect", "unload")
    _redeliveries(track, rule, topic, "broker", cause, "holder")


@recipe("after-seek")
def sought(track: Track) -> None:
    """A seek to the start. Near miss: a consumer of another subscription that starts at the beginning."""
    topic, count = track.topic(), track.draw(4, 30)
    _start(track, topic, "reader", kind=track.pick("Exclusive", "Shared"))
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("reader", "receive", consumer="reader", count=count)
    track.sleep(0.3)
    if track.near:
        track.do("other", "subscribe", consumer="other", topic=topic, subscription="late", type="Exclusive")
        track.do("other", "receive", consumer="other", count=count)
    else:
        track.do("reader", "seek", consumer="reader", to="earliest")
        track.do("reader", "receive", consumer="reader", count=count)
        _redeliveries(track, "after-seek", topic, "application", "seek", "reader")
    track.sleep(0.4)
    track.stats(topic)


@recipe("rewound")
def rewound(track: Track) -> None:
    """A request for all unacknowledged messages. Near miss: all messages are acknowledged before it."""
    topic, count = track.topic(), track.draw(4, 15)
    _start(track, topic, "again", kind=track.pick("Exclusive", "Failover", "Shared"))
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("again", "receive", consumer="again", count=count, ack="each" if track.near else "none")
    track.sleep(0.4)
    track.do("again", "redeliver_all", consumer="again")
    if not track.near:
        track.do("again", "receive", consumer="again", count=count)
        _redeliveries(track, "rewound", topic, "application", "rewind", "again")
    track.sleep(0.5)
    track.stats(topic)


@recipe("whole-batches-again")
def whole_batches(track: Track) -> None:
    """A batch of which a part was acknowledged comes again. Near miss: batch index acknowledgements."""
    topic, size = track.topic(), track.draw(3, 8)
    options = {"nack_delay_ms": 200, "batch_index": track.near}
    track.do("batches", "subscribe", consumer="batches", topic=topic, subscription="work", type="Shared", **options)
    track.do("maker", "producer", producer="maker", topic=topic, batch=size, batch_ms=500)
    track.do("maker", "send", producer="maker", count=size)
    track.do("batches", "receive", consumer="batches", count=size, ack="none")
    track.do("batches", "ack", consumer="batches", count=size - 1)
    track.do("batches", "nack", consumer="batches")
    track.do("batches", "consume", consumer="batches")
    track.sleep(1.5)
    track.stats(topic)
    if not track.near:
        subject = {**_subject(topic), "consumer": track.who("batches")}
        track.expect(Problem("whole-batches-again", subject, "application"))


@recipe("redelivered-after-ack-timeout", quick=False)
def ack_timeout(track: Track) -> None:
    """Messages that are not acknowledged before the timeout. Near miss: they are acknowledged in time."""
    topic, count = track.topic(), track.draw(2, 8)
    _start(track, topic, "late", ack_timeout_ms=10_000)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("late", "receive", consumer="late", count=count, ack="each" if track.near else "none")
    if not track.near:
        track.do("late", "receive", consumer="late", count=count, timeout_ms=14_000)
        _redeliveries(track, "redelivered-after-ack-timeout", topic, "application", "ack_timeout", "late")
    track.sleep(0.5)


@recipe("ack-timeout-too-short", quick=False)
def slow_processing(track: Track) -> None:
    """Processing that takes longer than the ack timeout. Near miss: messages that are never acknowledged."""
    topic = track.topic()
    _start(track, topic, "late", ack_timeout_ms=10_000)
    track.do("maker", "send", producer="maker", count=3, one_by_one=True)
    track.do("late", "receive", consumer="late", count=3, ack="none")
    track.sleep(12.5)
    subject = {**_subject(topic), "consumer": track.who("late")}
    if not track.near:
        track.do("late", "ack", consumer="late")
        track.sleep(0.5)  # longer than the ack grouping time, which merges the ACKs of both deliveries
        track.do("late", "receive", consumer="late", count=3, fewer=True, timeout_ms=1000)
        track.expect(Problem("ack-timeout-too-short", subject, "application"))
    else:
        track.do("late", "receive", consumer="late", count=3, ack="none", fewer=True, timeout_ms=1000)
        track.allowed |= {"never-acked"}
    track.features.add("ack_timeout_ms")
    track.sleep(0.5)


@recipe("redelivered-after-reconnect", clients=CLIENTS)
def exited(track: Track) -> None:
    """A program that ends without close(): its client loses grouped acknowledgements. Near miss: they are sent."""
    topic, count = track.topic(), track.draw(3, 20)
    kind = track.pick("Shared", "Exclusive", "Failover")
    options = {} if track.client == "python" or track.near else {"ack_group_ms": 10_000}
    _start(track, topic, "short", kind=kind, **options)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("short", "receive", consumer="short", count=count, ack="each" if track.near else "none")
    if track.near:
        track.sleep(0.4)
    track.do("short", "exit", consumer="short")
    track.sleep(0.4)
    track.stats(topic)
    if track.pick(True, False):
        track.do("next", "subscribe", consumer="next", topic=topic, subscription="work", type=kind)
        track.do("next", "consume", consumer="next")
        track.sleep(1.4)
        _redeliveries(track, "redelivered-after-reconnect", topic, "application", "", "short", "next")
    elif not track.near:
        subject = {**_subject(topic), "consumer": track.who("short")}
        track.expect(Problem("never-acked", subject, "application"))
    track.features |= {"kill", "close"}
