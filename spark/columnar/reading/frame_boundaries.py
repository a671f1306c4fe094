"""The frames in joined bytes, and the frames that the object path must process.

Rules of this file
1. This module changes no state. If a frame is unusual, the result contains its connection and the packet from which the
   object path must process the connection.
2. Processing starts with the packet in which the first unusual frame begins: no earlier packet contains any byte of the
   frame.
3. A loop over length prefixes accepts every length. It is the only step that runs once per frame. Unusual frames are
   found afterwards, for all frames together.
4. A frame is unusual if its lengths contradict each other or exceed the limit, if its command does not begin with its
   type, or if it is a CONNECTED, which may change the limit.
5. In a direction whose frames were found by a search, each frame is verified until the direction is trusted.
   `capture.frame_extraction` accepts such a frame if the frame is valid in every respect, or if another frame can begin
   after it. Therefore only the heads must be plausible. The frame itself must be valid only if a packet ends within the
   next head.
6. The bytes that checks may read (``Budget``) and the verified bytes (``checked_bytes``) are counted in the same way as
   there. The object path processes a direction whose budget is nearly used up.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import Final

import numpy as np

from pcli.codec.capture.command_start_patterns import HEAD_SIZE, PATTERNS, TAGS
from pcli.codec.capture.flows import SLOW, Aligned, Direction
from pcli.codec.capture.frames import RESYNC
from pcli.codec.capture.resync import BUDGET, check_frame
from pcli.spark.columnar.frame_columns import Bools, Longs
from pcli.spark.columnar.reading.direction_packets import Conversation
from pcli.spark.columnar.reading.joined_bytes import Joined


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
    """Whether each frame must be verified (rule 5)."""

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
    checked_bytes = np.array([one.direction.aligned.checked_bytes for one in joined.stretches], np.int64)
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


_CONNECTED: Final = 0x0803
_FIRST_TYPE: Final = 0x0800
_LAST_TYPE: Final = 0x087F
"""The first two bytes of a command: field 1, and a type of one byte."""

_HEAD: Final = np.dtype({"names": ["command", "first"], "formats": [">u4", ">u2"], "offsets": [4, 8], "itemsize": 10})

_length = Struct(">I").unpack_from
_two = Struct(">II").unpack_from


def walk(pool: bytearray, start: int, end: int, frames: list[int]) -> int:
    """Append the starts of frames that end at or before ``end``; return the start of the next, incomplete frame."""
    length, at = _length, start
    with memoryview(pool)[:end] as view:
        try:
            while True:
                # A bound method would cost twice as much as a method call by name.
                frames.append(at)
                at += length(view, at)[0] + 4
        except struct_error:
            # No complete length follows, so no frame begins at this position. The previous frame is incomplete if it
            # extends beyond ``end``.
            frames.pop()
            return at if at <= end else frames.pop()


def unusual(pool: bytearray, start: Longs, size: Longs, limit: Longs) -> Bools:
    """Return which complete frames, of ``size`` bytes including the length prefix, are not ordinary."""
    if len(pool) < _HEAD.itemsize:
        return np.ones(len(start), np.bool_)
    # A frame that is too short is unusual in any case, so the content of its head is irrelevant.
    heads = np.ndarray((len(pool) - 9,), "V10", pool, 0, (1,))[np.minimum(start, len(pool) - _HEAD.itemsize)].view(
        _HEAD
    )
    command, first = heads["command"].astype(np.int64), heads["first"].astype(np.uint16)
    wrong: Bools = (size < command + 8) | (size > limit) | (command < 2)
    # The subtraction is unsigned: a value below the first type becomes a value far above the last type.
    wrong |= (first - np.uint16(_FIRST_TYPE) > _LAST_TYPE - _FIRST_TYPE) | (first == _CONNECTED)
    return wrong


def unusual_open(pool: bytearray, start: int, end: int, limit: int) -> bool:
    """Return whether an incomplete frame has lengths that contradict each other or exceed the limit."""
    if end - start < 8:
        return False
    length, command = _two(pool, start)
    return bool(command + 4 > length or length + 4 > limit)


def missing(pool: bytearray, start: int, end: int, head: int) -> int:
    """Return how many bytes are missing to complete a started frame, its lengths, or its first ``head`` bytes."""
    left = end - start
    if left < head:
        return (8 if left < 8 else head) - left
    return int(_length(pool, start)[0]) + 4 - left


def _tag_bytes(index: int) -> Longs:
    """Return a byte of the body's tag by command type; -1 if the tag is too short, -2 if the type is unknown."""
    table = np.full(256, -2, np.int64)
    for number, tag in TAGS.items():
        table[number] = tag[index] if index < len(tag) else -1
    return table


_FIRST: Final = _tag_bytes(0)
_SECOND: Final = _tag_bytes(1)


def is_unverified(direction: Direction, *, fragments: bool) -> bool:
    """Return whether a direction is processed on the slow path only because its frames must be verified.

    ``fragments`` states whether the capture contains fragmented IP packets, which may have carried the stored bytes.
    """
    connection, peer, mode = direction.connection, direction.peer, direction.mode
    return (
        direction.next == SLOW
        and isinstance(mode, Aligned)
        and mode.sync == RESYNC
        and mode.checked_bytes <= direction.limit
        and not (direction.pending_problems or direction.held or peer.held or (direction.run and fragments))
        and direction.fin < 0
        and peer.fin < 0
        and direction.base >= 0
        and not (connection.paused or connection.finished)
        and connection.closing < 0
    )


def plausible(pool: bytearray, start: Longs) -> Bools:
    """Return for each place whether a frame can begin there (`command_start_patterns`); HEAD_SIZE bytes must follow."""
    heads = np.ndarray((len(pool) - 11,), "V12", pool, 0, (1,))[start].view(np.uint8).reshape(-1, 12)
    kind = heads[:, 9]
    good: Bools = (heads[:, 0] < 16) & (heads[:, 4] < 16) & (heads[:, 8] == 8) & (heads[:, 10] == _FIRST[kind])
    second = _SECOND[kind]
    good &= (second == -1) | (heads[:, 11] == second)
    return good


def may_begin(pool: bytearray, start: int, end: int) -> bool:
    """Return whether an incomplete frame can begin at a position; True if fewer than HEAD_SIZE bytes follow."""
    return end - start < HEAD_SIZE or PATTERNS[None].match(pool, start) is not None


def within_budget(direction: Direction, size: int) -> bool:
    """Return whether a direction's budget suffices to verify ``size`` bytes, for any division into packets."""
    return direction.budget.spent + size <= BUDGET * (direction.offset + 1024)
