"""Recipes: faults of clients of scalable topics, and lost or late frames about segments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scenarios.diagnosis.log import Log
from scenarios.diagnosis.plan import Problem, Track
from scenarios.diagnosis.recipes.v5_clients import KEYS, Sender, listen, recipe

from pcli.codec.scalable.routing import key_hashes

_HALVES: Final = ("0000-7fff-0", "8000-ffff-1")
"""The segments of a topic that was created with two."""


@recipe("stale-layout", quick=False)
def missed_layout(track: Track) -> None:
    """A session that does not receive the layout after a split. Near miss: it receives it late, or is closed before."""
    topic, session = track.scalable(segments=1), 77  # V5 clients count their sessions from 1
    listen(track, topic, "q1", "queue")
    sender = Sender(track, topic)
    sender.send(20)
    _open_raw(track, f"{_segment(topic)}/0000-ffff-0")
    fields = {"session_id": session, "topic": topic, "create_if_missing": False}
    track.raw("raw", "send", name="SCALABLE_TOPIC_LOOKUP", fields=fields)
    track.raw("raw", "await_command", name="SCALABLE_TOPIC_UPDATE")
    _publish(track, 0, 5)
    track.sleep(0.5)
    of_session = f"pulsar.scalableTopicUpdate.session_id == {session} and "
    of_session += f"pulsar.scalableTopicUpdate.resolved_topic_name == '{topic}'"
    if not track.near:
        track.fault(of_session, "drop")
        track.expect(Problem("stale-layout", {"topic": topic, "session": str(session)}, "broker|network"))
    elif track.pick(True, False):
        track.raw("raw", "send", name="SCALABLE_TOPIC_CLOSE", fields={"session_id": session})
    else:
        track.fault(of_session, "delay", times=1, ms=3000)
    track.rest("POST", topic, "split/0")
    track.sleep(1)
    sender.send(20)
    _publish(track, 5, 2)  # the broker does not respond
    track.features.add("drop")
    track.allowed.add("producer-stuck")
    track.sleep(11)


@recipe("key-in-wrong-segment")
def misrouted_keys(track: Track) -> None:
    """A client that sends keys to a segment without their hashes. Near miss: to the right segment."""
    topic, count = track.scalable(segments=2), track.draw(1, 9)
    listen(track, topic, "q1", "queue")
    Sender(track, topic).send(20)
    for key in track.random.sample(KEYS, 2):
        hash_of_key, hash_of_entry = key_hashes(key.encode())
        right = hash_of_key >> 15
        which = right if track.near else 1 - right
        _open_raw(track, f"{_segment(topic)}/{_HALVES[which]}", client=key)
        metadata = {"partition_key": key, "entry_hash_min": hash_of_entry, "entry_hash_max": hash_of_entry}
        _publish(track, 0, count, client=key, batch=track.pick(0, 3), **metadata)
        if not track.near:
            track.expect(Problem("key-in-wrong-segment", {"topic": topic, "segment": str(which)}, "client"))
    track.sleep(1)
    track.stats(topic)


@recipe("entry-in-two-buckets", quick=False)
def straddling_batches(track: Track) -> None:
    """A client that sends batches over several entry buckets. Near miss: each batch is in one bucket."""
    topic, count = track.scalable(segments=1), track.draw(1, 9)
    for name in ("s1", "s2")[: track.draw(1, 2)]:  # consumers that share the segment, or one
        listen(track, topic, name)
        track.sleep(0.6)
    Sender(track, topic).send(20)
    _open_raw(track, f"{_segment(topic)}/0000-ffff-0")
    low = track.draw(0, 16_000)
    high = low + (track.draw(0, 300) if track.near else track.draw(17_000, 40_000))
    _publish(track, 0, count, batch=track.draw(2, 5), entry_hash_min=low, entry_hash_max=high)
    track.sleep(1)
    track.stats(topic)
    if not track.near:
        subject = {"topic": topic, "segment": "0"}
        track.expect(Problem("entry-in-two-buckets", subject, "client", (count, count)))


@recipe("stored-in-two-segments")
def late_receipts(track: Track) -> None:
    """Receipts that arrive after the segment of their messages was sealed. Near miss: they arrive in time."""
    topic, count = track.scalable(segments=1), track.draw(3, 30)
    listen(track, topic, "q1", "queue")
    sender = Sender(track, topic, batch=track.pick(0, 0, 20))
    sender.send(20)
    if not track.near:
        # a receipt waits for a frame of the broker that is no receipt: CLOSE_PRODUCER
        track.fault(f"pulsar.type == 'SEND_RECEIPT' and pulsar.topic == '{_segment(topic)}/0000-ffff-0'", "reorder")
    sender.send(count, wait=track.near)
    track.sleep(0.5)
    track.rest("POST", topic, "split/0")
    track.sleep(1)
    sender.send(20)
    track.sleep(1)
    track.stats(topic)
    producer = track.who("maker")

    def problems(log: Log) -> Iterable[Problem]:
        twice = log.stored_twice(producer)
        subject = {"producer": f"{producer}-seg-0"}
        return [Problem("stored-in-two-segments", subject, "client", (twice, twice))] if twice else []

    track.expect(problems)


def _segment(topic: str) -> str:
    return topic.replace("topic://", "segment://")


def _open_raw(track: Track, segment: str, *, client: str = "raw") -> None:
    """Create producer 1 of a raw client on a segment."""
    track.raw(client, "open")
    track.raw(client, "send", name="LOOKUP", fields={"topic": segment})
    fields = {"topic": segment, "producer_id": 1, "producer_name": track.who(client)}
    track.raw(client, "send", name="PRODUCER", fields=fields)


def _publish(
    track: Track, first: int, count: int, *, client: str = "raw", batch: int = 0, **metadata: int | str
) -> None:
    size = max(batch, 1)
    for number in range(first, first + count):
        fields = {"producer_id": 1, "sequence_id": number * size}
        track.raw(client, "publish", fields=fields, size=10, metadata=metadata, batch=batch)
