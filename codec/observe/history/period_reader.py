"""Periods of a recurring state (`StateDuration`), each returned once after it has ended."""

from __future__ import annotations

from dataclasses import dataclass

from pcli.codec.observe.tracking.records.counters import StateDuration


@dataclass(frozen=True, slots=True)
class Period:
    """A period with its frames; a frame is 0 if unknown."""

    since_ns: int
    since_frame: int
    until_ns: int
    until_frame: int

    @property
    def lasted_ns(self) -> int:
        """The duration."""
        return self.until_ns - self.since_ns


class PeriodReader:
    """A reader of the periods of a state that changes with the frames."""

    def __init__(self) -> None:
        self._duration: StateDuration | None = None
        self._ended = 0
        self._since_frame = 0

    def ended(self, duration: StateDuration, frame: int) -> Period | None:
        """Return the period that has ended since the last call; ``frame`` is the current frame. None if there is none.

        A new session has a new object. If several periods have ended, only the last is returned.
        """
        if duration is not self._duration:
            self._duration, self._ended, self._since_frame = duration, 0, duration.since_frame
        now_open = duration.since_ns >= 0
        ended = duration.count - now_open
        found = None
        if ended != self._ended:
            self._ended = ended
            since_ns, until_ns = duration.last_ns
            if (since_ns, until_ns - since_ns) == (duration.longest_from_ns, duration.longest_ns):
                frames = duration.longest_frames
            else:
                frames = (self._since_frame if now_open else duration.since_frame, frame)
            found = Period(since_ns, frames[0], until_ns, frames[1])
        self._since_frame = duration.since_frame
        return found
