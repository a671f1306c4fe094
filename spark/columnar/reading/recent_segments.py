"""The most recent data packets, used to check retransmissions when most packets are processed together.

Rules of this file
1. The content is the same as in `capture.recent_packets` at the current packet: the last HISTORY data packets before
   the current packet across all connections, in order, whether they were processed together or one by one.
2. Packets processed together are stored in columns; an entry is created only on demand. Packets after the current
   packet are excluded.
3. At the end of a window the last packets are copied with their bytes, and the window is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import numpy as np

from pcli.codec.capture.flows import Direction
from pcli.codec.capture.recent_packets import HISTORY, Entry, History
from pcli.spark.columnar.frame_columns import Longs

_STEP: Final = 4 * HISTORY
_key = itemgetter(0)


class RecentSegments(History):
    """A `History` of single entries and of packets in a window."""

    def __init__(self) -> None:
        self._before: list[Entry] = []
        """Entries of earlier windows."""
        self._single: list[tuple[int, Entry]] = []
        """Entries processed one by one, each with twice the index of the packet at which it was delivered."""
        self._taken: list[Longs] = []
        """For each packet: the number of its direction (-1 if the packet was processed alone) and its offset in the
        direction."""
        self._directions: list[Direction] = []
        self._window: tuple[bytes, Longs, Longs] | None = None
        self.fed = 0
        """Number of data packets so far, including packets processed together."""
        self.turn = 0
        """Index of the current packet in the window."""

    def begin(self, data: bytes, at: Longs, stop: Longs) -> None:
        """Begin a window in which packets are processed together; the data of a packet is data[at:stop]."""
        self._window = (data, at, stop)
        self._taken = [np.full(len(at), -1, np.int64), np.zeros(len(at), np.int64)]

    def take(self, directions: list[Direction], packets: Longs, direction: Longs, offset: Longs) -> None:
        """Store data packets processed together: indices in the window, indices into ``directions``, offsets."""
        self._taken[0][packets] = direction + len(self._directions)
        self._taken[1][packets] = offset
        self._directions += directions
        self.fed += len(packets)

    def count_before_turn(self) -> int:
        """Return the number of data packets before the current packet."""
        ahead = int(np.count_nonzero(self._taken[0][self.turn :] >= 0)) if self._taken else 0
        return self.fed - ahead

    def append(self, entry: Entry) -> None:
        """Store a packet that was processed alone."""
        self._single.append((2 * self.turn, entry))
        self.fed += 1

    def of(self, direction: Direction) -> list[Entry]:
        """Return the entries of a direction, oldest first."""
        return [entry for entry in self._last(self.turn, direction) if entry[0] is direction]

    def end(self, count: int) -> None:
        """End the window, which has ``count`` packets."""
        kept = self._last(count, None)
        self._before = [(direction, at, data[start:end], 0, end - start) for direction, at, data, start, end in kept]
        self._single, self._taken, self._directions, self._window, self.turn = [], [], [], None, 0

    def kept(self) -> list[tuple[int, Entry]]:
        """Return the packets in the history between two windows, each with the number of data packets before it."""
        first = self.fed - len(self._before)
        return [(ordinal, entry) for ordinal, entry in enumerate(self._before, first) if entry[4] > entry[3]]

    def restore(self, fed: int, kept: Sequence[tuple[int, Entry]]) -> None:
        """Set the number of data packets so far, and the contents of the history in the form of `kept`.

        Other packets of the history are empty. If several packets have the same number, some get lower numbers.
        """
        self.fed = number = fed
        before: dict[int, Entry] = {}
        for ordinal, entry in sorted(kept, key=_key, reverse=True):
            number = min(ordinal, number - 1)
            before[number] = entry
        if before:
            empty: Entry = (before[number][0], 0, b"", 0, 0)
            self._before = [before.get(ordinal, empty) for ordinal in range(max(number, fed - HISTORY), fed)]

    def _last(self, turn: int, direction: Direction | None) -> list[Entry]:
        """Return the last HISTORY entries before the packet ``turn``.

        If ``direction`` is set, packets of other directions that were processed together are omitted.
        """
        found: list[tuple[int, Entry | int]] = [*self._single[-HISTORY:]]
        found += [(2 * index + 1, index) for index in self._indices(turn)]
        found.sort(key=_key)
        del found[:-HISTORY]
        entries = self._before[len(found) - HISTORY :] if len(found) < HISTORY else []
        entries = [*entries]
        for _, item in found:
            if not isinstance(item, int):
                entries.append(item)
            elif direction is None or self._directions[self._taken[0][item]] is direction:
                entries.append(self._entry(item))
        return entries

    def _indices(self, turn: int) -> list[int]:
        """Return the last packets before ``turn`` that were processed together."""
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
        direction = self._directions[self._taken[0][index]]
        return direction, int(self._taken[1][index]), data, int(at[index]), int(stop[index])
