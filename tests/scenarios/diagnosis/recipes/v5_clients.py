"""What the recipes for scalable topics share: consumers and producers of the V5 client."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from scenarios.diagnosis.plan import V5_CLIENT, Track
from scenarios.diagnosis.recipes.registry import recipe as any_recipe

recipe = partial(any_recipe, clients=(V5_CLIENT,))

KEYS: Final = [f"k{number}" for number in range(40)]


def listen(track: Track, topic: str, name: str, kind: str = "stream", subscription: str = "") -> None:
    """Add an application with a consumer that receives and acknowledges all the time."""
    subscribe(track, topic, name, kind, subscription)
    track.do(name, "consume", consumer=name)


def subscribe(
    track: Track, topic: str, name: str, kind: str = "stream", subscription: str = "", **options: Any
) -> None:
    """Add an application with a consumer: `stream`, `queue` or `checkpoint`."""
    to = subscription or {"stream": "st", "queue": "qu", "checkpoint": "cp"}[kind]
    track.do(name, "subscribe", consumer=name, topic=topic, subscription=to, type=kind, **options)


class Sender:
    """A producer that sends messages with consecutive numbers."""

    def __init__(self, track: Track, topic: str, **options: Any) -> None:
        self._track, self._next = track, 0
        track.do("maker", "producer", producer="maker", topic=topic, **options)

    def send(self, count: int, **options: Any) -> None:
        """Send messages; their keys are KEYS unless ``options`` contain others."""
        options = {"keys": KEYS, **options}
        self._track.do("maker", "send", producer="maker", first=self._next, count=count, **options)
        self._next += count


def controlled(track: Track, topic: str, name: str) -> dict[str, str]:
    """Return the subject of a finding about a registered stream consumer."""
    return {"topic": topic, "subscription": "st", "consumer": track.who(name)}
