"""How the statistics of a state are read: everything up to a moment goes through a tracker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pcli.cli.common.output import Exit, say

if TYPE_CHECKING:
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.observe.tracking.tracker import Tracker

__all__ = ["Taken", "take"]


@dataclass(slots=True)
class Taken:
    """What was read."""

    tracker: Tracker
    reading: CaptureReading
    went_on: bool
    """Whether the capture goes on behind the moment."""
    broke_off: bool
    """Whether it ends in the middle of something: more was there."""

    def finish(self, nothing: str = "") -> Exit:
        """The exit code; ``nothing``: what was not found, to be said with what was looked at; empty: it was found."""
        code = self.reading.finish()
        if nothing:
            say(f"{nothing}, in {self.tracker.capture.frames} frames")
        return code


def take(files: Sequence[str], decode_as: dict[int, str], until_ns: int | None = None) -> Taken:
    """Read the inputs to the end, or up to a moment, ns since 1970; nothing behind it is looked at."""
    from pcli.cli.common.capture_reading import CaptureReading
    from pcli.codec.observe.tracking.tracker import Tracker

    tracker, over, whole = Tracker(), False, True

    def is_over(time_ns: int) -> bool:
        nonlocal over
        over = over or (until_ns is not None and time_ns > until_ns)
        return over

    reading = CaptureReading(files, decode_as=decode_as, system=True)
    reading.on_note = lambda note: None if over else tracker.note(note)
    reading.on_end = lambda end: None if is_over(end.time_ns) else tracker.ended(end)
    for facts in reading.facts():
        if is_over(facts.frame.time_ns):
            break
        tracker.see(facts)
        whole = not facts.frame.capture_problems
    capture = tracker.capture
    return Taken(tracker, reading, over, capture.damaged or not (whole or capture.cut))
