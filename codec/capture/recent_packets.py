"""The most recent data packets of an input, for comparison with retransmissions.

Rules of this file
1. One history covers all connections, in the order in which their bytes were delivered. Memory is therefore bounded,
   and the extent of a comparison does not depend on the size of the windows.
2. Packets are stored as positions in a window, not copied. A window remains in memory while the history contains one of
   its packets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from pcli.codec.capture.flows import Direction

HISTORY: Final = 256
"""Number of data packets in the history."""

Entry = tuple[Direction, int, bytes, int, int]
"""A packet: direction, offset in the direction, and the bytes data[start:end]."""


class History:
    """The last HISTORY data packets."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=HISTORY)

    def append(self, entry: Entry) -> None:
        """Add a packet; the oldest packet is dropped when the history is full."""
        self._entries.append(entry)

    def of(self, direction: Direction) -> Iterable[Entry]:
        """Return the packets of a direction, the oldest first."""
        return [entry for entry in self._entries if entry[0] is direction]
