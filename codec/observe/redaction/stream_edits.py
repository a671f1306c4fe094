"""One direction of a connection before and after: which bytes stand in place of which.

Rules of this file
1. Bytes that nobody has put anything in place of become as many of filler. So what was never framed tells nothing.
2. What stands in place of a frame begins where it began and ends where it ended, in the packet in which it ended: it
   becomes whole at the same time.
3. What is left out, and has something before and behind it, becomes a hole of one byte, and what is behind it can be
   marked: so a reader knows that it has not seen everything, and where it goes on.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

__all__ = ["Edits"]


class _Edit(NamedTuple):
    """Bytes from ``start`` to ``end`` become ``data``, which begins at ``at``, and ``lost`` more that are missing."""

    start: int
    end: int
    at: int
    data: bytes | None
    """None: they stay as they are."""
    lost: int

    @property
    def size(self) -> int:
        """New bytes, missing ones among them."""
        return (self.end - self.start if self.data is None else len(self.data)) + self.lost


class Edits:
    """What becomes of the bytes of a direction; offsets count from its first byte, as CapturedFrame.offset does."""

    __slots__ = ("_edits", "_left_out", "_starts", "resumes")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._edits: list[_Edit] = []
        self._left_out: tuple[int, int] | None = None
        self.resumes: set[int] = set()
        """New places behind what was left out."""

    def put(self, start: int, size: int, data: bytes | None) -> None:
        """``data`` stands in place of ``size`` bytes, or they stay (None); in order of ``start``."""
        if self._left_out is not None:
            self.settle(1 if self._edits else 0)
            self.resumes.add(self.place(start))
        self._add(start, start + size, data, 0)

    def settle(self, lost: int = 0) -> None:
        """Nothing more is left out here: it becomes ``lost`` missing bytes."""
        if self._left_out is not None:
            self._add(*self._left_out, b"", lost)
            self._left_out = None

    def leave_out(self, start: int, size: int) -> None:
        """These bytes are not to be there."""
        first = start if self._left_out is None else self._left_out[0]
        self._left_out = (first, start + size)

    def _add(self, start: int, end: int, data: bytes | None, lost: int) -> None:
        at = self.place(start)
        self._starts.append(start)
        self._edits.append(_Edit(start, end, at, data, lost))

    def _find(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def place(self, offset: int) -> int:
        """Where the byte stands now that stood there."""
        index = self._find(offset)
        if index < 0:
            return offset
        edit = self._edits[index]
        if offset >= edit.end:
            return edit.at + edit.size + offset - edit.end
        return edit.at + max(0, min(offset - edit.start, edit.size - 1))

    def cut(self, start: int, old: bytes, filler: bytes) -> list[tuple[int, bytes]]:
        """What stands in place of the bytes ``old``, which begin at ``start``: runs of bytes with their places.

        ``filler`` is one byte. There is one run, an empty one perhaps, unless a hole is between.
        """
        first, end = start, start + len(old)
        runs: list[tuple[int, bytes]] = [(self.place(start), b"")]
        while start < end:
            index = self._find(start)
            edit = self._edits[index] if index >= 0 else None
            if edit is not None and start < edit.end:
                stop = min(end, edit.end)
                at = self.place(start)
                new = edit.data
                data = (
                    old[start - first : stop - first] if new is None else new[at - edit.at : self.place(stop) - edit.at]
                )
            else:
                stop = min(end, self._starts[index + 1]) if index + 1 < len(self._starts) else end
                at, data = self.place(start), filler * (stop - start)
            last_at, last = runs[-1]
            if last_at + len(last) == at or not data:
                runs[-1] = (last_at, last + data)
            else:
                runs.append((at, data))
            start = stop
        return runs
