"""The objects (topics, subscriptions or consumers) that have series of their own; all others share one series.

Rules of this file
1. At most `limit` objects have their own series. An object receives them when it appears, as long as there is room.
2. After that, the busiest objects have them, and an object with a recent finding precedes those without. Activity
   counts messages and halves every HALF_LIFE_NS.
3. No counter decreases, although the set changes: each increment belongs to the object's own series or to the shared
   series, for ever. An object that loses its place keeps its series unchanged for HOLD_NS, so that each scraper reads
   the last value; the shared series receive its increments meanwhile. An object that had no increment for HOLD_NS is
   replaced at once.
4. An object replaces another one only if it is more than twice as busy. Otherwise objects with similar activity would
   replace each other all the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from pcli.codec.steps import Steps

HALF_LIFE_NS: Final = 300_000_000_000

HOLD_NS: Final = 120_000_000_000
"""Time that an object keeps its series after it has lost its place: two scrapes at an interval of a minute."""

_BUSIER: Final = 2.0

Key = tuple[str, ...]
"""The names of an object, from the topic downwards."""


@dataclass(slots=True)
class _Member:
    """An object with its own series."""

    changed_ns: int
    """Time of the last increment."""
    ends_ns: int = -1
    """Time at which the series end because the object has lost its place, or -1."""


@dataclass(slots=True)
class _Activity:
    """The activity of an object."""

    messages: float
    time_ns: int

    def at(self, now_ns: int) -> float:
        """Return the number of messages after the decay up to a time."""
        return self.messages * 0.5 ** (max(0, now_ns - self.time_ns) / HALF_LIFE_NS) if self.messages else 0.0


class OwnSeries:
    """The choice of the objects that have series of their own."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._members: dict[Key, _Member] = {}
        self._activities: dict[Key, _Activity] = {}
        """All objects that exist."""

    def __contains__(self, key: Key) -> bool:
        return key in self._members

    def __iter__(self) -> Iterator[Key]:
        return iter(self._members)

    def add(self, key: Key, now_ns: int) -> None:
        """Add an object that exists."""
        if key not in self._activities:
            self._activities[key] = _Activity(0.0, now_ns)
            if len(self._members) < self.limit:
                self._members.setdefault(key, _Member(now_ns))

    def count(self, key: Key, messages: int, now_ns: int) -> bool:
        """Count messages of an object. Return whether the increment belongs to its own series."""
        self.add(key, now_ns)
        if messages:
            activity = self._activities[key]
            activity.messages, activity.time_ns = activity.at(now_ns) + messages, now_ns
        member = self._members.get(key)
        if member is None or member.ends_ns >= 0:
            return False
        member.changed_ns = now_ns
        return True

    def keep(self, existing: Collection[Key]) -> None:
        """Remove the objects that do not exist any more. Their series end HOLD_NS after their last increment."""
        self._activities = {key: one for key, one in self._activities.items() if key in existing}

    def choose(self, now_ns: int, preferred: Collection[Key] = ()) -> Steps[list[Key]]:
        """Choose the objects again; return those whose series end now. ``preferred`` are objects with findings."""
        members = self._members

        def rank(key: Key) -> tuple[bool, float]:
            activity = self._activities.get(key)
            return key in preferred, 0.0 if activity is None else activity.at(now_ns)

        ranks = {}
        for key in list(self._activities):
            yield
            ranks[key] = rank(key)
        ended = [key for key, one in members.items() if self._ends(key, one, now_ns)]
        for key in ended:
            del members[key]
        waiting = nlargest(self.limit, (key for key in ranks if key not in members), key=ranks.__getitem__)
        free = self.limit - len(members)
        for key in waiting[:free]:
            members[key] = _Member(now_ns)
        ending = sum(one.ends_ns >= 0 for one in members.values())
        staying = sorted((key for key, one in members.items() if one.ends_ns < 0), key=rank)
        for key, weakest in zip(waiting[max(0, free) :][ending:], staying):
            if not _is_busier(rank(key), rank(weakest)):
                break
            if now_ns - members[weakest].changed_ns < HOLD_NS:
                members[weakest].ends_ns = now_ns + HOLD_NS
            else:
                del members[weakest]
                members[key] = _Member(now_ns)
                ended.append(weakest)
        return [key for key in ended if key not in members]  # series that end and begin at the same time continue

    def _ends(self, key: Key, member: _Member, now_ns: int) -> bool:
        if member.ends_ns >= 0:
            return now_ns >= member.ends_ns
        return key not in self._activities and now_ns - member.changed_ns >= HOLD_NS


def _is_busier(one: tuple[bool, float], other: tuple[bool, float]) -> bool:
    return one[1] > _BUSIER * other[1] if one[0] == other[0] else one[0]
