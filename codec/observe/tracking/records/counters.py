"""How often something was seen and for how long, with the first frames as evidence: all in a few words of memory.

Times are nanoseconds since 1970, frames are ``pulsar.number``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

__all__ = ["MAX_EVIDENCE", "Occurrences", "StateDuration"]

MAX_EVIDENCE: Final = 8
"""Frames that are kept of what was seen more often."""


@dataclass(slots=True)
class Occurrences:
    """Something that happened, any number of times."""

    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    frames: list[int] = field(default_factory=list)
    """The first of the frames that show it, at most MAX_EVIDENCE."""
    sample: str = ""
    """What the first one was about, in the words of the field: a message id, a key, the text of an error."""

    def add(self, time_ns: int, *frames: int, sample: str = "", count: int = 1) -> None:
        """It was seen (``count`` times at once); ``frames`` of 0 are unknown ones."""
        if not self.count:
            self.first_ns, self.sample = time_ns, sample
        self.count += count
        self.last_ns = time_ns
        if len(self.frames) < MAX_EVIDENCE:
            self.frames += [one for one in frames if one][: MAX_EVIDENCE - len(self.frames)]


@dataclass(slots=True)
class StateDuration:
    """A state that comes and goes: how often, how long in all, its last and its longest time."""

    count: int = 0
    """How often it began."""
    total_ns: int = 0
    """Of those that have ended."""
    since_ns: int = -1
    """Since when it lasts; -1: it does not."""
    since_frame: int = 0
    """The frame with which that, or the last one that has ended, began."""
    last_ns: tuple[int, int] = (0, -1)
    """From when till when the last one that has ended lasted; until -1: none has."""
    longest_ns: int = 0
    longest_from_ns: int = 0
    longest_frames: tuple[int, int] = (0, 0)
    """The frames with which the longest began and ended; 0 at the end: it did not end in a frame."""

    def begin(self, time_ns: int, frame: int) -> None:
        """It is so now; when it was already nothing changes."""
        if self.since_ns < 0:
            self.count += 1
            self.since_ns, self.since_frame = time_ns, frame

    def end(self, time_ns: int, frame: int = 0) -> None:
        """It is so no longer; when it was not nothing changes."""
        if self.since_ns < 0:
            return
        lasted = time_ns - self.since_ns
        self.last_ns = (self.since_ns, time_ns)
        self.total_ns += lasted
        if lasted >= self.longest_ns:
            self.longest_ns, self.longest_from_ns = lasted, self.since_ns
            self.longest_frames = (self.since_frame, frame)
        self.since_ns = -1
