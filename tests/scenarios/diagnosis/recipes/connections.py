"""Recipes: faults of the network. They affect all connections of a run."""

from __future__ import annotations

from scenarios.diagnosis.plan import Problem, Track
from scenarios.diagnosis.recipes.registry import recipe


@recipe("wrong-crc", alone=True)
def damaged_messages(track: Track) -> None:
    """A MESSAGE that is changed on its way. Near miss: one that is delayed."""
    topic = track.topic()
    track.do("app", "subscribe", consumer="app", topic=topic, subscription="work", type="Shared")
    track.do("app", "consume", consumer="app")
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    action, ms = ("delay", 400) if track.near else ("corrupt", 0)
    track.fault(f"pulsar.type == 'MESSAGE' and pulsar.topic == '{topic}'", action, times=2, ms=ms)
    track.do("maker", "send", producer="maker", first=5, count=10, one_by_one=True)
    track.sleep(1)
    if not track.near:
        track.allowed |= {"permits-leaked", "poison-message"}
        track.expect(Problem("wrong-crc", {}, "broker", (2, 2), r"(\d+) MESSAGE"))


@recipe("producer-stuck", quick=False, alone=True)
def lost_receipts(track: Track) -> None:
    """Receipts that never arrive. Near miss: receipts that arrive late."""
    topic = track.topic()
    track.do("maker", "producer", producer="maker", topic=topic, send_timeout_ms=60_000)
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    action, ms = ("delay", 2000) if track.near else ("drop", 0)
    track.fault(f"pulsar.type == 'SEND_RECEIPT' and pulsar.topic == '{topic}'", action, ms=ms)
    track.do("maker", "send", producer="maker", first=5, count=3, **{"async": True})
    track.sleep(11)
    if not track.near:
        subject = {"topic": topic, "producer": track.who("maker")}
        track.expect(Problem("producer-stuck", subject, "network", (3, 3), r"(\d+) SEND"))
