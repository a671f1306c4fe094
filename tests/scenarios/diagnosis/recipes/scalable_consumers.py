"""Recipes: consumers of scalable topics of Pulsar 5."""

from __future__ import annotations

from collections.abc import Iterable

from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import Problem, Track
from scenarios.diagnosis.recipes.v5_clients import Sender, controlled, listen, recipe, subscribe


@recipe("segment-unattended", quick=False)
def joins_and_leaves(track: Track) -> None:
    """A stream consumer whose client is closed, but not the consumer. Near miss: consumers join and leave in order."""
    topic = track.scalable(segments=track.draw(2 if track.near else 3, 4))  # no segment is shared unless all leave well
    listen(track, topic, "s1")
    sender = Sender(track, topic)
    for name in ("s2", "s3"):
        sender.send(40)
        listen(track, topic, name)
        track.sleep(1)
    sender.send(40)
    if track.near:
        track.do("s2", "close_consumer", consumer="s2")
    else:
        track.do("s2", "close_client")
        track.expect(Problem("segment-unattended", controlled(track, topic, "s2"), "application"))
    track.sleep(1)
    sender.send(40)
    track.sleep(2)
    track.stats(topic)


@recipe("segment-unattended", quick=False)
def crashed_stream_consumer(track: Track) -> None:
    """A stream consumer whose process is killed, beside another or alone. Near miss: it is closed in order."""
    topic = track.scalable(segments=track.draw(2, 4))
    if track.pick(True, True, False):
        listen(track, topic, "s1")
    listen(track, topic, "victim")
    sender = Sender(track, topic)
    sender.send(40)
    track.sleep(1)
    if track.near:
        track.do("victim", "close_consumer", consumer="victim")
        track.do("victim", "exit")
    else:
        track.drive("kill", of="victim")
        track.expect(Problem("segment-unattended", controlled(track, topic, "victim"), "application"))
    track.sleep(track.pick(1.5, 3, 7))  # before or after the end of the grace period
    sender.send(40)
    track.sleep(1.5)
    track.stats(topic)


@recipe("segment-unattended", quick=False)
def returning_consumer(track: Track) -> None:
    """A killed stream consumer whose application starts again under its name. Near miss: it was closed in order."""
    topic = track.scalable(segments=track.draw(1, 3))
    listen(track, topic, "s1")
    listen(track, topic, "victim")
    sender = Sender(track, topic)
    sender.send(40)
    track.sleep(1)
    if track.near:
        track.do("victim", "close_consumer", consumer="victim")
    else:
        track.drive("kill", of="victim")
        track.allowed |= {"segment-unattended"}
    track.sleep(track.pick(0.5, 2, 3))  # within the grace period
    track.do("again", "subscribe", consumer="victim", topic=topic, subscription="st", type="stream")
    track.do("again", "consume", consumer="victim")
    sender.send(40)
    track.sleep(2)
    track.stats(topic)


@recipe("segment-not-released", quick=False)
def kept_segment(track: Track) -> None:
    """A stream consumer that is stopped while its segment is handed over. Near miss: it runs."""
    topic = track.scalable(segments=2)
    listen(track, topic, "old")
    sender = Sender(track, topic)
    sender.send(40)
    track.sleep(1)
    if track.near:
        listen(track, topic, "young")
    else:
        track.drive("pause", of="old")
        subscribe(track, topic, "young", wait=False)
        track.do("young", "consume", consumer="young", wait=False)
        subject = controlled(track, topic, "young")
        track.expect(Problem("segment-not-released", subject, "application"))
        track.allowed |= {"paused-client", "keep-alive-missed", "segment-unattended"}
    track.sleep(7)
    sender.send(10)
    track.sleep(0.5)


@recipe("parent-not-drained", quick=False)
def unacknowledged_parent(track: Track) -> None:
    """A stream consumer that does not acknowledge before a split. Near miss: it acknowledges then."""
    topic, count = track.scalable(segments=1), track.draw(5, 40)
    subscribe(track, topic, "s1")
    sender = Sender(track, topic)
    sender.send(count)
    track.do("s1", "receive", consumer="s1", count=count, ack="none")
    track.sleep(0.3)
    track.rest("POST", topic, "split/0")
    if track.near:
        track.do("s1", "ack", consumer="s1")
        track.do("s1", "consume", consumer="s1")
    sender.send(count)
    track.sleep(12)
    track.stats(topic)
    if not track.near:
        subject = {"topic": topic, "subscription": "st", "segment": "0"}
        track.expect(Problem("parent-not-drained", subject, "application", (count, count)))
        track.allowed |= {"never-acked"}


@recipe("poison-message", quick=False)
def dead_letters(track: Track) -> None:
    """Messages that are rejected until they are dead letters. Near miss: they are accepted before."""
    topic, limit, bad = track.scalable(segments=track.draw(1, 3)), track.draw(1, 2), track.draw(1, 4)
    dead = track.scalable("dead")
    subscribe(track, topic, "picky", "queue", nack_delay_ms=300, dead_letter=[limit, dead])
    Sender(track, topic).send(bad, one_by_one=True)
    for _ in range(limit):
        track.do("picky", "receive", consumer="picky", count=bad, ack="nack")
    track.do("picky", "receive", consumer="picky", count=bad, ack="each" if track.near else "nack")
    track.sleep(3)
    track.stats(topic)
    if not track.near:
        text = r"(\d+) messages? of"
        number = (bad, bad)
        track.expect(Problem("poison-message", {"subscription": "qu"}, "application", number, text, "dead-lettered"))


@recipe("subscribe-refused", quick=False)
def one_subscription_of_two_types(track: Track) -> None:
    """A stream consumer on the subscription of a queue consumer. Near miss: subscriptions of their own."""
    topic = track.scalable(segments=2)
    listen(track, topic, "q1", "queue", "both")
    sender = Sender(track, topic)
    sender.send(40)
    if track.near:
        listen(track, topic, "s1")
    else:
        subscribe(track, topic, "s1", "stream", "both", wait=False)
        subject = {"subscription": "both", "consumer": f"{track.who('s1')}-seg-0"}
        track.expect(Problem("subscribe-refused", subject, "application"))
        track.allowed |= {"subscribe-refused"}
    track.sleep(3)
    sender.send(40)
    track.sleep(1)
    if track.near:
        track.stats(topic)


@recipe("never-acked", quick=False)
def queue_without_acks(track: Track) -> None:
    """A queue consumer that acknowledges nothing. Near miss: it acknowledges after some time."""
    topic, count = track.scalable(segments=1), track.draw(5, 40)
    subscribe(track, topic, "lazy", "queue")
    Sender(track, topic).send(count)
    track.do("lazy", "receive", consumer="lazy", count=count, ack="none")
    track.sleep(2)
    track.stats(topic)
    if track.near:
        track.do("lazy", "ack", consumer="lazy")
        track.sleep(0.5)
        track.stats(topic)
    else:
        text = r"(?:holds|held|left) (\d+) unacknowledged"
        track.expect(Problem("never-acked", {"subscription": "qu"}, "application", (count, count), text))


@recipe("redelivered-after-reconnect", quick=False)
def killed_queue_consumer(track: Track) -> None:
    """A queue consumer that is killed with unacknowledged messages. Near miss: it has acknowledged all."""
    topic, count = track.scalable(segments=1), track.draw(5, 30)
    subscribe(track, topic, "victim", "queue")
    Sender(track, topic).send(count)
    track.do("victim", "receive", consumer="victim", count=count, ack="each" if track.near else "none")
    track.sleep(0.5)
    listen(track, topic, "heir", "queue")
    track.drive("kill", of="victim")
    track.sleep(1.5)
    track.stats(topic)
    if not track.near:
        number, text = (count, count), r"redelivered (\d+) time"
        rule = "redelivered-after-reconnect"
        track.expect(Problem(rule, {"subscription": "qu"}, "application", number, text, "lost"))


@recipe("redelivered-after-ack-timeout", quick=False)
def slow_processing(track: Track) -> None:
    """A queue consumer that exceeds its processing timeout. Near miss: it acknowledges in time."""
    topic, count = track.scalable(segments=1), track.draw(2, 10)
    subscribe(track, topic, "slow", "queue", ack_timeout_ms=2000)
    Sender(track, topic).send(count, one_by_one=True)
    track.do("slow", "receive", consumer="slow", count=count, ack="each" if track.near else "none")
    track.sleep(3.5)
    track.do("slow", "receive", consumer="slow", count=count, fewer=True, timeout_ms=1000)
    track.sleep(0.5)
    track.stats(topic)

    def problems(log: Log) -> Iterable[Problem]:
        again = log.redelivered(track.who("slow"))
        number, text = (again, 5 * count), r"redelivered (\d+) time"  # the application need not receive all of them
        found = Problem("redelivered-after-ack-timeout", {"subscription": "qu"}, "application", number, text)
        return [found] if again else []

    track.expect(problems)
    if not track.near:
        track.allowed.add("ack-timeout-too-short")  # it acknowledges the second delivery as late


@recipe(quick=False)
def checkpoints(track: Track) -> None:
    """Checkpoint consumers of a group, one of which joins later, over a split. It is healthy."""
    topic = track.scalable(segments=2)
    listen(track, topic, "c1", "checkpoint")
    sender = Sender(track, topic)
    sender.send(40)
    track.sleep(1)
    listen(track, topic, "c2", "checkpoint")
    sender.send(40)
    track.sleep(1)
    track.rest("POST", topic, "split/0")
    sender.send(40)
    track.sleep(1.5)


@recipe(quick=False)
def shared_segment(track: Track) -> None:
    """More stream consumers than segments, so that they share entry buckets. It is healthy."""
    topic = track.scalable(segments=1)
    sender = Sender(track, topic, batch=track.pick(0, 0, 20))
    for name in ("s1", "s2", "s3")[: track.draw(2, 3)]:
        listen(track, topic, name)
        track.sleep(0.6)
        sender.send(60)
    track.sleep(1)
    track.do("s1", "close_consumer", consumer="s1")
    track.sleep(0.6)
    sender.send(40)
    track.sleep(1)
    track.stats(topic)


@recipe()
def acks_in_transactions(track: Track) -> None:
    """A queue consumer that acknowledges in transactions, which are committed or aborted. It is healthy."""
    topic, count = track.scalable(segments=2), track.draw(5, 20)
    track.do("q1", "client", transactions=True)
    subscribe(track, topic, "q1", "queue")
    Sender(track, topic).send(count)
    track.do("q1", "receive", consumer="q1", count=count, ack="none")
    track.do("q1", "begin", txn="t1")
    track.do("q1", "ack", consumer="q1", count=count // 2, txn="t1")
    track.do("q1", "commit", txn="t1")
    track.do("q1", "ack", consumer="q1")
    track.sleep(1)
    track.stats(topic)
