"""A frame extractor that records the offset after which the frame boundaries of a direction are less certain.

Rules of this file
1. The base class determines the frames. This class records what would have differed if the frame boundaries had been
   more or less certain (`ResyncMarks`).
2. Truncated packets are reported once for each connection; the merge determines which report is the first of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pcli.codec.capture.flows import Aligned, Direction, IncompleteFrame
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.frames import Stream
from pcli.codec.capture.output import Output
from pcli.codec.capture.stream_kind import StreamClassifier

NO_OFFSET: Final = 1 << 62
"""An offset greater than all others."""


@dataclass(slots=True)
class ResyncMarks:
    """The record of a direction that started with an assumed state. Offsets are relative to the split."""

    asked: bool = False
    """Whether the maximum frame size, or the budget of bytes for checks, had an effect."""
    rejected: bool = False
    """Whether the boundary of a rejected frame may have been certain."""
    anchored: int = NO_OFFSET
    """Offset from which the certainty of frames is at most ANCHORED."""
    lost: int = NO_OFFSET
    """Offset from which the certainty of frames is RESYNC."""


class EdgeFrameExtractor(FrameExtractor):
    """An extractor that records the events that make frame boundaries less certain."""

    def __init__(self, output: Output, classifier: StreamClassifier) -> None:
        super().__init__(output, classifier)
        self.marks: dict[Direction, ResyncMarks] = {}
        """Marks of directions that started with an assumed state."""
        self._cut_streams: set[Stream] = set()

    def gap(self, direction: Direction, size: int, packet: int, *, cut: bool) -> None:
        """Process missing bytes."""
        marks, offset = self.marks.get(direction), direction.offset
        super().gap(direction, size, packet, cut=cut)
        if marks is not None:
            marks.asked = True
            if isinstance(direction.mode, Aligned | IncompleteFrame):  # the gap ended in the open frame, or at its end
                marks.anchored = min(marks.anchored, offset)

    def skip_left_out(self, direction: Direction, offset: int, packet: int) -> None:
        """Process bytes that were omitted on purpose."""
        super().skip_left_out(direction, offset, packet)
        marks = self.marks.get(direction)
        if marks is not None:
            marks.asked = True
            marks.anchored = min(marks.anchored, offset)

    def interrupt(self, direction: Direction, packet: int) -> None:
        """Continue the direction after a gap of unknown size."""
        super().interrupt(direction, packet)
        self._lose(direction, direction.offset)

    def search(
        self,
        direction: Direction,
        position: int,
        skipped: int,
        packet: int,
        *,
        rejected: bool = False,
        silent: bool = False,
    ) -> None:
        """Search for the next frame."""
        marks = self.marks.get(direction)
        if marks is not None and rejected and marks.lost == NO_OFFSET:
            marks.rejected = True
        self._lose(direction, direction.offset - len(direction.run) + position)
        super().search(direction, position, skipped, packet, rejected=rejected, silent=silent)

    def _lose(self, direction: Direction, offset: int) -> None:
        marks = self.marks.get(direction)
        if marks is not None:
            marks.asked = True
            marks.lost = min(marks.lost, offset)

    def is_first_cut(self, direction: Direction) -> bool:
        """Report truncated packets once for each connection; the merge determines which report is the first."""
        first = direction.stream not in self._cut_streams
        self._cut_streams.add(direction.stream)
        return first
