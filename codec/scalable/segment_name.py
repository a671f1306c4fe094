"""Names of segments: ``segment://tenant/namespace/topic/HHHH-HHHH-id``.

The two hexadecimal numbers are the inclusive hash range of the segment; the id is decimal and is never used again in
the topic. Source: names and error texts of a broker 5.0.1.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from pcli.codec.wire.topic_name import full_name

HASHES: Final = 65536
"""Number of hashes of keys that the segments of a topic divide: 0 to 65535."""

_FORM: Final = re.compile(r"segment://([^/]+/[^/]+/[^/]+)/([0-9a-f]{4})-([0-9a-f]{4})-(0|[1-9][0-9]{0,18})")


_ON_SEGMENT: Final = "-seg-"
"""What V5 clients write between the application's name of a producer or consumer and the id of a segment."""


class SegmentName(NamedTuple):
    """The parts of a segment's name."""

    topic: str
    """The scalable topic: ``topic://tenant/namespace/name``."""
    start: int
    end: int
    """Last hash of the range."""
    id: int

    @classmethod
    def parse(cls, name: str) -> SegmentName | None:
        """Return the parts; None if the name is not that of a segment."""
        found = _FORM.fullmatch(name)
        if found is None:
            return None
        place, start, end, number = found.groups()
        return cls(f"topic://{place}", int(start, 16), int(end, 16), int(number))

    def __str__(self) -> str:
        """The full name."""
        return f"segment://{self.topic.removeprefix('topic://')}/{self.start:04x}-{self.end:04x}-{self.id}"


@lru_cache(4096)
def scalable_topic(name: str) -> str:
    """Return the scalable topic of a segment, or of a scalable topic itself; empty for the name of another topic."""
    if name.startswith("topic://"):
        return name
    parts = SegmentName.parse(name) if name.startswith("segment://") else None
    return "" if parts is None else parts.topic


def initial_starts(count: int) -> list[int]:
    """Return the first hashes of the segments of a new topic with ``count`` segments. The last range may be wider."""
    return [HASHES // count * index for index in range(count)]


def scalable_namesake(classic: str) -> str:
    """Return the scalable topic with the name of a persistent topic; empty for the name of another topic."""
    return classic.replace("persistent://", "topic://", 1) if classic.startswith("persistent://") else ""


def classic_namesake(scalable: str) -> str:
    """Return the persistent topic with the name of a scalable topic (``topic://…``)."""
    return scalable.replace("topic://", "persistent://", 1)


def selected_topic(text: str) -> str:
    """Return the scalable topic that a user names: with or without its domain and namespace, or by a segment.

    The name of a classic topic is returned as that of a scalable topic, because a migrated topic has both names.
    """
    name = full_name(text)
    return scalable_topic(name) or scalable_namesake(name) or name


def name_on_segment(name: str, segment: int) -> str:
    """Return the name that a V5 client gives to its producer or consumer of a segment, from the application's name."""
    return f"{name}{_ON_SEGMENT}{segment}"


def is_name_on_segment(name: str) -> bool:
    """Return whether a name looks like one of `name_on_segment`."""
    start, _, number = name.rpartition(_ON_SEGMENT)
    return bool(start) and number.isdecimal()


def name_without_segment(name: str, topic: str) -> str:
    """Return the name that an application gave to a producer or consumer, from its name on the segment ``topic``.

    It is the inverse of `name_on_segment`. Other names are returned unchanged.
    """
    parts = SegmentName.parse(topic)
    return name if parts is None else name.removesuffix(name_on_segment("", parts.id))
