"""A walker that watches what a guess does not tell: from where on the places of a direction's frames are less certain.

Rules of this file
1. Frames are what they are: only the base class cuts them. Here it is written down what would have been different, had
   the direction been more, or less, certain of its places (`Marks`).
2. Cut packets are told once for each connection; which of these is the file's first, whoever stitches finds out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pcli.codec.capture.flows import Direction
from pcli.codec.capture.frames import Stream
from pcli.codec.capture.judge import Judge
from pcli.codec.capture.output import Output
from pcli.codec.capture.walk import Walker

__all__ = ["NOWHERE", "EdgeWalker", "Marks"]

NOWHERE: Final = 1 << 62
"""Behind every offset."""


@dataclass(slots=True)
class Marks:
    """What became of a direction that began with a guess. Offsets are the split's."""

    asked: bool = False
    """The largest frame's size mattered, or the bytes that checks may read."""
    doubted: bool = False
    """A frame was not believed that may have had a certain place."""
    anchored: int = NOWHERE
    """Frames from here on are no more certain than ANCHORED."""
    lost: int = NOWHERE
    """Frames from here on are RESYNC."""


class EdgeWalker(Walker):
    """Watches what makes the places of frames less certain, and tells of cut packets once for each connection."""

    def __init__(self, output: Output, judge: Judge) -> None:
        super().__init__(output, judge)
        self.marks: dict[Direction, Marks] = {}
        """Of directions that began with a guess."""
        self._snapped: set[Stream] = set()
        self._checking = False

    def _cut(self, way: Direction, packet: int) -> None:
        self._checking = True
        super()._cut(way, packet)
        self._checking = False

    def gap(self, way: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Bytes are missing."""
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
        """Bytes were left out on purpose."""
        super().skip_left_out(way, offset, packet)
        marks = self.marks.get(way)
        if marks is not None:
            marks.asked = True
            marks.anchored = min(marks.anchored, offset)

    def _impossible(self, way: Direction, position: int, packet: int, total: int, command: int) -> None:
        self._checking = False
        super()._impossible(way, position, packet, total, command)

    def interrupt(self, way: Direction, packet: int) -> None:
        """The direction goes on at an unknown distance."""
        super().interrupt(way, packet)
        self._lose(way, way.offset)

    def search(self, way: Direction, position: int, skipped: int, packet: int) -> None:
        """A frame is looked for."""
        marks = self.marks.get(way)
        if marks is not None and self._checking and marks.lost == NOWHERE:
            marks.doubted = True
        self._checking = False
        self._lose(way, way.offset - len(way.run) + position)
        super().search(way, position, skipped, packet)

    def _lose(self, way: Direction, offset: int) -> None:
        marks = self.marks.get(way)
        if marks is not None:
            marks.asked = True
            marks.lost = min(marks.lost, offset)

    def _tell(self, way: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Cut packets are told once for each connection: which of these comes first, stitching finds out."""
        self.snapped = way.stream in self._snapped
        super()._tell(way, size, packet, cut=cut)
        if self.snapped:
            self._snapped.add(way.stream)
