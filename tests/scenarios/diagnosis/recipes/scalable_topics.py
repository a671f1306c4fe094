"""Recipes: layouts of scalable topics of Pulsar 5, and clients of the wrong kind."""

from __future__ import annotations

from scenarios.diagnosis.plan import Problem, Track
from scenarios.diagnosis.recipes.v5_clients import KEYS, Sender, listen, recipe, subscribe


@recipe(quick=False)
def changes_under_load(track: Track) -> None:
    """A topic that is split and rebucketed, and merged, while messages are sent. It is healthy."""
    topic = track.scalable(segments=track.draw(1, 3))
    for name, kind in (("s1", "stream"), ("q1", "queue")):
        listen(track, topic, name, kind)
    sender = Sender(track, topic, batch=track.pick(0, 0, 20))
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


@recipe("layout-swings", quick=False)
def swinging_layout(track: Track) -> None:
    """A topic that is split and merged again twice. Near miss: other segments are merged."""
    topic = track.scalable(segments=2)
    kind = track.pick("stream", "queue")
    listen(track, topic, "reader", kind)
    sender = Sender(track, topic)
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
    listen(track, topic, "q1", "queue")
    sender = Sender(track, topic, batch=track.pick(0, 100))
    sender.send(1100, keys=KEYS if track.near else ["k1"])
    sender.send(60)
    track.sleep(1)
    track.stats(topic)
    if not track.near:
        track.expect(Problem("skewed-segments", {"topic": topic}, "application"))


@recipe("key-order-across-segments", quick=False)
def split_of_a_backlog(track: Track) -> None:
    """A queue consumer that consumes after a split what was sent before. Near miss: it consumes before the split."""
    topic = track.scalable(segments=1)
    subscribe(track, topic, "q1", "queue", queue=track.draw(3, 8))
    if track.near:
        track.do("q1", "consume", consumer="q1")
    sender = Sender(track, topic, batch=track.pick(0, 5))
    sender.send(60)
    track.sleep(1)
    track.rest("POST", topic, "split/0")
    track.sleep(1)
    sender.send(60)
    if not track.near:
        track.expect(Problem("key-order-across-segments", {"topic": topic, "subscription": "qu"}, "application"))
        track.do("q1", "consume", consumer="q1")
    track.sleep(2)
    track.stats(topic)


@recipe("scalable-name-refused", "request-refused")
def classic_client(track: Track) -> None:
    """A client that does not know scalable topics opens the name of one. Near miss: a classic topic."""
    topic = track.scalable("orders")
    classic = topic.replace("topic://", "persistent://")
    track.clients["old"] = track.pick("python", "java")
    listen(track, topic, "q1", "queue")
    sender = Sender(track, topic)
    sender.send(20)
    which = f"{classic}-old" if track.near else classic
    if track.pick(True, False):
        track.do("old", "producer", producer="old", topic=which, fails=not track.near)
    else:
        options = {"subscription": "work", "type": "Shared"}
        track.do("old", "subscribe", consumer="old", topic=which, fails=not track.near, **options)
    if not track.near:
        track.expect(Problem("scalable-name-refused", {"topic": topic}, "application", certain=True))
        track.expect(Problem("request-refused", {"request": "PARTITIONED_METADATA"}, "application"))
    track.sleep(1)
    track.stats(topic)


@recipe("scalable-name-as-topic")
def name_as_topic(track: Track) -> None:
    """A PRODUCER or SUBSCRIBE with the name of a scalable topic. Near miss: the name of a classic topic."""
    topic = track.scalable()
    listen(track, topic, "q1", "queue")
    Sender(track, topic).send(20)
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


@recipe(quick=False, settings=("scalableTopicAutoScaleIntervalSeconds=3", "statsUpdateFrequencyInSecs=2"))
def automatic_changes(track: Track) -> None:
    """A topic that the controller splits. Near miss: a policy that it does not exceed. Both are healthy."""
    topic = track.scalable(segments=1)
    rate = 100_000 if track.near else 30
    policy = {"splitMsgRateInThreshold": rate, "mergeMsgRateInThreshold": 5, "splitVsRebucketMinMsgRateInThreshold": 5}
    policy |= {"splitCooldownSeconds": 60, "mergeWindowSeconds": 300, "mergeCooldownSeconds": 300}
    track.rest("POST", topic, "autoScalePolicy", policy)
    track.features.add("split")
    listen(track, topic, "s1")
    listen(track, topic, "q1", "queue")
    sender = Sender(track, topic)
    for _ in range(2):
        sender.send(700, interval_ms=8)
    track.sleep(3)
    track.stats(topic)


@recipe(quick=False, settings=("scalableTopicAutoScaleIntervalSeconds=3", "statsUpdateFrequencyInSecs=2"))
def automatic_merge(track: Track) -> None:
    """An idle topic whose segments the controller merges. Near miss: the merge window is long. Both are healthy."""
    topic = track.scalable(segments=track.draw(2, 3))
    policy = {"splitMsgRateInThreshold": 1000, "mergeMsgRateInThreshold": 100, "mergeCooldownSeconds": 4}
    policy |= {"mergeWindowSeconds": 300 if track.near else 4, "splitVsRebucketMinMsgRateInThreshold": 500}
    track.rest("POST", topic, "autoScalePolicy", policy)
    track.features.add("merge")
    listen(track, topic, "s1")
    listen(track, topic, "q1", "queue")
    sender = Sender(track, topic, batch=track.pick(0, 20))
    for _ in range(4):
        sender.send(30)
        track.sleep(4)
    track.stats(topic)


@recipe(quick=False)
def migration(track: Track) -> None:
    """A classic topic with V5 clients that is migrated. It is healthy."""
    classic = track.topic("old", partitions=track.pick(0, 2))
    topic = classic.replace("persistent://", "topic://")
    listen(track, classic, "q1", "queue")
    sender = Sender(track, classic)
    sender.send(40)
    track.sleep(1)
    track.rest("POST", topic, "migrate")
    track.sleep(1.5)
    sender.send(40)
    listen(track, topic, "s1")
    track.sleep(4)
    track.stats(topic)


@recipe("producer-refused", quick=False)
def forced_migration(track: Track) -> None:
    """A classic topic that is migrated while an old client is connected. Near miss: it is closed before."""
    classic = track.topic("old", partitions=track.pick(0, 2))
    topic = classic.replace("persistent://", "topic://")
    track.clients["old"] = "java"
    track.do("old", "producer", producer="old", topic=classic)
    track.do("old", "send", producer="old", count=20)
    listen(track, classic, "q1", "queue")
    track.sleep(1)
    if track.near:
        track.do("old", "close_producer", producer="old")
        track.sleep(0.3)
    track.rest("POST", topic, "migrate?force=true")
    track.sleep(3)
    Sender(track, topic).send(20)
    track.sleep(1)
    track.stats(topic)
    if not track.near:
        track.expect(Problem("producer-refused", {}, "application|broker"))


@recipe(quick=False)
def automatic_rebucket(track: Track) -> None:
    """More stream consumers than segments and buckets, so that the controller divides all segments. It is healthy."""
    topic = track.scalable(segments=4)  # four segments have one bucket each
    track.features.add("rebucket")
    sender = Sender(track, topic, batch=track.pick(0, 20))
    for number in range(track.draw(5, 6)):
        listen(track, topic, f"s{number}")
        sender.send(40)
        track.sleep(0.4)
    track.sleep(5)
    sender.send(40)
    track.sleep(1)
    track.stats(topic)


@recipe("classic-topic-in-transaction")
def mixed_transaction(track: Track) -> None:
    """A transaction over a scalable and a classic topic. Near miss: over two scalable topics."""
    topic, other = track.scalable(segments=2), track.scalable("other") if track.near else track.topic("other")
    listen(track, topic, "s1")
    listen(track, topic, "q1", "queue")
    track.do("maker", "client", transactions=True)
    track.do("maker", "begin", txn="t1")
    for name, to in (("maker", topic), ("second", other)):
        track.do("maker", "producer", producer=name, topic=to)
        track.do("maker", "send", producer=name, count=track.draw(2, 10), keys=KEYS, txn="t1")
    end = track.pick("commit", "commit", "abort")
    track.do("maker", end, txn="t1")
    track.do("maker", "send", producer="maker", first=100, count=10, keys=KEYS)
    track.sleep(1)
    track.stats(topic)
    if not track.near:
        track.expect(Problem("classic-topic-in-transaction", {}, "broker", (1, 1)))


@recipe("no-controller", quick=False)
def topic_without_controller(track: Track) -> None:
    """A topic with a producer and a queue consumer only. Near miss: a stream consumer registers."""
    topic = track.scalable(segments=track.draw(1, 3))
    listen(track, topic, "q1", "queue")
    if track.near:
        listen(track, topic, "s1")
    sender = Sender(track, topic)
    for _ in range(4):
        sender.send(20)
        track.sleep(16)
    if not track.near:
        track.expect(Problem("no-controller", {"topic": topic}, "broker"))


@recipe(quick=False)
def unloaded_namespace(track: Track) -> None:
    """A namespace that is unloaded, so that all clients connect again. It is healthy."""
    topic = track.scalable(segments=track.draw(1, 3))
    listen(track, topic, "s1")
    listen(track, topic, "q1", "queue")
    sender = Sender(track, topic, batch=track.pick(0, 20))
    sender.send(60)
    track.sleep(0.5)
    sender.send(300, interval_ms=5, wait=False)
    track.steps.append({"do": "rest", "method": "PUT", "path": f"namespaces/{track.namespace}/unload"})
    track.features |= {"unload", "outage"}  # the client sends messages again whose receipts it did not wait for
    track.allowed.add("ack-lost")  # the broker delivers messages again that were acknowledged shortly before
    track.sleep(3)
    sender.send(40)
    track.sleep(1)
    track.stats(topic)


@recipe("segment-unattended", quick=False)
def changing_lives(track: Track) -> None:
    """Random changes of the layout and of the consumers under load. Near miss: no consumer is killed."""
    segments = track.draw(1, 3)
    topic = track.scalable(segments=segments)
    layout = _Layout(track, topic, segments)
    sender = Sender(track, topic, batch=track.pick(0, 20))
    streams, queues, count = ["s0"], ["q0"], 1
    listen(track, topic, "s0")
    listen(track, topic, "q0", "queue")
    for _ in range(track.draw(4, 7)):
        sender.send(track.draw(30, 150), interval_ms=3, wait=False)
        action = track.pick("join", "leave", "queue joins", "queue leaves", "change", "change", "kill")
        if action in ("join", "queue joins"):
            kind, names = ("stream", streams) if action == "join" else ("queue", queues)
            names.append(f"{kind[0]}{count}")
            listen(track, topic, names[-1], kind)
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
