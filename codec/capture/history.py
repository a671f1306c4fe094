"""The last data packets of an input, to compare retransmissions with.

Rules of this file
1. Packets of all connections count together, in the order in which their bytes were delivered: so memory is bounded,
   and how far back a comparison reaches does not depend on who reads.
2. Where the bytes are is remembered, not the bytes: a window stays alive as long as one of its packets is here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from pcli.codec.capture.flows import Direction

__all__ = ["HISTORY", "Entry", "History"]

HISTORY: Final = 256
"""Data packets that are remembered."""

Entry = tuple[Direction, int, bytes, int, int]
"""Direction, offset in it, and where the bytes are: data[start:end]."""


class History:
    """The last HISTORY data packets."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=HISTORY)

    def append(self, entry: Entry) -> None:
        """Remember a packet; the oldest is forgotten."""
        self._entries.append(entry)

    def of(self, way: Direction) -> Iterable[Entry]:
        """What is remembered of a direction, the oldest first."""
        return [entry for entry in self._entries if entry[0] is way]
