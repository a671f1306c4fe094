"""The connection of each frame of a capture, so that a further pass can read only some connections.

Consecutive frames of one connection are a run, which occupies eight bytes. MAX_RUNS bounds the memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import chain, islice
from typing import Final

MAX_RUNS: Final = 2_000_000
"""Maximum number of runs. They occupy 16 MB."""


class FrameStreams:
    """The number of the connection of each frame, by frame number."""

    __slots__ = ("_firsts", "_streams", "complete")

    def __init__(self) -> None:
        self._firsts, self._streams = array("I"), array("I")
        self.complete = True
        """Whether there were at most MAX_RUNS runs. If there were more, the connections of later frames are unknown."""

    def begin(self, number: int, stream: int) -> None:
        """Begin a run: the frames from this number are frames of a connection, given by its number."""
        if len(self._firsts) < MAX_RUNS:
            self._firsts.append(number)
            self._streams.append(stream)
        else:
            self.complete = False

    def numbers_until(self, wanted: Collection[int]) -> dict[int, Iterator[int]]:
        """Return, for each connection with wanted frames, the numbers of all its frames up to the last wanted frame."""
        last = {self._streams[bisect_right(self._firsts, number) - 1]: number for number in sorted(wanted)}
        runs: dict[int, list[range]] = {stream: [] for stream in last}
        ends = chain(islice(self._firsts, 1, None), (max(wanted, default=0) + 1,))
        for stream, first, end in zip(self._streams, self._firsts, ends):
            if first <= last.get(stream, -1):
                runs[stream].append(range(first, min(end, last[stream] + 1)))
        return {stream: chain.from_iterable(found) for stream, found in runs.items()}
