"""Recipes: what an administrator does to a subscription over REST."""

from __future__ import annotations

from scenarios.diagnosis.plan import CLIENTS, Problem, Track
from scenarios.diagnosis.recipes.registry import recipe


def _backlog(track: Track, topic: str, count: int) -> None:
    """Let the subscription `work` receive five messages and leave a backlog."""
    track.do("app", "subscribe", consumer="before", topic=topic, subscription="work", type="Exclusive")
    track.do("maker", "producer", producer="maker", topic=topic)
    track.do("maker", "send", producer="maker", count=5, one_by_one=True)
    track.do("app", "receive", consumer="before", count=5)
    track.sleep(0.3)
    track.do("app", "close_consumer", consumer="before")
    track.do("maker", "send", producer="maker", first=5, count=count, one_by_one=True)


def _continue(track: Track, topic: str, first: int) -> None:
    """Send five more messages, and consume what is left."""
    track.do("maker", "send", producer="maker", first=first, count=5, one_by_one=True)
    track.do("app", "subscribe", consumer="after", topic=topic, subscription="work", type="Exclusive")
    track.do("app", "consume", consumer="after")
    track.sleep(0.6)
    track.stats(topic)


def _passed_over(track: Track, topic: str, count: int) -> None:
    subject = {"topic": topic, "subscription": "work"}
    track.expect(Problem("balance-mismatch", subject, "broker", (count, count), r"(\d+) message"))


@recipe("balance-mismatch")
def skipped(track: Track) -> None:
    """Messages that an administrator skips. Near miss: the application seeks to the end."""
    topic, backlog = track.topic(), track.draw(5, 30)
    skip = track.pick(track.draw(1, backlog), backlog)
    _backlog(track, topic, backlog)
    if track.near:
        track.do("app", "subscribe", consumer="between", topic=topic, subscription="work", type="Exclusive", queue=1)
        track.do("app", "seek", consumer="between", to="latest")
        track.sleep(0.5)
        track.do("app", "close_consumer", consumer="between")
    else:
        track.rest("POST", topic, f"subscription/work/{'skip_all' if skip == backlog else f'skip/{skip}'}")
        _passed_over(track, topic, skip)
    _continue(track, topic, 5 + backlog)


@recipe("balance-mismatch", clients=CLIENTS)
def expired(track: Track) -> None:
    """Messages that an administrator expires. Near miss: no message is old enough."""
    topic, backlog = track.topic(), track.draw(3, 20)
    _backlog(track, topic, backlog)
    track.sleep(2.2)
    track.rest("POST", topic, f"subscription/work/expireMessages/{1000 if track.near else 1}")
    track.sleep(0.4)
    if not track.near:
        _passed_over(track, topic, backlog)
    _continue(track, topic, 5 + backlog)
