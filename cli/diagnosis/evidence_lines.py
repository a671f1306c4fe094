"""The lines of the frames to which findings refer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pcli.cli.common.capture_reading import CaptureReading

if TYPE_CHECKING:
    from pcli.codec.observe import Facts
    from pcli.codec.observe.rules import Finding

_KEPT_LINES: Final = 20_000
"""Number of frames of a live capture whose lines are kept (4 MB). Findings follow their frames within seconds."""


class FrameLine(NamedTuple):
    """One line for a frame, and the place of the frame."""

    text: str
    packet: int
    """Number of the packet across all inputs."""
    time_ns: int


class FrameLines:
    """One line for each frame to which findings refer, and whether the frame matches the filter."""

    def __init__(self, filter_: str = "") -> None:
        from pcli.codec.observe import compile_filter

        self._match = compile_filter(filter_).match if filter_ else None
        self._lines: dict[int, FrameLine] = {}
        self._matched: set[int] = set()

    def keep(self, facts: Facts) -> None:
        """Keep the line of a frame."""
        from pcli.codec.observe.output.frame_summary import describe
        from pcli.codec.wire.commands import name_of

        frame = facts.frame
        text = f"{name_of(frame.type)}  {describe(facts)}"
        self._lines[frame.number] = FrameLine(text, frame.packet, frame.time_ns)
        if self._match is None or self._match(facts):
            self._matched.add(frame.number)

    def keep_last(self, facts: Facts) -> None:
        """Keep the line of a frame, and drop the line of the frame that is `_KEPT_LINES` frames earlier."""
        self.keep(facts)
        old = facts.frame.number - _KEPT_LINES
        self._lines.pop(old, None)
        self._matched.discard(old)

    def read(self, reading: CaptureReading, found: Sequence[Finding]) -> None:
        """Read the frames to which findings refer from the inputs again."""
        for facts in reading.facts_of({number for one in found for number in one.frames}):
            self.keep(facts)

    def wanted(self, finding: Finding) -> bool:
        """Whether to show a finding: true if one of its frames matches, or if there is no filter."""
        return self._match is None or not self._matched.isdisjoint(finding.frames)

    def line(self, number: int) -> FrameLine | None:
        """Return the line of a frame, or None if it is unknown or was dropped."""
        return self._lines.get(number)
