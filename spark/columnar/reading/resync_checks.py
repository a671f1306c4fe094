"""Checks of directions whose frames were found by a search; each frame is verified until the direction is trusted.

Rules of this file
1. `capture.frame_extraction` accepts a frame of an unverified direction if the frame is valid in every respect, or if
   another frame can begin after it. Therefore only the heads must be plausible. The frame itself must be valid only if
   a packet ends within the next head.
2. The bytes that checks may read (``Budget``) and the verified bytes (``checked_bytes``) are counted in the same way.
   The object path processes a direction whose budget is nearly used up.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.codec.capture.command_start_patterns import HEAD_SIZE, PATTERNS, TAGS
from pcli.codec.capture.flows import SLOW, SYNC, Direction
from pcli.codec.capture.frames import RESYNC
from pcli.codec.capture.resync import BUDGET
from pcli.spark.columnar.frame_columns import Bools, Longs

__all__ = ["is_unverified", "may_begin", "plausible", "within_budget"]


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
    connection, peer = direction.connection, direction.peer
    return (
        direction.next == SLOW
        and direction.mode == SYNC
        and direction.sync == RESYNC
        and direction.checked_bytes <= direction.limit
        and direction.partial is None
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
