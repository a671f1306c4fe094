"""A walker that records from which offset the frame boundaries of a direction are less certain.

Rules of this file
1. The base class determines the frames. This class records what would have differed if the frame boundaries had been
   more or less certain (`ResyncMarks`).
2. Truncated packets are reported once for each connection; the merge determines which report is the first of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pcli.codec.capture.flows import Direction
from pcli.codec.capture.frame_extraction import Walker
from pcli.codec.capture.frames import Stream
from pcli.codec.capture.output import Output
from pcli.codec.capture.stream_kind import Judge

__all__ = ["NO_OFFSET", "EdgeWalker", "ResyncMarks"]

NO_OFFSET: Final = 1 << 62
"""An offset after all others."""


@dataclass(slots=True)
class ResyncMarks:
    """The record of a direction that started with an assumed state. Offsets are the split's."""

    asked: bool = False
    """The maximum frame size, or the budget of bytes for checks, had an effect."""
    rejected: bool = False
    """A frame was rejected whose boundary may have been certain."""
    anchored: int = NO_OFFSET
    """Frames from this offset on are at most ANCHORED."""
    lost: int = NO_OFFSET
    """Frames from this offset on are RESYNC."""


class EdgeWalker(Walker):
    """Records what makes frame boundaries less certain, and reports truncated packets once for each connection."""

    def __init__(self, output: Output, judge: Judge) -> None:
        super().__init__(output, judge)
        self.marks: dict[Direction, ResyncMarks] = {}
        """Marks of directions that started with an assumed state."""
        self._snapped: set[Stream] = set()
        self._checking = False

    def _cut(self, way: Direction, packet: int) -> None:
        self._checking = True
        super()._cut(way, packet)
        self._checking = False

    def gap(self, way: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Process missing bytes."""
        marks = self.marks.get(way)
        if marks is not None:
            marks.asked = True
        super().gap(way, size, packet, cut=cut)

    def _bridge(self, way: Direction, size: int, kind: str) -> bool:
        offset = way.offset
        bridged = super()._bridge(way, size, kind)
        marks = self.marks.get(way)
        if bridged and marks is not None:
            marks.anchored = min(marks.anchored, offset)
        return bridged

    def skip_left_out(self, way: Direction, offset: int, packet: int) -> None:
        """Process bytes that were omitted on purpose."""
        super().skip_left_out(way, offset, packet)
        marks = self.marks.get(way)
        if marks is not None:
            marks.asked = True
            marks.anchored = min(marks.anchored, offset)

    def _impossible(self, way: Direction, position: int, packet: int, total: int, command: int) -> None:
        self._checking = False
        super()._impossible(way, position, packet, total, command)

    def interrupt(self, way: Direction, packet: int) -> None:
        """Continue the direction after a gap of unknown size."""
        super().interrupt(way, packet)
        self._lose(way, way.offset)

    def search(self, way: Direction, position: int, skipped: int, packet: int) -> None:
        """Search for the next frame."""
        marks = self.marks.get(way)
        if marks is not None and self._checking and marks.lost == NO_OFFSET:
            marks.rejected = True
        self._checking = False
        self._lose(way, way.offset - len(way.run) + position)
        super().search(way, position, skipped, packet)

    def _lose(self, way: Direction, offset: int) -> None:
        marks = self.marks.get(way)
        if marks is not None:
            marks.asked = True
            marks.lost = min(marks.lost, offset)

    def _tell(self, way: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Report truncated packets once for each connection; the merge determines which report is the first."""
        self.snapped = way.stream in self._snapped
        super()._tell(way, size, packet, cut=cut)
        if self.snapped:
            self._snapped.add(way.stream)
