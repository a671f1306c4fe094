"""The last data packets, to compare retransmissions with, when most packets are taken together.

Rules of this file
1. It answers as `codec.capture.history` would at that packet: the last HISTORY data packets of all connections before
   it, those that were taken together in their places among those that came one by one.
2. Packets that were taken together are columns; one of them becomes an entry only when somebody asks. What was taken
   may lie behind the packet at hand: that is not past yet.
3. At the end of a window the last ones are kept with their bytes, and the window is let go.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

import numpy as np

from pcli.codec.capture.flows import Direction
from pcli.codec.capture.history import HISTORY, Entry, History
from pcli.spark.columnar.frame_columns import Longs

__all__ = ["Past"]

_STEP: Final = 4 * HISTORY
_key = itemgetter(0)


class Past(History):
    """See `History`; entries and packets of a window."""

    def __init__(self) -> None:
        self._before: list[Entry] = []
        """Of earlier windows."""
        self._single: list[tuple[int, Entry]] = []
        """Those that came one by one, with twice the index of the packet at which they were delivered."""
        self._taken: list[Longs] = []
        """Of those that were taken together, by packet of the window: number of the direction or -1; offset in it."""
        self._ways: list[Direction] = []
        self._window: tuple[bytes, Longs, Longs] | None = None
        self.fed = 0
        """Data packets so far, those that were taken together included."""
        self.turn = 0
        """Index in the window of the packet at hand."""

    def begin(self, data: bytes, at: Longs, stop: Longs) -> None:
        """A window in which packets are taken together; their data are data[at:stop]."""
        self._window = (data, at, stop)
        self._taken = [np.full(len(at), -1, np.int64), np.zeros(len(at), np.int64)]

    def take(self, ways: list[Direction], packets: Longs, way: Longs, offset: Longs) -> None:
        """Data packets were taken together: their indices in the window, indices into ``ways``, offsets."""
        self._taken[0][packets] = way + len(self._ways)
        self._taken[1][packets] = offset
        self._ways += ways
        self.fed += len(packets)

    def append(self, entry: Entry) -> None:
        """Remember a packet that came alone."""
        self._single.append((2 * self.turn, entry))
        self.fed += 1

    def of(self, way: Direction) -> list[Entry]:
        """What is remembered of a direction, the oldest first."""
        return [entry for entry in self._last(self.turn, way) if entry[0] is way]

    def end(self, count: int) -> None:
        """The window of ``count`` packets is over."""
        kept = self._last(count, None)
        self._before = [(way, at, data[start:end], 0, end - start) for way, at, data, start, end in kept]
        self._single, self._taken, self._ways, self._window, self.turn = [], [], [], None, 0

    def _last(self, turn: int, way: Direction | None) -> list[Entry]:
        """The last HISTORY entries before a packet; of those taken together only the ones of ``way``, if given."""
        found: list[tuple[int, Entry | int]] = [*self._single[-HISTORY:]]
        found += [(2 * index + 1, index) for index in self._indices(turn)]
        found.sort(key=_key)
        del found[:-HISTORY]
        entries = self._before[len(found) - HISTORY :] if len(found) < HISTORY else []
        entries = [*entries]
        for _, item in found:
            if not isinstance(item, int):
                entries.append(item)
            elif way is None or self._ways[self._taken[0][item]] is way:
                entries.append(self._entry(item))
        return entries

    def _indices(self, turn: int) -> list[int]:
        """The last packets before one that were taken together."""
        if not self._taken:
            return []
        low, step = turn, _STEP
        found: list[int] = []
        while low > 0 and len(found) < HISTORY:
            low = max(0, turn - step)
            found = (np.flatnonzero(self._taken[0][low:turn] >= 0) + low).tolist()
            step *= 8
        return found[-HISTORY:]

    def _entry(self, index: int) -> Entry:
        assert self._window is not None
        data, at, stop = self._window
        way = self._ways[self._taken[0][index]]
        return way, int(self._taken[1][index]), data, int(at[index]), int(stop[index])
