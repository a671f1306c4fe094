"""Recipes: scalable topics of Pulsar 5 with applications that use the V5 client."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import V5_CLIENT, Problem, Track
from scenarios.diagnosis.recipes.registry import recipe as any_recipe

recipe = partial(any_recipe, clients=(V5_CLIENT,))

_KEYS = [f"k{number}" for number in range(40)]


def _listen(track: Track, topic: str, name: str, kind: str = "stream", subscription: str = "", **options) -> None:
    """Add an application with a consumer that receives and acknowledges all the time."""
    ack = options.pop("ack", "each")
    _subscribe(track, topic, name, kind, subscription, **options)
    track.do(name, "consume", consumer=name, ack=ack, nacks=options.pop("nacks", []))


def _subscribe(track: Track, topic: str, name: str, kind: str = "stream", subscription: str = "", **options) -> None:
    to = subscription or {"stream": "st", "queue": "qu", "checkpoint": "cp"}[kind]
    track.do(name, "subscribe", consumer=name, topic=topic, subscription=to, type=kind, **options)


def _produce(track: Track, topic: str, **options) -> None:
    track.do("maker", "producer", producer="maker", topic=topic, **options)


class _Sender:
    """Sends messages with consecutive numbers."""

    def __init__(self, track: Track, topic: str, **options) -> None:
        self._track, self._next = track, 0
        _produce(track, topic, **options)

    def send(self, count: int, **options) -> None:
        options = {"keys": _KEYS, **options}
        self._track.do("maker", "send", producer="maker", first=self._next, count=count, **options)
        self._next += count


def _controlled(track: Track, topic: str, name: str) -> dict[str, str]:
    """Return the subject of a finding about a registered stream consumer."""
    return {"topic": topic, "subscription": "st", "consumer": track.who(name)}


@recipe(quick=False)
def changes_under_load(track: Track) -> None:
    """A topic that is split and rebucketed, and merged, while messages are sent. It is healthy."""
    topic = track.scalable(segments=track.draw(1, 3))
    for name, kind in (("s1", "stream"), ("q1", "queue")):
        _listen(track, topic, name, kind)
    sender = _Sender(track, topic, batch=track.pick(0, 0, 20))
    sender.send(track.draw(20, 60))
    for change in track.pick(["split/0"], ["split/0", "rebucket/{}?bucketCount=3"], ["rebucket/0?bucketCount=8"]):
        first = int(track.steps[0]["path"].rpartition("=")[2])
        sender.send(300, interval_ms=3, wait=False)
        track.sleep(0.3)
        track.rest("POST", topic, change.format(first))
        track.sleep(3)
    sender.send(30)
    track.sleep(1.5)
    track.stats(topic)


@recipe("segment-unattended", quick=False)
def joins_and_leaves(track: Track) -> None:
    """A stream consumer whose client is closed, but not the consumer. Near miss: consumers join and leave in order."""
    topic = track.scalable(segments=track.draw(2 if track.near else 3, 4))  # no segment is shared unless all leave well
    _listen(track, topic, "s1")
    sender = _Sender(track, topic)
    for name in ("s2", "s3"):
        sender.send(40)
        _listen(track, topic, name)
        track.sleep(1)
    sender.send(40)
    if track.near:
        track.do("s2", "close_consumer", consumer="s2")
    else:
        track.do("s2", "close_client")
        track.expect(Problem("segment-unattended", _controlled(track, topic, "s2"), "application"))
    track.sleep(1)
    sender.send(40)
    track.sleep(2)
    track.stats(topic)


@recipe("segment-unattended", quick=False)
def crashed_stream_consumer(track: Track) -> None:
    """A stream consumer whose process is killed. Near miss: it is closed in order."""
    topic = track.scalable(segments=track.draw(2, 4))
    _listen(track, topic, "s1")
    _listen(track, topic, "victim")
    sender = _Sender(track, topic)
    sender.send(40)
    track.sleep(1)
    if track.near:
        track.do("victim", "close_consumer", consumer="victim")
        track.do("victim", "exit")
    else:
        track.drive("kill", of="victim")
        track.expect(Problem("segment-unattended", _controlled(track, topic, "victim"), "application"))
    track.sleep(track.pick(1.5, 3, 7))  # before or after the end of the grace period
    sender.send(40)
    track.sleep(1.5)
    track.stats(topic)


@recipe("segment-not-released", quick=False)
def kept_segment(track: Track) -> None:
    """A stream consumer that is stopped while its segment is handed over. Near miss: it runs."""
    topic = track.scalable(segments=2)
    _listen(track, topic, "old")
    sender = _Sender(track, topic)
    sender.send(40)
    track.sleep(1)
    if track.near:
        _listen(track, topic, "young")
    else:
        track.drive("pause", of="old")
        _subscribe(track, topic, "young", wait=False)
        track.do("young", "consume", consumer="young", wait=False)
        subject = _controlled(track, topic, "young")
        track.expect(Problem("segment-not-released", subject, "application"))
        track.allowed |= {"paused-client", "keep-alive-missed", "segment-unattended"}
    track.sleep(7)
    sender.send(10)
    track.sleep(0.5)


@recipe("parent-not-drained", quick=False)
def unacknowledged_parent(track: Track) -> None:
    """A stream consumer that does not acknowledge before a split. Near miss: it acknowledges then."""
    topic, count = track.scalable(segments=1), track.draw(5, 40)
    _subscribe(track, topic, "s1")
    sender = _Sender(track, topic)
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


@recipe("layout-swings", quick=False)
def swinging_layout(track: Track) -> None:
    """A topic that is split and merged again twice. Near miss: other segments are merged."""
    topic = track.scalable(segments=2)
    kind = track.pick("stream", "queue")
    _listen(track, topic, "reader", kind)
    sender = _Sender(track, topic)
    sender.send(20)
    changes = ["split/0", "merge/1/3"] if track.near else ["split/0", "merge/2/3", "split/4", "merge/5/6"]
    for change in changes:
        track.rest("POST", topic, change)
        track.sleep(track.pick(0.8, 2.5))
        sender.send(20)
    track.sleep(5)
    track.stats(topic)
    if not track.near:
        track.expect(Problem("layout-swings", {"topic": topic}, "broker", (3, 3)))


@recipe("skewed-segments")
def skewed_keys(track: Track) -> None:
    """Most messages have one key. Near miss: keys with many values."""
    topic = track.scalable(segments=2)
    _listen(track, topic, "q1", "queue")
    sender = _Sender(track, topic, batch=track.pick(0, 100))
    sender.send(1100, keys=_KEYS if track.near else ["k1"])
    sender.send(60)
    track.sleep(1)
    track.stats(topic)
    if not track.near:
        track.expect(Problem("skewed-segments", {"topic": topic}, "application"))


@recipe("request-refused", "producer-refused", "subscribe-refused")
def classic_client(track: Track) -> None:
    """A client that does not know scalable topics opens the name of one. Near miss: a classic topic."""
    topic = track.scalable("orders")
    classic = topic.replace("topic://", "persistent://")
    track.clients["old"] = track.pick("python", "java")
    _listen(track, topic, "q1", "queue")
    sender = _Sender(track, topic)
    sender.send(20)
    which = f"{classic}-old" if track.near else classic
    track.do("old", "producer", producer="old", topic=which, fails=not track.near)
    if not track.near:
        track.expect(Problem("request-refused", {"request": "PARTITIONED_METADATA"}, "application"))
    track.sleep(1)
    track.stats(topic)


@recipe("scalable-name-as-topic")
def name_as_topic(track: Track) -> None:
    """A PRODUCER or SUBSCRIBE with the name of a scalable topic. Near miss: the name of a classic topic."""
    topic = track.scalable()
    _listen(track, topic, "q1", "queue")
    _Sender(track, topic).send(20)
    name = topic.replace("topic://", "persistent://") + "-old" if track.near else topic
    track.raw("raw", "open")
    track.raw("raw", "send", name="LOOKUP", fields={"topic": name})
    if track.pick(True, False):
        track.raw("raw", "send", name="PRODUCER", fields={"topic": name, "producer_id": 1, "producer_name": "raw"})
    else:
        fields = {"topic": name, "subscription": "raw", "subType": "Shared", "consumer_id": 1, "consumer_name": "raw"}
        track.raw("raw", "send", name="SUBSCRIBE", fields=fields)
    if not track.near:
        track.expect(Problem("scalable-name-as-topic", {"topic": topic}, "application"))
    track.sleep(0.5)


@recipe("poison-message", quick=False)
def dead_letters(track: Track) -> None:
    """Messages that are rejected until they are dead letters. Near miss: they are accepted before."""
    topic, limit, bad = track.scalable(segments=track.draw(1, 3)), track.draw(1, 2), track.draw(1, 4)
    dead = track.scalable("dead")
    _subscribe(track, topic, "picky", "queue", nack_delay_ms=300, dead_letter=[limit, dead])
    _Sender(track, topic).send(bad, one_by_one=True)
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
    _listen(track, topic, "q1", "queue", "both")
    sender = _Sender(track, topic)
    sender.send(40)
    if track.near:
        _listen(track, topic, "s1")
    else:
        _subscribe(track, topic, "s1", "stream", "both", wait=False)
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
    _subscribe(track, topic, "lazy", "queue")
    _Sender(track, topic).send(count)
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
    _subscribe(track, topic, "victim", "queue")
    _Sender(track, topic).send(count)
    track.do("victim", "receive", consumer="victim", count=count, ack="each" if track.near else "none")
    track.sleep(0.5)
    _listen(track, topic, "heir", "queue")
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
    _subscribe(track, topic, "slow", "queue", ack_timeout_ms=2000)
    _Sender(track, topic).send(count, one_by_one=True)
    track.do("slow", "receive", consumer="slow", count=count, ack="each" if track.near else "none")
    track.sleep(3.5)
    track.do("slow", "receive", consumer="slow", count=count, fewer=True, timeout_ms=1000)
    track.sleep(0.5)
    track.stats(topic)

    def problems(log: Log) -> Iterable[Problem]:
        again = log.redelivered(track.who("slow"))
        text = r"redelivered (\d+) time"
        found = Problem("redelivered-after-ack-timeout", {"subscription": "qu"}, "application", (again, again), text)
        return [found] if again else []

    track.expect(problems)


@recipe(quick=False)
def checkpoints(track: Track) -> None:
    """Checkpoint consumers of a group, one of which joins later, over a split. It is healthy."""
    topic = track.scalable(segments=2)
    _listen(track, topic, "c1", "checkpoint")
    sender = _Sender(track, topic)
    sender.send(40)
    track.sleep(1)
    _listen(track, topic, "c2", "checkpoint")
    sender.send(40)
    track.sleep(1)
    track.rest("POST", topic, "split/0")
    sender.send(40)
    track.sleep(1.5)


@recipe(quick=False)
def shared_segment(track: Track) -> None:
    """More stream consumers than segments, so that they share entry buckets. It is healthy."""
    topic = track.scalable(segments=1)
    sender = _Sender(track, topic, batch=track.pick(0, 0, 20))
    for name in ("s1", "s2", "s3")[: track.draw(2, 3)]:
        _listen(track, topic, name)
        track.sleep(0.6)
        sender.send(60)
    track.sleep(1)
    track.do("s1", "close_consumer", consumer="s1")
    track.sleep(0.6)
    sender.send(40)
    track.sleep(1)
    track.stats(topic)


@recipe(quick=False, settings=("scalableTopicAutoScaleIntervalSeconds=3", "statsUpdateFrequencyInSecs=2"))
def automatic_changes(track: Track) -> None:
    """A topic that the controller splits. Near miss: a policy that it does not exceed. Both are healthy."""
    topic = track.scalable(segments=1)
    rate = 100_000 if track.near else 30
    policy = {"splitMsgRateInThreshold": rate, "mergeMsgRateInThreshold": 5, "splitVsRebucketMinMsgRateInThreshold": 5}
    policy |= {"splitCooldownSeconds": 60, "mergeWindowSeconds": 300, "mergeCooldownSeconds": 300}
    track.rest("POST", topic, "autoScalePolicy", policy)
    track.features.add("split")
    _listen(track, topic, "s1")
    _listen(track, topic, "q1", "queue")
    sender = _Sender(track, topic)
    for _ in range(2):
        sender.send(700, interval_ms=8)
    track.sleep(3)
    track.stats(topic)


@recipe(quick=False)
def migration(track: Track) -> None:
    """A classic topic with V5 clients that is migrated. It is healthy."""
    classic = track.topic("old", partitions=track.pick(0, 2))
    topic = classic.replace("persistent://", "topic://")
    _listen(track, classic, "q1", "queue")
    sender = _Sender(track, classic)
    sender.send(40)
    track.sleep(1)
    track.rest("POST", topic, "migrate")
    track.sleep(1.5)
    sender.send(40)
    _listen(track, topic, "s1")
    track.sleep(4)
    track.stats(topic)


@recipe("classic-topic-in-transaction")
def mixed_transaction(track: Track) -> None:
    """A transaction over a scalable and a classic topic. Near miss: over two scalable topics."""
    topic, other = track.scalable(segments=2), track.scalable("other") if track.near else track.topic("other")
    _listen(track, topic, "s1")
    _listen(track, topic, "q1", "queue")
    track.do("maker", "client", transactions=True)
    track.do("maker", "begin", txn="t1")
    for name, to in (("maker", topic), ("second", other)):
        track.do("maker", "producer", producer=name, topic=to)
        track.do("maker", "send", producer=name, count=track.draw(2, 10), keys=_KEYS, txn="t1")
    end = track.pick("commit", "commit", "abort")
    track.do("maker", end, txn="t1")
    track.do("maker", "send", producer="maker", first=100, count=10, keys=_KEYS)
    track.sleep(1)
    track.stats(topic)
    if not track.near:
        track.expect(Problem("classic-topic-in-transaction", {}, "broker", (1, 1)))


@recipe()
def acks_in_transactions(track: Track) -> None:
    """A queue consumer that acknowledges in transactions, which are committed or aborted. It is healthy."""
    topic, count = track.scalable(segments=2), track.draw(5, 20)
    track.do("q1", "client", transactions=True)
    _subscribe(track, topic, "q1", "queue")
    _Sender(track, topic).send(count)
    track.do("q1", "receive", consumer="q1", count=count, ack="none")
    track.do("q1", "begin", txn="t1")
    track.do("q1", "ack", consumer="q1", count=count // 2, txn="t1")
    track.do("q1", "commit", txn="t1")
    track.do("q1", "ack", consumer="q1")
    track.sleep(1)
    track.stats(topic)


@recipe("segment-unattended", quick=False)
def changing_lives(track: Track) -> None:
    """Random changes of the layout and of the consumers under load. Near miss: no consumer is killed."""
    segments = track.draw(1, 3)
    topic = track.scalable(segments=segments)
    layout = _Layout(track, topic, segments)
    sender = _Sender(track, topic, batch=track.pick(0, 20))
    streams, queues, count = ["s0"], ["q0"], 1
    _listen(track, topic, "s0")
    _listen(track, topic, "q0", "queue")
    for _ in range(track.draw(4, 7)):
        sender.send(track.draw(30, 150), interval_ms=3, wait=False)
        action = track.pick("join", "leave", "queue joins", "queue leaves", "change", "change", "kill")
        if action in ("join", "queue joins"):
            kind, names = ("stream", streams) if action == "join" else ("queue", queues)
            names.append(f"{kind[0]}{count}")
            _listen(track, topic, names[-1], kind)
            count += 1
        elif action in ("leave", "queue leaves"):
            names = streams if action == "leave" else queues
            if len(names) > 1:
                gone = names.pop(track.draw(0, len(names) - 1))
                track.do(gone, "close_consumer", consumer=gone)
        elif action == "change":
            layout.change()
        elif not track.near and len(streams) > 1:
            track.drive("kill", of=streams.pop())
            track.allowed |= {"segment-unattended", "never-acked"}
        track.sleep(track.pick(0.3, 1, 2.5))
    track.allowed |= {"layout-swings"}
    sender.send(30)
    track.sleep(9)  # longer than the grace period and the drain of two generations
    track.stats(topic)


class _Layout:
    """The active segments of a topic, in the order of their ranges, as an administrator changes them."""

    def __init__(self, track: Track, topic: str, segments: int) -> None:
        self._track, self._topic = track, topic
        self._active, self._next = list(range(segments)), segments

    def change(self) -> None:
        """Split, merge or rebucket random segments."""
        kind = self._track.pick("split", "split", "merge", "rebucket") if len(self._active) > 1 else "split"
        at = self._track.draw(0, len(self._active) - (2 if kind == "merge" else 1))
        old = self._active[at : at + 2] if kind == "merge" else self._active[at : at + 1]
        new = list(range(self._next, self._next + (2 if kind == "split" else 1)))
        self._active[at : at + len(old)] = new
        self._next += len(new)
        names = "/".join(map(str, old))
        self._track.rest("POST", self._topic, f"{kind}/{names}" + ("?bucketCount=4" if kind == "rebucket" else ""))
