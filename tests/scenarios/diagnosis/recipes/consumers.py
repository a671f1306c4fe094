"""Recipes: consumers that receive nothing, and messages that are not acknowledged."""

from __future__ import annotations

from scenarios.diagnosis.plan import CLIENTS, Problem, Track
from scenarios.diagnosis.recipes.registry import recipe

_STALL_S = 3.3
"""Longer than the silence after which the diagnosis infers that a consumer is blocked."""

_HELD = r"(?:holds|held|left) (\d+) unacknowledged"


def _consumer(track: Track, name: str, topic: str) -> dict[str, str]:
    return {"topic": topic, "subscription": "work", "consumer": track.who(name)}


def _never_acked(track: Track, name: str, topic: str) -> None:
    """Expect never-acked with the number of messages from the log."""

    def problems(log):
        count = log.unacked(track.who(name))
        return [Problem("never-acked", _consumer(track, name, topic), "application", (count, count), _HELD)]

    track.expect(problems)


@recipe("stuck-unacked-limit", clients=CLIENTS)
def unacked_limit(track: Track) -> None:
    """A consumer that reaches maxUnackedMessagesPerConsumer. Near miss: it receives all messages and acks none."""
    limit, topic = track.draw(6, 30), track.topic()
    queue = track.pick(limit // 2, limit, 2 * limit, 1000)
    near = track.near
    track.policy("maxUnackedMessagesPerConsumer", 2000 if near else limit)
    track.do("lazy", "subscribe", consumer="lazy", topic=topic, subscription="work", type="Shared", queue=queue)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=limit + queue if near else 2 * limit + 5, one_by_one=True)
    track.do("lazy", "receive", consumer="lazy", count=limit + queue if near else limit, ack="none")
    track.sleep(_STALL_S)
    track.stats(topic)
    if near:
        _never_acked(track, "lazy", topic)
        return
    track.features.add("limit")
    track.allowed |= {"never-acked"}
    text = r"held (\d+) unacknowledged"
    track.expect(Problem("stuck-unacked-limit", _consumer(track, "lazy", topic), "application", (limit, limit), text))


@recipe("stuck-unacked-limit", clients=CLIENTS)
def subscription_limit(track: Track) -> None:
    """Consumers that reach maxUnackedMessagesPerSubscription together. Near miss: one of them acknowledges."""
    limit, topic = 2 * track.draw(5, 15), track.topic()
    if not track.near:
        track.policy("maxUnackedMessagesPerSubscription", limit)
        track.features.add("limit")
    names = ("one", "two")
    for name in names:
        track.do(name, "subscribe", consumer=name, topic=topic, subscription="work", type="Shared", queue=1000)
        track.do(name, "consume", consumer=name, ack="each" if track.near else "none")
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=3 * limit, one_by_one=True)
    track.sleep(_STALL_S)
    track.stats(topic)
    if not track.near:
        track.allowed |= {"never-acked"}
        for name in names:
            track.expect(Problem("stuck-unacked-limit", _consumer(track, name, topic), "application"))


@recipe("paused-client")
def application_stops(track: Track) -> None:
    """An application that stops calling receive. Near miss: it continues before anything is noticed."""
    queue, topic = track.draw(4, 20), track.topic()
    kind = track.pick("Shared", "Exclusive", "Failover")
    track.do("slow", "subscribe", consumer="slow", topic=topic, subscription="work", type=kind, queue=queue)
    track.do("maker", "producer", producer="maker", topic=topic)
    count = 3 * queue
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.do("slow", "receive", consumer="slow", count=1, ack="each")
    track.sleep(0.3 if track.near else 2.5)
    track.stats(topic)
    if track.near:
        track.do("slow", "receive", consumer="slow", count=count - 1, ack="each")
    else:
        track.allowed |= {"never-acked"}
        track.expect(Problem("paused-client", _consumer(track, "slow", topic), "application"))


@recipe("paused-client")
def process_paused(track: Track) -> None:
    """A consumer whose process is stopped by SIGSTOP. Near miss: a process that is stopped while nothing waits."""
    queue, topic = track.draw(3, 12), track.topic()
    track.do("frozen", "subscribe", consumer="frozen", topic=topic, subscription="work", type="Shared", queue=queue)
    track.do("frozen", "consume", consumer="frozen", ack="each")
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    track.sleep(0.4)
    track.drive("pause", of="frozen")
    if not track.near:
        track.do("maker", "send", producer="maker", first=5, count=4 * queue, one_by_one=True)
    track.sleep(2.6)
    track.stats(topic)
    if track.near:
        track.drive("resume", of="frozen")
        track.sleep(0.3)
    else:
        track.features.add("kill")  # at the end of the scenario
        track.allowed |= {"never-acked", "keep-alive-missed"}
        track.expect(Problem("paused-client", _consumer(track, "frozen", topic), "application"))


@recipe("never-acked", clients=CLIENTS)
def forgotten_acks(track: Track) -> None:
    """An application that acknowledges some messages only. Near miss: it acknowledges all of them late."""
    count, topic = track.draw(5, 40), track.topic()
    kind = track.pick("Shared", "Exclusive", "Failover", "Key_Shared")
    batch = track.pick(0, 0, 5)
    track.do("careless", "subscribe", consumer="careless", topic=topic, subscription="work", type=kind)
    track.do("maker", "producer", producer="maker", topic=topic, batch=batch)
    track.do("maker", "send", producer="maker", count=count)
    track.do("careless", "receive", consumer="careless", count=count, ack="none")
    acked = track.draw(0, count - 1)
    if acked and not track.near:
        track.do("careless", "ack", consumer="careless", count=acked)
    track.sleep(1.6)
    track.stats(topic)
    if track.near:
        track.do("careless", "ack", consumer="careless")
        track.sleep(0.3)
    elif batch and acked:
        track.allowed |= {"never-acked"}  # the client acknowledges a batch when all its messages are acknowledged
    else:
        _never_acked(track, "careless", topic)


@recipe("stuck-no-permits")
def never_receives(track: Track) -> None:
    """A consumer with a receiver queue of 0 that never calls receive. Near miss: it calls receive."""
    topic = track.topic()
    track.do("idle", "subscribe", consumer="idle", topic=topic, subscription="work", type="Shared", queue=0)
    if track.near:
        track.do("idle", "consume", consumer="idle", zero=True)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=track.draw(1, 20), one_by_one=True)
    track.sleep(1.6)
    track.stats(topic)
    if not track.near:
        track.expect(Problem("stuck-no-permits", _consumer(track, "idle", topic), "application", variant="never-asked"))


@recipe("standby", clients=CLIENTS)
def failover_standby(track: Track) -> None:
    """A standby of a Failover subscription. Near miss: the active consumer leaves and the standby receives the rest."""
    topic = track.topic()
    names = ("one", "two")
    for name in names:
        track.do(name, "subscribe", consumer=name, topic=topic, subscription="work", type="Failover")
        track.do(name, "consume", consumer=name)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.sleep(1.3)  # the broker changes the active consumer after a second
    track.do("maker", "send", producer="maker", count=10, one_by_one=True)
    track.sleep(1)
    track.stats(topic)
    if track.near:
        track.do("one", "close_consumer", consumer="one")
        track.sleep(1.3)
        track.do("maker", "send", producer="maker", first=10, count=10, one_by_one=True)
        track.sleep(0.5)
        return

    def problems(log):
        standbys = [name for name in names if not log.of("received", consumer=track.who(name))]
        return [Problem("standby", _consumer(track, name, topic), "application") for name in standbys]

    track.expect(problems)


@recipe("slots-unowned")
def sticky_gap(track: Track) -> None:
    """A STICKY subscription with slots without a consumer. Near miss: a second consumer has these slots."""
    topic, end = track.topic(), track.draw(10_000, 50_000)
    keys = [f"k{number}" for number in range(40)]
    owners = {"low": [[0, end]], **({"high": [[end + 1, 65_535]]} if track.near else {})}
    for name, ranges in owners.items():
        kind = "Key_Shared"
        track.do(name, "subscribe", consumer=name, topic=topic, subscription="work", type=kind, ranges=ranges)
        track.do(name, "consume", consumer=name)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=40, keys=keys, one_by_one=True)
    track.sleep(1.5)
    track.stats(topic)
    if not track.near:
        subject = {"topic": topic, "subscription": "work"}

        def problems(log):
            left = 40 - len(log.numbers("received", consumer=track.who("low")))
            return [Problem("slots-unowned", subject, "application", (left, left), r"(\d+) entr")] if left else []

        track.expect(problems)


@recipe("stuck-blocked-hash", clients=CLIENTS)
def held_keys(track: Track) -> None:
    """Keys that another consumer holds. Near miss: the holder acknowledges in time."""
    topic, keys = track.topic(), [f"k{number}" for number in range(30)]
    track.do("first", "subscribe", consumer="first", topic=topic, subscription="work", type="Key_Shared")
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=30, keys=keys, one_by_one=True)
    track.do("first", "receive", consumer="first", count=30, ack="none")
    track.do("second", "subscribe", consumer="second", topic=topic, subscription="work", type="Key_Shared")
    track.do("second", "consume", consumer="second")
    if track.near:
        track.do("first", "ack", consumer="first")
        track.sleep(0.5)
    track.do("maker", "send", producer="maker", first=30, count=30, keys=keys, one_by_one=True)
    if track.near:
        track.do("first", "consume", consumer="first")
    track.sleep(1 if track.near else _STALL_S)
    track.stats(topic)
    if not track.near:
        track.allowed |= {"never-acked"}
        track.expect(Problem("stuck-blocked-hash", {"topic": topic, "subscription": "work"}, "application"))


@recipe("messages-dropped")
def dropped(track: Track) -> None:
    """A consumer without permits on a non-persistent topic. Near miss: its queue is large enough."""
    queue, topic = track.draw(4, 20), track.topic(persistent=False)
    track.do(
        "slow",
        "subscribe",
        consumer="slow",
        topic=topic,
        subscription="work",
        type=track.pick("Shared", "Exclusive"),
        queue=1000 if track.near else queue,
    )
    track.do("maker", "producer", producer="maker", topic=topic)
    count = queue + track.draw(5, 50)
    track.do("maker", "send", producer="maker", count=count, one_by_one=True)
    track.sleep(1.5)
    track.stats(topic)
    if not track.near:
        lost = count - queue
        track.allowed |= {"paused-client"}
        subject = {"topic": topic, "subscription": "work"}
        track.expect(Problem("messages-dropped", subject, "application", (lost, lost), r"dropped (\d+) message"))


@recipe("queue-of-one", quick=False)
def queue_of_one(track: Track) -> None:
    """A receiver queue of 1 with long processing. Near miss: short processing."""
    topic, work = track.topic(), 20 if track.near else 1300
    for name in ("one", "two"):
        track.do(name, "subscribe", consumer=name, topic=topic, subscription="work", type="Shared", queue=1)
        track.do(name, "consume", consumer=name, work_ms=work)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=14, one_by_one=True)
    track.sleep(7)
    if not track.near:
        track.allowed |= {"never-acked", "paused-client"}
        for name in ("one", "two"):
            track.expect(Problem("queue-of-one", _consumer(track, name, topic), "application"))
    else:
        track.sleep(0.5)


@recipe("subscribe-refused", clients=CLIENTS)
def consumer_busy(track: Track) -> None:
    """A second consumer of an Exclusive subscription. Near miss: another subscription."""
    topic = track.topic()
    track.do("first", "subscribe", consumer="first", topic=topic, subscription="work", type="Exclusive")
    other = "Shared" if not track.near and track.pick(True, False) else "Exclusive"
    where = "other" if track.near else "work"
    track.do(
        "late",
        "subscribe",
        consumer="late",
        topic=topic,
        subscription=where,
        type=other,
        fails=not track.near,
    )
    track.sleep(0.3)
    if not track.near:
        track.expect(
            Problem("subscribe-refused", _consumer(track, "late", topic), "application", variant="ConsumerBusy")
        )


@recipe("subscription-recreated", clients=CLIENTS)
def recreated(track: Track) -> None:
    """A subscription that is removed and created at Latest. Near miss: created at Earliest."""
    topic, between = track.topic(), track.draw(1, 20)
    common = {"topic": topic, "subscription": "work", "type": "Exclusive"}
    track.do("app", "subscribe", consumer="before", **common)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=10, one_by_one=True)
    track.do("app", "receive", consumer="before", count=10)
    track.sleep(0.3)
    track.do("app", "unsubscribe", consumer="before")
    track.do("maker", "send", producer="maker", first=10, count=between, one_by_one=True)
    track.do("app", "subscribe", consumer="after", position="Earliest" if track.near else "Latest", **common)
    track.do("app", "consume", consumer="after")
    track.do("maker", "send", producer="maker", first=100, count=5, one_by_one=True)
    track.sleep(0.5)
    track.stats(topic)
    if not track.near:
        subject = {"topic": topic, "subscription": "work"}
        text = r"skipped (\d+) message"
        track.expect(Problem("subscription-recreated", subject, "application", (between, between), text))
