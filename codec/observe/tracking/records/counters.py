"""Counters and durations with the first frames as evidence, in bounded memory.

Times are nanoseconds since 1970, frames are ``pulsar.number``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

MAX_EVIDENCE: Final = 8
"""Maximum number of frames per counter."""


@dataclass(slots=True)
class Occurrences:
    """A counter of occurrences of one kind."""

    count: int = 0
    first_ns: int = 0
    last_ns: int = 0
    frames: list[int] = field(default_factory=list)
    """The first frames that show the occurrences, at most MAX_EVIDENCE."""
    sample: str = ""
    """The subject of the first occurrence, as the field defines it: a message id, a key, the text of an error."""

    def add(self, time_ns: int, *frames: int, sample: str = "", count: int = 1) -> None:
        """Add ``count`` occurrences; a frame of 0 is unknown."""
        if not self.count:
            self.first_ns, self.sample = time_ns, sample
        self.count += count
        self.last_ns = time_ns
        if len(self.frames) < MAX_EVIDENCE:
            self.frames += [one for one in frames if one][: MAX_EVIDENCE - len(self.frames)]

    def remove(self, frame: int, count: int = 1) -> None:
        """Remove ``count`` occurrences that this frame added."""
        self.count -= count
        if frame in self.frames:
            self.frames.remove(frame)
        if not self.count:
            self.first_ns, self.last_ns, self.sample = 0, 0, ""

    def copy(self) -> Occurrences:
        """Return a copy that can be changed alone."""
        return replace(self, frames=self.frames[:])


@dataclass(slots=True)
class StateDuration:
    """A recurring state: number, total duration, last and longest period."""

    count: int = 0
    """Number of periods."""
    total_ns: int = 0
    """Total duration of the ended periods."""
    since_ns: int = -1
    """Start of the current period, or -1."""
    since_frame: int = 0
    """Frame at the start of the current or last period."""
    last_ns: tuple[int, int] = (0, -1)
    """Start and end of the last ended period; the end is -1 if there is none."""
    longest_ns: int = 0
    longest_from_ns: int = 0
    longest_frames: tuple[int, int] = (0, 0)
    """Frames at the start and end of the longest period; the end is 0 if no frame ended it."""

    def begin(self, time_ns: int, frame: int) -> None:
        """Begin a period, unless one has begun."""
        if self.since_ns < 0:
            self.count += 1
            self.since_ns, self.since_frame = time_ns, frame

    def end(self, time_ns: int, frame: int = 0) -> None:
        """End the period, if one has begun."""
        if self.since_ns < 0:
            return
        lasted = time_ns - self.since_ns
        self.last_ns = (self.since_ns, time_ns)
        self.total_ns += lasted
        if lasted >= self.longest_ns:
            self.longest_ns, self.longest_from_ns = lasted, self.since_ns
            self.longest_frames = (self.since_frame, frame)
        self.since_ns = -1
