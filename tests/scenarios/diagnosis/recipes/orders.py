"""Recipes: frames that arrive in a different order, and keys that two consumers hold."""

from __future__ import annotations

from scenarios.diagnosis.plan import CLIENTS, Problem, Track
from scenarios.diagnosis.recipes.registry import recipe

_ANYWHERE = "network|broker"
"""The culprits of a fault beyond the point of capture, on the side of the broker."""


def _on(kind: str, topic: str) -> str:
    return f"pulsar.type == '{kind}' and pulsar.topic == '{topic}'"


@recipe("receipts-out-of-order", clients=CLIENTS)
def reordered_receipts(track: Track) -> None:
    """A receipt that arrives late, or never. Near miss: the receipts of duplicates, which overtake others."""
    topic, count = track.topic(), track.draw(40, 80)
    missing = track.pick(True, False)
    track.policy("deduplication", track.near)
    track.do("maker", "producer", producer="maker", topic=topic)
    if track.near:
        sequences = [number - 10 * (number >= 30) for number in range(count)]
        track.do("maker", "send", producer="maker", count=count, sequences=sequences)
        track.features |= {"refused", "cut"}  # the broker refuses duplicates of messages that are not stored yet
        track.allowed |= {"resend-refused", "sequence-gap", "producer-refused", "producer-stuck"}
        return
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    track.fault(_on("SEND_RECEIPT", topic), "drop" if missing else "reorder", times=1)
    track.do("maker", "send", producer="maker", first=5, count=count)
    track.sleep(0.3)
    track.features.add("cut")  # by the client
    track.allowed |= {"resend-stored", "producer-stuck"}
    subject, cause = {"topic": topic, "producer": track.who("maker")}, "missing" if missing else "late"
    track.expect(Problem("receipts-out-of-order", subject, _ANYWHERE, (1, 1), variant=cause))


@recipe("answers-out-of-order")
def early_response(track: Track) -> None:
    """A response that overtakes that of SUBSCRIBE. Near miss: a request before it, which the broker refuses at once."""
    topic = track.topic()
    track.do("maker", "producer", producer="maker", topic=topic)  # the broker creates the topic
    track.raw("raw", "open")
    track.raw("raw", "send", name="LOOKUP", fields={"topic": topic})
    names = {"topic": topic, "subscription": "work", "subType": "Shared", "consumer_name": track.who("raw")}
    if not track.near:
        track.fault(f"pulsar.type == 'SUCCESS' and pulsar.topic == '{topic}'", "reorder", times=1)
    track.raw("raw", "send", name="SUBSCRIBE", fields={**names, "consumer_id": 1}, wait=False)
    if not track.near:
        track.sleep(1)
    track.raw("raw", "send", name="GET_LAST_MESSAGE_ID", fields={"consumer_id": 1})
    track.sleep(0.3)
    if track.near:
        track.features.add("refused")
        track.allowed |= {"request-refused"}
    else:
        track.expect(Problem("answers-out-of-order", {}, _ANYWHERE, (1, 1)))


@recipe("key-order-broken", clients=CLIENTS)
def reordered_keys(track: Track) -> None:
    """Messages of one key whose order is changed on their way. Near miss: messages of different keys."""
    topic, count = track.topic(), 30
    keys = [f"k{number}" for number in range(count)] if track.near else ["k"]
    track.do("app", "subscribe", consumer="app", topic=topic, subscription="work", type="Key_Shared")
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=5, keys=["first"], one_by_one=True)
    track.do("app", "receive", consumer="app", count=5)
    track.do("app", "consume", consumer="app")
    track.fault(_on("MESSAGE", topic), "reorder", times=1)
    track.do("maker", "send", producer="maker", first=5, count=count, keys=keys)
    track.sleep(0.5)
    if not track.near:
        subject = {"topic": topic, "subscription": "work", "key": "k"}
        track.expect(Problem("key-order-broken", subject, _ANYWHERE, (1, 1), variant="backwards"))


@recipe("key-order-broken", clients=("python",))
def order_not_required(track: Track) -> None:
    """Keys that move while their messages are open, which the consumers allow. Near miss: they do not allow it."""
    topic, keys = track.topic(), [f"k{number}" for number in range(30)]
    options = {"topic": topic, "subscription": "work", "type": "Key_Shared", "any_order": not track.near}
    track.do("first", "subscribe", consumer="first", **options)
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=30, keys=keys, one_by_one=True)
    track.do("first", "receive", consumer="first", count=30, ack="none")
    track.do("second", "subscribe", consumer="second", **options)
    track.do("second", "consume", consumer="second")
    track.do("maker", "send", producer="maker", first=30, count=30, keys=keys, one_by_one=True)
    track.sleep(0.5)
    track.do("first", "ack", consumer="first")
    track.do("first", "consume", consumer="first")
    track.sleep(0.5)
    if not track.near:
        subject = {"topic": topic, "subscription": "work"}
        track.expect(Problem("key-order-broken", subject, "application", variant="open-at-two"))
