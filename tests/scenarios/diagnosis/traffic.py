"""Healthy traffic: no finding about it may be above a note."""

from __future__ import annotations

from scenarios.diagnosis.plan import V5_CLIENT, Track


def healthy(track: Track) -> None:
    """Add producers and consumers of random kinds that work as intended."""
    if track.client == V5_CLIENT:
        _scalable(track)
        return
    kind = track.pick(*["busy"] * 6, "pattern", "compacted")
    if kind == "busy" or track.client != "python":
        _busy(track)
    elif kind == "pattern":
        _pattern(track)
    else:
        _compacted(track)


def _scalable(track: Track) -> None:
    """Add a scalable topic with a stream consumer and a queue consumer."""
    topic = track.scalable("busy", segments=track.draw(1, 3))
    for name, kind in (("one", "stream"), ("two", "queue"))[: track.draw(1, 2)]:
        track.do("app", "subscribe", consumer=name, topic=topic, subscription=kind, type=kind)
        track.do("app", "consume", consumer=name, work_ms=track.pick(0, 0, 2))
    track.do(
        "app", "producer", producer="maker", topic=topic, batch=track.pick(0, 0, 20), unnamed=track.pick(True, False)
    )
    keys = [f"k{number}" for number in range(9)]
    for part in range(3):
        track.do("app", "send", producer="maker", first=part * 80, count=track.draw(10, 80), keys=keys)
        track.sleep(0.5)
    track.stats(topic)


def _pattern(track: Track) -> None:
    """Add a consumer of two topics by a pattern."""
    for number, name in enumerate(("one", "two")):
        topic = track.topic(f"some-{name}", partitions=2 * number)
        track.do("app", "producer", producer=name, topic=topic)
        track.do("app", "send", producer=name, count=track.draw(5, 20))
    pattern = f"persistent://{track.namespace}/some-.*"
    track.do("app", "subscribe", consumer="all", topic=pattern, pattern=True, subscription="fine", type="Shared")
    track.do("app", "consume", consumer="all")
    track.do("app", "send", producer="one", first=20, count=10)
    track.sleep(0.6)


def _compacted(track: Track) -> None:
    """Add a reader of a compacted topic, and a consumer that receives all messages."""
    topic, keys = track.topic("busy"), ["a", "b", "c"]
    track.do("app", "subscribe", consumer="all", topic=topic, subscription="fine", type="Exclusive")
    track.do("app", "consume", consumer="all")
    track.do("app", "producer", producer="maker", topic=topic)
    track.do("app", "send", producer="maker", count=track.draw(10, 40), keys=keys)
    track.rest("PUT", topic, "compaction")
    track.sleep(1.5)
    track.do("app", "send", producer="maker", first=40, count=5, keys=keys)
    track.do("app", "read", reader="view", topic=topic, compacted=True, count=100)
    track.sleep(0.4)
    track.stats(topic)


def _busy(track: Track) -> None:
    """Add one topic with producers and consumers."""
    kind = track.pick("Exclusive", "Shared", "Failover", "Key_Shared")
    persistent = track.pick(True, True, True, False)
    topic = track.topic("busy", partitions=track.pick(0, 0, 2), persistent=persistent)
    names = ["one", "two"] if kind in ("Shared", "Key_Shared") and track.pick(True, False) else ["one"]
    queue = track.pick(1000, 1000, 10, 50) if persistent else 1000
    batch = 0 if kind == "Key_Shared" else track.pick(0, 0, 3, 20)
    for name in names:
        track.do("app", "subscribe", consumer=name, topic=topic, subscription="fine", type=kind, queue=queue)
        track.do("app", "consume", consumer=name, work_ms=track.pick(0, 0, 5))
    chunking = not batch and persistent and track.pick(False, False, True)
    track.do(
        "app",
        "producer",
        producer="maker",
        topic=topic,
        batch=batch,
        chunking=chunking,
        compression=track.pick("NONE", "LZ4", "ZLIB", "ZSTD"),
    )
    keys = [f"k{number}" for number in range(5)]
    total, size = track.draw(20, 80), track.pick(20, 200, 3000)
    for part in range(3):
        track.do(
            "app",
            "send",
            producer="maker",
            first=part * total,
            count=total // (1 + part),
            size=size,
            keys=keys,
            interval_ms=track.pick(0, 3),
        )
        track.sleep(0.3)
    track.sleep(0.4)
    track.stats(topic) if "partitions" not in str(track.steps[0]) else None
    if track.pick(True, False):
        for name in names:
            track.do("app", "close_consumer", consumer=name)
        track.do("app", "close_producer", producer="maker")
