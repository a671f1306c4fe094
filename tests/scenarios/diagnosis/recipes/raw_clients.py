"""Recipes that need a raw client: commands, versions and counts that the Python client does not send."""

from __future__ import annotations

from typing import Any

from scenarios.diagnosis.plan import Problem, Track
from scenarios.diagnosis.recipes.registry import recipe


def _subscribe(track: Track, topic: str, **fields: Any) -> dict[str, str]:
    """Subscribe consumer 1 of the client `raw`; return the subject of findings about it."""
    name = track.who("raw")
    common = {"topic": topic, "subscription": "work", "subType": "Shared", "consumer_id": 1, "consumer_name": name}
    track.raw("raw", "send", name="SUBSCRIBE", fields={**common, "initialPosition": "Earliest", **fields})
    return {"topic": topic, "subscription": "work", "consumer": name}


def _flow(track: Track, permits: int) -> None:
    track.raw("raw", "send", name="FLOW", fields={"consumer_id": 1, "messagePermits": permits})


def _lookup(track: Track, topic: str) -> None:
    """Let the broker load the topic; it refuses clients of topics that it has not loaded."""
    track.raw("raw", "send", name="PARTITIONED_METADATA", fields={"topic": topic})
    track.raw("raw", "send", name="LOOKUP", fields={"topic": topic})


def _produce(track: Track, topic: str) -> None:
    """Create producer 1 of the client `raw`."""
    fields = {"topic": topic, "producer_id": 1, "producer_name": track.who("raw")}
    track.raw("raw", "send", name="PRODUCER", fields=fields)


def _publish(track: Track, topic: str, count: int, batch: int = 0) -> None:
    track.do("maker", "producer", producer="maker", topic=topic, batch=batch, batch_ms=200)
    track.do("maker", "send", producer="maker", count=count, one_by_one=not batch)


@recipe("double-subscribe")
def double_subscribe(track: Track) -> None:
    """A second SUBSCRIBE for an open consumer. Near miss: CLOSE_CONSUMER in between."""
    topic = track.topic()
    track.raw("raw", "open")
    _lookup(track, topic)
    subject = _subscribe(track, topic)
    _flow(track, 10)
    if track.near:
        track.raw("raw", "send", name="CLOSE_CONSUMER", fields={"consumer_id": 1})
    _subscribe(track, topic)
    _flow(track, 10)
    track.sleep(0.3)
    if not track.near:
        track.allowed |= {"permits-doubled"}
        track.expect(Problem("double-subscribe", subject, "client"))


@recipe("permits-doubled")
def doubled_permits(track: Track) -> None:
    """A client that requests its whole queue twice. Near miss: it requests the second half after delivery."""
    topic, queue = track.topic(), 2 * track.draw(5, 50)
    track.raw("raw", "open")
    _lookup(track, topic)
    subject = _subscribe(track, topic)
    _publish(track, topic, 5 * queue)
    _flow(track, queue)
    track.raw("raw", "await_messages", count=queue)
    track.raw("raw", "ack", consumer_id=1, count=queue)
    for _ in range(3):
        _flow(track, queue if track.near else 2 * queue)
        track.raw("raw", "await_messages", count=queue)
        track.raw("raw", "ack", consumer_id=1, count=queue)
    track.raw("raw", "await_messages", count=0 if track.near else queue)
    track.raw("raw", "ack", consumer_id=1, count=queue)
    track.sleep(0.5)
    track.allowed |= {"paused-client"}
    if not track.near:
        track.expect(Problem("permits-doubled", subject, "client"))


@recipe("permits-leaked", "stuck-no-permits")
def leaked_permits(track: Track) -> None:
    """A client that does not return all permits. Near miss: it returns them all."""
    topic, queue = track.topic(), 2 * track.draw(5, 20)
    track.raw("raw", "open")
    _lookup(track, topic)
    subject = _subscribe(track, topic)
    _publish(track, topic, 4 * queue)
    _flow(track, queue)
    track.raw("raw", "await_messages", count=queue)
    track.raw("raw", "ack", consumer_id=1, count=queue)
    for _ in range(3):
        _flow(track, queue if track.near else 1)
        track.raw("raw", "await_messages", count=queue if track.near else 1)
        track.raw("raw", "ack", consumer_id=1, count=queue)
    track.sleep(0.2 if track.near else 1.6)
    track.stats(topic)
    if not track.near:
        track.allowed |= {"stuck-no-permits"}
        track.expect(Problem("permits-leaked", subject, "client", variant="short"))


@recipe("permits-wrong-count", "stuck-no-permits")
def batches_counted_as_one(track: Track) -> None:
    """A client that returns one permit for each batch. Near miss: one permit for each message."""
    topic, size, queue = track.topic(), track.draw(4, 8), 40
    track.raw("raw", "open")
    _lookup(track, topic)
    subject = _subscribe(track, topic)
    _publish(track, topic, 10 * queue, size)
    _flow(track, queue)
    for _ in range(12 if track.near else queue // (size - 1)):
        track.raw("raw", "await_messages", count=1)
        track.raw("raw", "ack", consumer_id=1, count=1)
        _flow(track, size if track.near else 1)
    track.sleep(1.5)
    track.allowed |= {"never-acked"}
    if track.near:
        track.allowed |= {"paused-client"}
    else:
        track.allowed |= {"stuck-no-permits"}
        track.expect(Problem("permits-wrong-count", subject, "client", variant="batch-as-one"))


@recipe("transaction-open", quick=False)
def open_transaction(track: Track) -> None:
    """A transaction that is not ended. Near miss: it is committed."""
    track.raw("raw", "open")
    _lookup(track, "persistent://pulsar/system/transaction_coordinator_assign-partition-0")
    track.raw("raw", "send", name="TC_CLIENT_CONNECT_REQUEST", fields={"tc_id": 0})
    track.raw("raw", "send", name="NEW_TXN", fields={"txnTtlMillis": 3000, "tc_id": 0})
    track.features |= {"transaction"}
    if track.near:
        track.raw("raw", "send_to_transaction", name="END_TXN", fields={"txn_action": "COMMIT"})
    track.sleep(3.6)
    if not track.near:
        track.expect(Problem("transaction-open", {}, "application"))


@recipe("old-protocol")
def old_version(track: Track) -> None:
    """A client with an old protocol version. Near miss: a current version."""
    track.raw("raw", "open", connect={"protocol_version": 20 if track.near else track.draw(4, 11)})
    track.sleep(0.2)
    track.allowed |= {"old-protocol"}
    if not track.near:
        track.expect(Problem("old-protocol", {}, "client"))


@recipe("first-bytes")
def another_protocol(track: Track) -> None:
    """HTTP or TLS on the binary port. Near miss: a client that sends CONNECT and nothing else."""
    track.raw("raw", "open", connect={} if track.near else None)
    if not track.near:
        hello = bytes.fromhex("16030100c8010000c40303") + bytes(194)
        request = b"GET /admin/v2/clusters HTTP/1.1\r\nHost: broker\r\n\r\n"
        track.raw("raw", "send_bytes", data=track.pick(request, hello))
        track.expect(Problem("first-bytes", {}, "application"))
    track.sleep(0.5)


@recipe("oversize-frame")
def oversize(track: Track) -> None:
    """A SEND above the maximum size. Near miss: a large SEND below it."""
    topic = track.topic()
    track.raw("raw", "open")
    _lookup(track, topic)
    _produce(track, topic)
    size = (4 if track.near else 6) << 20
    track.raw("raw", "publish", fields={"producer_id": 1, "sequence_id": 0}, size=size, metadata={}, batch=0)
    track.sleep(1)
    if not track.near:
        track.allowed |= {"producer-stuck"}
        track.features |= {"drop"}
        track.expect(Problem("oversize-frame", {}, "client"))


@recipe("clock-skew")
def skewed_clock(track: Track) -> None:
    """A producer whose clock is wrong. Near miss: a correct clock."""
    topic, skew_s = track.topic(), track.pick(-1, 1) * track.draw(20, 4000)
    track.raw("raw", "open")
    _lookup(track, topic)
    _produce(track, topic)
    for number in range(25):
        fields = {"producer_id": 1, "sequence_id": number}
        track.raw("raw", "publish_late", fields=fields, seconds=0 if track.near else skew_s)
    track.sleep(0.5)
    if not track.near:
        subject = {"topic": topic, "producer": track.who("raw")}
        track.expect(Problem("clock-skew", subject, "application", variant="behind" if skew_s > 0 else "ahead"))


@recipe("sequence-gap")
def skipped_ids(track: Track) -> None:
    """A client that skips sequence ids once. Near miss: consecutive ids."""
    topic = track.topic()
    track.raw("raw", "open")
    _lookup(track, topic)
    _produce(track, topic)
    for number in range(30):
        sequence = number + (4 if number >= 20 and not track.near else 0)
        track.raw("raw", "publish", fields={"producer_id": 1, "sequence_id": sequence}, size=10, metadata={}, batch=0)
    track.sleep(0.5)
    track.features.add("sequences")
    if not track.near:
        subject = {"topic": topic, "producer": track.who("raw")}
        track.expect(Problem("sequence-gap", subject, "client", variant="missing"))


@recipe("deprecated-command")
def old_commands(track: Track) -> None:
    """A deprecated command or field. Near miss: its replacement."""
    topic, how = track.topic(), track.pick("CONSUMER_STATS", "CONNECT.auth_method")
    field = how != "CONSUMER_STATS"
    method = {"auth_method_name": "none"} if track.near else {"auth_method": 0}
    track.raw("raw", "open", connect=method if field else {})
    _lookup(track, topic)
    _subscribe(track, topic)
    if not field:
        name = "GET_LAST_MESSAGE_ID" if track.near else "CONSUMER_STATS"
        track.raw("raw", "send", name=name, fields={"consumer_id": 1})
    track.sleep(0.2)
    if not track.near:
        track.features.add("deprecated")
        track.expect(Problem("deprecated-command", {}, "client", (1, 1), variant=how))


@recipe("watcher-gap", quick=False)
def ignored_topic(track: Track) -> None:
    """A client that does not subscribe to a new topic of its pattern. Near miss: it subscribes."""
    topic, new = track.topic("known"), track.topic("new")
    pattern = {"namespace": track.namespace, "topics_pattern": f"persistent://{track.namespace}/.*"}
    track.raw("raw", "open")
    _lookup(track, topic)
    _subscribe(track, topic)
    track.raw("raw", "send", name="WATCH_TOPIC_LIST", fields={"watcher_id": 1, **pattern})
    track.do("maker", "producer", producer="maker", topic=new)
    track.sleep(0.5)
    if track.near:
        _subscribe(track, new, consumer_id=2)
    track.sleep(11)
    if not track.near:
        track.features.add("watcher")
        track.expect(Problem("watcher-gap", {}, "client", (1, 1)))
