"""Work on the rows of an index in threads: the view of a filter, and searches.

Rules of this file
1. The base of every view are the visible rows of the index. It grows while the index is built.
2. Only one filter and one search run at a time. A new one stops the one before.
3. A thread only appends rows; the application reads the part that is complete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from pcli.cli.browse.row_filter import Rows, matching_rows, visible_rows
from pcli.cli.browse.stored_frames import StoredFrames
from pcli.cli.browse.thread_job import ThreadJob
from pcli.codec.observe import Facts, Filter

_BLOCK: Final = 1 << 20


class Job(Protocol):
    """Work in a thread."""

    @property
    def running(self) -> bool:
        """Whether the thread is running."""

    @property
    def progress(self) -> float:
        """The part of the work that is done, from 0 to 1."""

    def stop(self) -> None:
        """Stop the thread."""


class GrowingRows:
    """An array of frame numbers that is appended to by one thread and read by others."""

    def __init__(self) -> None:
        self._array = np.empty(1024, np.uint32)
        self._count = 0

    def append(self, rows: Rows) -> None:
        """Append frame numbers."""
        needed = self._count + len(rows)
        if needed > len(self._array):
            larger = np.empty(max(needed, 2 * len(self._array)), np.uint32)
            larger[: self._count] = self._array[: self._count]
            self._array = larger
        self._array[self._count : needed] = rows
        self._count = needed

    @property
    def rows(self) -> Rows:
        """The frame numbers so far."""
        count = self._count
        return self._array[:count]


class VisibleRows:
    """The rows of the index without the broker's own traffic, or all rows."""

    def __init__(self, frames: StoredFrames, *, system: bool) -> None:
        self._frames = frames
        self.system = system
        self._until = 0
        self._found = GrowingRows()

    def refresh(self) -> Rows:
        """Add the rows that were added to the index, and return all rows."""
        index = self._frames.index
        while self._until < index.count:
            stop = min(self._until + _BLOCK, index.count)
            self._found.append(visible_rows(index, self._until, stop, system=self.system))
            self._until = stop
        return self._found.rows


class FilteredRows:
    """The rows of a base that match a filter or a set of frames, found in a thread."""

    def __init__(self, frames: StoredFrames, wanted: Filter | Callable[[Facts], bool]) -> None:
        self._frames = frames
        self._wanted = wanted
        self._found = GrowingRows()
        self._examined = 0
        self._total = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def rows(self) -> Rows:
        """The rows found so far."""
        return self._found.rows

    @property
    def progress(self) -> float:
        """The part of the base that was examined, from 0 to 1."""
        return self._examined / self._total if self._total else 1.0

    @property
    def running(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def extend(self, base: Rows) -> None:
        """Examine the rows of a base that were not examined yet, unless the thread is running."""
        if self.running or self._stop.is_set() or len(base) <= self._examined:
            return
        self._total = len(base)
        self._thread = threading.Thread(target=self._run, args=(base,), daemon=True)
        self._thread.start()

    def _run(self, base: Rows) -> None:
        start = self._examined
        for examined, rows in matching_rows(self._frames, self._wanted, base[start:]):
            self._found.append(rows)
            self._examined = start + examined
            if self._stop.is_set():
                return

    def stop(self) -> None:
        """Stop the thread. The rows found so far remain."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        """Wait for the thread, at most for this time."""
        if self._thread is not None:
            self._thread.join(seconds)


class FixedRows:
    """Rows that are known at once, as the frames of a message."""

    running = False
    progress = 1.0

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def extend(self, base: Rows) -> None:
        """Ignore the rows of a base."""

    def join(self, seconds: float) -> None:
        """Do nothing, because nothing runs."""

    def stop(self) -> None:
        """Do nothing, because nothing runs."""


class FrameSearch(ThreadJob):
    """A search for the next frame of a view with a property, in a thread."""

    def __init__(
        self, frames: StoredFrames, matches: Callable[[Facts], bool], rows: Rows, on_end: Callable[[int], None]
    ) -> None:
        """``rows`` are in the order of the search. ``on_end`` receives the number of the frame, or 0, in the thread."""
        self._rows = rows
        self._frames, self._matches, self._on_end = frames, matches, on_end
        self._start(len(rows))

    def _run(self) -> None:
        index = self._frames.index
        for number in self._rows.tolist():
            self._done += 1
            if self._stop.is_set():
                return
            if self._matches(self._frames.rebuilt(number, index.row(number))):
                self._on_end(number)
                return
        self._on_end(0)
