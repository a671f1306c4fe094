"""Edits of one direction of a connection: the replacement of byte ranges, and the resulting offsets.

Rules of this file
1. Bytes without an edit are replaced by the same number of filler bytes, so that bytes outside frames reveal nothing.
2. The replacement of a frame starts and ends in the same packets as the frame. Both are therefore complete at the same
   time.
3. A range that is omitted between two edits becomes a gap of one byte. The offset after the gap is recorded, so that
   the writer can mark the packet in which frames resume.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class _Edit(NamedTuple):
    """An edit: the bytes from ``start`` to ``end`` become ``data`` (at offset ``at``) and ``lost`` missing bytes."""

    start: int
    end: int
    at: int
    data: bytes | None
    """The new bytes; None if the bytes are unchanged."""
    lost: int

    @property
    def size(self) -> int:
        """Number of new bytes, including missing bytes."""
        return (self.end - self.start if self.data is None else len(self.data)) + self.lost


class Edits:
    """The edits of a direction. Offsets count from its first byte, like CapturedFrame.offset."""

    __slots__ = ("_edits", "_left_out", "_starts", "resumes")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._edits: list[_Edit] = []
        self._left_out: tuple[int, int] | None = None
        self.resumes: set[int] = set()
        """New offsets at which the stream resumes after an omitted range."""

    def put(self, start: int, size: int, data: bytes | None) -> None:
        """Replace ``size`` bytes with ``data``, or keep them if it is None. Calls must be in the order of ``start``."""
        if self._left_out is not None:
            self.end_left_out(1 if self._edits else 0)
            self.resumes.add(self.new_offset(start))
        self._add(start, start + size, data, 0)

    def end_left_out(self, lost: int = 0) -> None:
        """End the range that is being omitted. It becomes ``lost`` missing bytes."""
        if self._left_out is not None:
            self._add(*self._left_out, b"", lost)
            self._left_out = None

    def leave_out(self, start: int, size: int) -> None:
        """Omit these bytes."""
        first = start if self._left_out is None else self._left_out[0]
        self._left_out = (first, start + size)

    def _add(self, start: int, end: int, data: bytes | None, lost: int) -> None:
        at = self.new_offset(start)
        self._starts.append(start)
        self._edits.append(_Edit(start, end, at, data, lost))

    def _find(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def new_offset(self, offset: int) -> int:
        """Return the new offset of a byte."""
        index = self._find(offset)
        if index < 0:
            return offset
        edit = self._edits[index]
        if offset >= edit.end:
            return edit.at + edit.size + offset - edit.end
        return edit.at + max(0, min(offset - edit.start, edit.size - 1))

    def cut(self, start: int, old: bytes, filler: bytes) -> list[tuple[int, bytes]]:
        """Return the replacement of the bytes ``old``, which start at ``start``, as runs of (new offset, bytes).

        ``filler`` is one byte. There is one run, which may be empty, and another run after each gap.
        """
        first, end = start, start + len(old)
        runs: list[tuple[int, bytes]] = [(self.new_offset(start), b"")]
        while start < end:
            index = self._find(start)
            edit = self._edits[index] if index >= 0 else None
            if edit is not None and start < edit.end:
                stop = min(end, edit.end)
                at = self.new_offset(start)
                new = edit.data
                data = (
                    old[start - first : stop - first]
                    if new is None
                    else new[at - edit.at : self.new_offset(stop) - edit.at]
                )
            else:
                stop = min(end, self._starts[index + 1]) if index + 1 < len(self._starts) else end
                at, data = self.new_offset(start), filler * (stop - start)
            last_at, last = runs[-1]
            if last_at + len(last) == at or not data:
                runs[-1] = (last_at, last + data)
            else:
                runs.append((at, data))
            start = stop
        return runs
