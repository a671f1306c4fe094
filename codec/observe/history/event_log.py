"""Events of an object in bounded memory, and the selection of the most important events.

Rules of this file
1. An event is a moment or a period. Its kind determines its weight; within a kind, longer periods and events that
   concern more messages are more important, and earlier events are more important than later events.
2. Events are similar if they have the same kind and variety. Of similar events only the MOST_KEPT most important are
   kept. All are counted.
3. `selected` takes the most important of similar events, in the order of weights, then the second of each, and so on.
   The last shown of similar events reports how many others there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from pcli.codec.observe.rules.finding_text import span

MOST_KEPT: Final = 10
"""Maximum number of events of one kind that are kept."""

_BURST_NS: Final = 2_000_000_000
"""Maximum time in ns between two messages of a burst."""

_MOST_BURSTS: Final = 64

WEIGHTS: Final[dict[str, int]] = {
    "blocked": 100,
    "refused": 98,
    "dropped": 96,
    "silent": 95,
    "transaction wait": 95,
    "lost": 94,
    "closed by broker": 93,
    "reset": 92,
    "send error": 91,
    "no consumer": 90,
    "layout": 89,
    "skipped": 89,
    "no permits": 88,
    "waiting": 87,
    "no receipt": 86,
    "unload": 85,
    "stored twice": 84,
    "redelivery": 83,
    "lost messages": 82,
    "ack error": 81,
    "discarded": 80,
    "opened": 79,
    "seek": 78,
    "removed": 77,
    "key wait": 76,
    "key order": 75,
    "resent": 74,
    "dead letter": 73,
    "closed": 72,
    "drained": 61,
    "slow": 60,
    "assignment": 59,
    "hand-over": 59,
    "redelivery request": 58,
    "request refused": 57,
    "active": 56,
    "first message": 50,
    "first permits": 48,
    "idle": 40,
    "step": 30,
}
"""The kinds of events with their weights."""


@dataclass(frozen=True, slots=True)
class Event:
    """A moment or a period in the history of an object."""

    kind: str
    """A key of WEIGHTS."""
    time_ns: int
    frame: int
    """``pulsar.number``; 0 if unknown."""
    text: str
    """What happened, as sentences."""
    until_ns: int = -1
    """End of the period; -1 for a moment, and for a period that has not ended."""
    until_frame: int = 0
    size: int = 0
    """Duration in ns, or number of messages; 0 if neither applies."""
    variety: str = ""
    """Distinguishes events of one kind that are not similar, such as the cause of a redelivery."""


@dataclass(slots=True)
class _Similar:
    """The events of one kind and variety."""

    count: int = 0
    period_ns: int = 0
    last_ns: int = 0
    kept: list[Event] = field(default_factory=list)
    """The most important events, most important first."""


class EventLog:
    """The events of an object."""

    def __init__(self) -> None:
        self._similar: dict[tuple[str, str], _Similar] = {}

    def add(self, event: Event) -> None:
        """Add an event."""
        found = self._similar.setdefault((event.kind, event.variety), _Similar())
        found.count += 1
        found.last_ns = max(found.last_ns, event.time_ns)
        if event.until_ns >= 0:
            found.period_ns += event.until_ns - event.time_ns
        found.kept.append(event)
        found.kept.sort(key=lambda one: (-one.size, one.time_ns))
        del found.kept[MOST_KEPT:]

    def selected(self, most: int, first_ns: int) -> list[Event]:
        """Return at most ``most`` events in chronological order; ``first_ns`` is the time of the first frame."""
        events = []
        for key, number in Counter(self._turns(most)).items():
            found = self._similar[key]
            chosen = sorted(found.kept[:number], key=lambda one: one.time_ns)
            if found.count > number:
                chosen[-1] = replace(chosen[-1], text=f"{chosen[-1].text} {_others(found, number, first_ns)}")
            events += chosen
        return sorted(events, key=lambda one: (one.time_ns, one.frame))

    def _turns(self, most: int) -> Iterator[tuple[str, str]]:
        """Yield the key of each event to show, the most important event first."""
        keys = sorted(self._similar, key=lambda key: -WEIGHTS[key[0]])
        turns = (key for turn in range(MOST_KEPT) for key in keys if turn < len(self._similar[key].kept))
        return islice(turns, most)


def _others(found: _Similar, shown: int, first_ns: int) -> str:
    others = f"{found.count - shown} more like this"
    if found.period_ns:
        return f"({others}, {span(found.period_ns)} in total.)"
    return f"({others}, the last at {(found.last_ns - first_ns) / 1e9:.3f} s.)"


class PrefixedLog:
    """A log that adds selected events of a member to the log of its group."""

    def __init__(self, log: Log, prefix: str, kinds: frozenset[str]) -> None:
        self._log = log
        self._prefix = prefix
        self._kinds = kinds

    def add(self, event: Event) -> None:
        """Add an event, if the group shows events of this kind."""
        if event.kind in self._kinds:
            self._log.add(replace(event, text=f"{self._prefix}{event.text[:1].lower()}{event.text[1:]}"))


Log = EventLog | PrefixedLog


@dataclass(slots=True)
class _Burst:
    time_ns: int
    frame: int
    until_ns: int
    until_frame: int
    count: int


class Bursts:
    """Messages that are reported as one event if they have the same key and follow each other closely."""

    def __init__(self, log: Log, event: Callable[[str, int, int], tuple[str, str]]) -> None:
        """``event`` returns the kind and the text for a key, the number of messages, and the last frame."""
        self._log = log
        self._event = event
        self._open: dict[str, _Burst] = {}

    def add(self, key: str, time_ns: int, frame: int, count: int = 1) -> None:
        """Add messages."""
        burst = self._open.get(key)
        if burst is not None and time_ns - burst.until_ns > _BURST_NS:
            self._close(key)
            burst = None
        if burst is None:
            if len(self._open) >= _MOST_BURSTS:
                self._close(next(iter(self._open)))
            self._open[key] = _Burst(time_ns, frame, time_ns, frame, count)
        else:
            burst.until_ns, burst.until_frame = time_ns, frame
            burst.count += count

    def finish(self) -> None:
        """Report all open bursts."""
        for key in list(self._open):
            self._close(key)

    def _close(self, key: str) -> None:
        burst = self._open.pop(key)
        until = burst.until_frame if burst.until_frame != burst.frame else 0
        kind, text = self._event(key, burst.count, until)
        self._log.add(Event(kind, burst.time_ns, burst.frame, text, size=burst.count, variety=key))
