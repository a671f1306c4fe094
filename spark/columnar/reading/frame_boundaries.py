"""The frames in joined bytes, and the frames that the object path must process.

Rules of this file
1. This module changes no state. If a frame is unusual, the result contains its connection and the packet from which the
   object path must process the connection.
2. Processing starts with the packet in which the first unusual frame begins: no earlier packet contains any byte of the
   frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pcli.codec.capture.command_start_patterns import HEAD_SIZE
from pcli.codec.capture.resync import check_frame
from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.reading.direction_packets import Conversation
from pcli.spark.columnar.reading.joined_bytes import Joined
from pcli.spark.columnar.reading.length_prefixes import unusual, unusual_open, walk
from pcli.spark.columnar.reading.resync_checks import may_begin, plausible, within_budget

__all__ = ["FrameBoundaries", "cut", "first_unusual_packets"]


@dataclass(slots=True)
class FrameBoundaries:
    """The frames in joined bytes, in byte order."""

    start: Longs
    size: Longs
    owner: Longs
    """Index of the frame's stretch."""
    counts: Longs
    """Number of frames in each stretch."""
    opened: list[int]
    """Start of the incomplete last frame of each stretch, or the end of the stretch if there is none."""
    last: Longs
    """The segment in which each frame ends."""
    checked: Bools
    """Whether each frame must be verified (`resync_checks`)."""

    @property
    def heads(self) -> tuple[Longs, Longs]:
        """The stretches that contain frames, and the first frame of each stretch."""
        some = np.flatnonzero(self.counts)
        return some, (np.cumsum(self.counts) - self.counts)[some]


def cut(pool: bytearray, joined: Joined) -> FrameBoundaries:
    """Return all frames. Only the length prefixes are used to find them."""
    frames: list[int] = []
    seen, opened = [0], []
    for start, end in zip(joined.start.tolist(), joined.end.tolist()):
        opened.append(walk(pool, start, end, frames))
        seen.append(len(frames))
    begins = np.fromiter(frames, np.int64, len(frames))
    bounds = np.array(seen, np.int64)
    counts = bounds[1:] - bounds[:-1]
    owner = np.repeat(np.arange(len(counts)), counts)
    # A frame ends where the next frame begins. The last frame of a stretch ends where the incomplete frame begins.
    ends = np.empty_like(begins)
    ends[:-1] = begins[1:]
    some = np.flatnonzero(counts)
    ends[np.cumsum(counts)[some] - 1] = np.array(opened, np.int64)[some]
    size = ends - begins
    # For each segment, count the frames that end in it or earlier. One search per segment is faster than one per frame.
    upto = np.searchsorted(ends, joined.ends, "right")
    last = np.repeat(np.arange(len(upto)), np.diff(upto, prepend=0))
    return FrameBoundaries(begins, size, owner, counts, opened, last, _checked(joined, owner, size))


def _checked(joined: Joined, owner: Longs, size: Longs) -> Bools:
    """Return which frames must be verified: frames of an unverified direction until the direction is trusted."""
    doubted = np.array([one.checked for one in joined.stretches], np.bool_)
    if not doubted.any():
        return np.zeros(len(owner), np.bool_)
    filled = np.cumsum(size)
    before = np.concatenate([[0], filled])[np.searchsorted(owner, np.arange(len(doubted)))]
    checked_bytes = np.array([one.direction.checked_bytes for one in joined.stretches], np.int64)
    limit = np.array([one.direction.limit for one in joined.stretches], np.int64)
    found: Bools = doubted[owner] & ((checked_bytes - before)[owner] + filled - size <= limit[owner])
    return found


def first_unusual_packets(pool: bytearray, joined: Joined, frames: FrameBoundaries) -> dict[Conversation, int]:
    """Return the lanes with unusual frames, each with the packet in which its first unusual frame begins."""
    wrong: dict[Conversation, int] = {}
    for owner, place in [*_unusual(pool, joined, frames), *_unusual_open(pool, joined, frames)]:
        # Bytes from earlier windows were ordinary, so a packet of this window made the frame unusual.
        segment = max(int(np.searchsorted(joined.ends, place, "right")), int(joined.first[owner]))
        conversation, packet = joined.stretches[owner].conversation, int(joined.packets[segment])
        wrong[conversation] = min(wrong.get(conversation, packet), packet)
    return wrong


def _unusual(pool: bytearray, joined: Joined, frames: FrameBoundaries) -> list[tuple[int, int]]:
    """Return each stretch that contains an unusual frame, and the start of its first unusual frame."""
    if not len(frames.start):
        return []
    limits = np.array([one.direction.limit for one in joined.stretches], np.int64)
    marked = unusual(pool, frames.start, frames.size, limits.take(frames.owner))
    if frames.checked.any():
        _doubt(pool, joined, frames, marked)
    bad = np.flatnonzero(marked)
    owners, firsts = np.unique(frames.owner[bad], return_index=True)
    return list(zip(owners.tolist(), frames.start[bad[firsts]].tolist()))


def _unusual_open(pool: bytearray, joined: Joined, frames: FrameBoundaries) -> list[tuple[int, int]]:
    """Return the stretch and start of each incomplete last frame that is unusual."""
    found = []
    for owner, (one, at, end) in enumerate(zip(joined.stretches, frames.opened, joined.end.tolist())):
        if unusual_open(pool, at, end, one.direction.limit) or (one.checked and not may_begin(pool, at, end)):
            found.append((owner, at))
    return found


def _doubt(pool: bytearray, joined: Joined, frames: FrameBoundaries, marked: Bools) -> None:
    """Mark frames that fail verification as unusual."""
    rows = np.flatnonzero(frames.checked & ~marked)
    marked[rows[frames.size[rows] < HEAD_SIZE]] = True
    rows = rows[frames.size[rows] >= HEAD_SIZE]
    marked[rows[~plausible(pool, frames.start[rows])]] = True
    behind = joined.ends[frames.last[rows]] - frames.start[rows] - frames.size[rows]
    for row in rows[(behind > 0) & (behind < HEAD_SIZE) & ~marked[rows]].tolist():
        start = int(frames.start[row])
        marked[row] = not check_frame(bytes(pool[start : start + int(frames.size[row])]))
    paid = np.bincount(frames.owner[frames.checked], frames.size[frames.checked], len(joined.stretches))
    for owner in np.flatnonzero(paid).tolist():
        if not within_budget(joined.stretches[owner].direction, int(paid[owner])):
            marked[frames.owner == owner] = True
