"""Joined bytes to frames, and which of these the object path must see.

Rules of this file
1. Nothing is changed here. A frame that is unusual makes its connection one to be left alone, and tells from which
   packet on.
2. A packet in which an unusual frame begins is the first that matters: before it nobody can have seen anything of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcli.codec.capture.legal import HEAD_SIZE
from pcli.codec.capture.resync import check_frame
from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.reading.direction_packets import Lane
from pcli.spark.columnar.reading.joined_bytes import Joined
from pcli.spark.columnar.reading.length_prefixes import unusual, unusual_open, walk
from pcli.spark.columnar.reading.resync_checks import affordable, may_begin, plausible

__all__ = ["Cut", "cut", "look"]


@dataclass(slots=True)
class Cut:
    """The frames in joined bytes, in their order there."""

    start: Longs
    size: Longs
    owner: Longs
    """Index of the stretch."""
    counts: Longs
    """Frames of each stretch."""
    opened: list[int]
    """Where each stretch's open frame begins; its end, when there is none."""
    last: Longs
    """The segment in which each frame ends."""
    checked: Bools
    """Whether each frame is checked, see `doubt`."""

    @property
    def heads(self) -> tuple[Longs, Longs]:
        """The stretches that have frames, and the first frame of each."""
        some = np.flatnonzero(self.counts)
        return some, (np.cumsum(self.counts) - self.counts)[some]


def cut(pool: bytearray, joined: Joined) -> Cut:
    """All frames, as far as lengths go."""
    frames: list[int] = []
    seen, opened = [0], []
    for start, end in zip(joined.start.tolist(), joined.end.tolist()):
        opened.append(walk(pool, start, end, frames))
        seen.append(len(frames))
    begins = np.fromiter(frames, np.int64, len(frames))
    bounds = np.array(seen, np.int64)
    counts = bounds[1:] - bounds[:-1]
    owner = np.repeat(np.arange(len(counts)), counts)
    # A frame ends where the next one begins, and the last of a stretch where the open one does.
    ends = np.empty_like(begins)
    ends[:-1] = begins[1:]
    some = np.flatnonzero(counts)
    ends[np.cumsum(counts)[some] - 1] = np.array(opened, np.int64)[some]
    size = ends - begins
    # Of the segments, which are fewer, it is looked up how many frames end up to there.
    upto = np.searchsorted(ends, joined.ends, "right")
    last = np.repeat(np.arange(len(upto)), np.diff(upto, prepend=0))
    return Cut(begins, size, owner, counts, opened, last, _checked(joined, owner, size))


def _checked(joined: Joined, owner: Longs, size: Longs) -> Bools:
    """Which frames are checked: those of a direction in doubt, until it is believed."""
    doubted = np.array([one.checked for one in joined.stretches], np.bool_)
    if not doubted.any():
        return np.zeros(len(owner), np.bool_)
    filled = np.cumsum(size)
    before = np.concatenate([[0], filled])[np.searchsorted(owner, np.arange(len(doubted)))]
    trust = np.array([one.way.trust for one in joined.stretches], np.int64)
    limit = np.array([one.way.limit for one in joined.stretches], np.int64)
    found: Bools = doubted[owner] & ((trust - before)[owner] + filled - size <= limit[owner])
    return found


def look(pool: bytearray, joined: Joined, frames: Cut) -> dict[Lane, int]:
    """Lanes with an unusual frame, and the packet of the window in which the first of them begins."""
    wrong: dict[Lane, int] = {}
    for owner, place in [*_unusual(pool, joined, frames), *_unusual_open(pool, joined, frames)]:
        # What waited was ordinary as far as it went: what makes it unusual came with the first packet.
        segment = max(int(np.searchsorted(joined.ends, place, "right")), int(joined.first[owner]))
        lane, packet = joined.stretches[owner].lane, int(joined.packets[segment])
        wrong[lane] = min(wrong.get(lane, packet), packet)
    return wrong


def _unusual(pool: bytearray, joined: Joined, frames: Cut) -> list[tuple[int, int]]:
    """Stretch and place of the first unusual frame of each stretch that has one."""
    if not len(frames.start):
        return []
    limits = np.array([one.way.limit for one in joined.stretches], np.int64)
    strange = unusual(pool, frames.start, frames.size, limits.take(frames.owner))
    if frames.checked.any():
        _doubt(pool, joined, frames, strange)
    bad = np.flatnonzero(strange)
    owners, firsts = np.unique(frames.owner[bad], return_index=True)
    return list(zip(owners.tolist(), frames.start[bad[firsts]].tolist()))


def _unusual_open(pool: bytearray, joined: Joined, frames: Cut) -> list[tuple[int, int]]:
    """The same for open frames."""
    found = []
    for owner, (one, at, end) in enumerate(zip(joined.stretches, frames.opened, joined.end.tolist())):
        if unusual_open(pool, at, end, one.way.limit) or (one.checked and not may_begin(pool, at, end)):
            found.append((owner, at))
    return found


def _doubt(pool: bytearray, joined: Joined, frames: Cut, strange: Bools) -> None:
    """Look closer at the frames that are checked."""
    rows = np.flatnonzero(frames.checked & ~strange)
    strange[rows[frames.size[rows] < HEAD_SIZE]] = True
    rows = rows[frames.size[rows] >= HEAD_SIZE]
    strange[rows[~plausible(pool, frames.start[rows])]] = True
    behind = joined.ends[frames.last[rows]] - frames.start[rows] - frames.size[rows]
    for row in rows[(behind > 0) & (behind < HEAD_SIZE) & ~strange[rows]].tolist():
        start = int(frames.start[row])
        strange[row] = not check_frame(bytes(pool[start : start + int(frames.size[row])]))
    paid = np.bincount(frames.owner[frames.checked], frames.size[frames.checked], len(joined.stretches))
    for owner in np.flatnonzero(paid).tolist():
        if not affordable(joined.stretches[owner].way, int(paid[owner])):
            strange[frames.owner == owner] = True
