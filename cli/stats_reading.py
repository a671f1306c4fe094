"""How the statistics of a state are read: everything up to a moment goes through a tracker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from pcli.cli.output import Exit, say

if TYPE_CHECKING:
    from pcli.cli.reading import Reading
    from pcli.codec.observe.tracking.tracker import Tracker

__all__ = ["Taken", "epoch_ns", "moment_text", "take"]

_EPOCH: Final = re.compile(r"\d{1,10}(\.\d*)?", re.ASCII)
"""Seconds; with more digits they would be milliseconds, or no date."""


@dataclass(slots=True)
class Taken:
    """What was read."""

    tracker: Tracker
    reading: Reading
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
    from pcli.cli.reading import Reading
    from pcli.codec.observe.tracking.tracker import Tracker

    tracker, over, whole = Tracker(), False, True

    def is_over(time_ns: int) -> bool:
        nonlocal over
        over = over or (until_ns is not None and time_ns > until_ns)
        return over

    reading = Reading(files, decode_as=decode_as, system=True)
    reading.on_note = lambda note: None if over else tracker.note(note)
    reading.on_end = lambda end: None if is_over(end.time_ns) else tracker.ended(end)
    for facts in reading.facts():
        if is_over(facts.frame.time_ns):
            break
        tracker.see(facts)
        whole = not facts.frame.capture_problems
    capture = tracker.capture
    return Taken(tracker, reading, over, capture.damaged or not (whole or capture.cut))


def epoch_ns(option: str, text: str) -> int:
    """A moment, ns since 1970: seconds since then, or ISO 8601 (local where it names no zone); else LocalError."""
    from pcli.codec.errors import LocalError

    word = text.strip()
    if _EPOCH.fullmatch(word):
        return int(Decimal(word) * 1_000_000_000)
    try:
        moment = datetime.fromisoformat(word)
        return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
    except (ValueError, OverflowError, OSError):
        forms = "seconds since 1970, as 1795198511.25, or a time, as 2026-11-20T18:15:11.25Z"
        raise LocalError(f"{option} {text}: write {forms}") from None


def moment_text(time_ns: int) -> str:
    """A moment in both forms that are read: ``1795198511.250000000 (2026-11-20T18:15:11.250000Z)``."""
    from pcli.codec.observe.lines import epoch_text

    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{epoch_text(time_ns)} ({moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z)"
