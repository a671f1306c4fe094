"""The range of time and the topics that a report is limited to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pcli.codec.scalable.segment_name import classic_namesake, scalable_topic


@dataclass(frozen=True, slots=True)
class Selection:
    """The range of time and the topics that the report is limited to."""

    since_ns: int | None = None
    until_ns: int | None = None
    topics: tuple[str, ...] = ()
    """Full or short names; partitions and segments of a topic are included. All topics if empty."""

    def names_topic(self, topic: str | None) -> bool:
        """Return whether a topic is selected."""
        if not self.topics:
            return True
        names = set(_names(topic or ""))
        return any(_names(one)[0] in names for one in self.topics)

    def overlaps(self, begin_ns: int | None, end_ns: int | None) -> bool:
        """Return whether a range of time overlaps the selected range; None is unknown."""
        before = self.until_ns is not None and (begin_ns or 0) >= self.until_ns
        return not before and not (self.since_ns is not None and end_ns is not None and 0 < end_ns < self.since_ns)


def _names(topic: str) -> tuple[str, ...]:
    """Return the full name of a topic, and those of the topic of which it is a partition or a segment.

    A scalable topic can be named without its domain, so its name as a persistent topic is included.
    """
    words = topic.split("/")
    full = f"persistent://public/default/{topic}" if len(words) == 1 else topic
    full = f"persistent://{full}" if "://" not in full else full
    if scalable := scalable_topic(full):
        return full, scalable, classic_namesake(scalable)
    base, mark, number = full.rpartition("-partition-")
    return (full, base) if mark and number.isdigit() else (full,)


EVERYTHING: Final = Selection()
