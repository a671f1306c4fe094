"""The events that the applications of a scenario logged."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Log:
    """All events in the order of their times."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = sorted(events, key=lambda event: float(event["t"]))

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Log:
        """Read the logs. An unfinished last line of a killed application is skipped."""
        found = []
        for path in paths:
            for line in path.read_text().splitlines() if path.exists() else ():
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
        return cls(found)

    def of(self, kind: str, **fields: Any) -> list[Event]:
        """Return the events of a type with these fields."""
        return [
            event
            for event in self.events
            if event["type"] == kind and all(event.get(name) == value for name, value in fields.items())
        ]

    def numbers(self, kind: str, **fields: Any) -> set[int]:
        """Return the numbers of the messages of these events."""
        return {int(event["n"]) for event in self.of(kind, **fields)}

    def unacked(self, consumer: str) -> int:
        """Return how many messages a consumer received and did not acknowledge or reject."""
        return len(self.numbers("received", consumer=consumer) - self.numbers("acked", consumer=consumer))

    def redelivered(self, *consumers: str) -> int:
        """Return how many deliveries to these consumers were not the first of their message."""
        events = [event for one in consumers for event in self.of("received", consumer=one)]
        seen = Counter((event["producer"], event["n"]) for event in events)
        return sum(count - 1 for count in seen.values())

    def stored_twice(self, producers: str | tuple[str, ...] = "") -> int:
        """Return how many messages were received with several ids, of the producers whose names begin like this."""
        entries: dict[tuple[str, int], set[str]] = defaultdict(set)
        for event in self.of("received"):
            if event["producer"].startswith(producers):
                entries[event["producer"], event["n"]].add(":".join(event["message_id"].split(":")[:2]))
        return sum(len(found) > 1 for found in entries.values())

    def longest_send(self, producers: str | tuple[str, ...] = "") -> float:
        """Return the longest time in seconds until a producer whose name begins like this knew a message as stored."""
        began = {(event["producer"], event["n"]): event["t"] for event in self.of("sending")}
        of_them = [event for event in self.of("produced") if event["producer"].startswith(producers)]
        times = (event["t"] - began.get((event["producer"], event["n"]), event["t"]) for event in of_them)
        return float(max(times, default=0))

    def longest_delivery(self, consumers: str | tuple[str, ...] = "") -> float:
        """Return the longest time in seconds from a message that was stored to a consumer whose name begins like this.

        Messages that were stored before the consumer subscribed count from then on.
        """
        began = {event["consumer"]: event["t"] for event in self.of("subscribed")}
        stored = {(event["producer"], event["n"]): event["t"] for event in self.of("produced")}
        longest = 0.0
        for event in self.of("received"):
            since = stored.get((event["producer"], event["n"]))
            if event["consumer"].startswith(consumers) and since is not None:
                longest = max(longest, event["t"] - max(since, began.get(event["consumer"], since)))
        return longest
