"""Directions whose frames were found by a search, and are checked one by one until they are believed: many at once.

Rules of this file
1. `codec.capture.walk` takes a frame of such a direction when it is right in every respect, or when another can begin
   behind it: so it is enough that all heads are plausible. Only where a packet ends within the next head the frame
   itself must be right.
2. What the checks may read is counted as there (``Budget``), and the bytes that were checked (``trust``), too. A
   direction that comes near the end of its budget is left to the object path.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pcli.codec.capture.flows import SLOW, SYNC, Direction
from pcli.codec.capture.frames import RESYNC
from pcli.codec.capture.legal import HEAD_SIZE, PATTERNS, TAGS
from pcli.codec.capture.resync import BUDGET
from pcli.spark.columnar.frame_columns import Bools, Longs

__all__ = ["affordable", "in_doubt", "may_begin", "plausible"]


def _tag_bytes(index: int) -> Longs:
    """By type the byte of the body's tag; -1: it has no such byte; -2: nobody knows the type."""
    table = np.full(256, -2, np.int64)
    for number, tag in TAGS.items():
        table[number] = tag[index] if index < len(tag) else -1
    return table


_FIRST: Final = _tag_bytes(0)
_SECOND: Final = _tag_bytes(1)


def in_doubt(way: Direction, *, fragments: bool) -> bool:
    """Whether a direction takes the slow path for nothing but that its frames are checked.

    ``fragments``: whether fragmented packets were seen, which frames that waited may have come in.
    """
    connection, peer = way.connection, way.peer
    return (
        way.next == SLOW
        and way.mode == SYNC
        and way.sync == RESYNC
        and way.trust <= way.limit
        and way.partial is None
        and not (way.trouble or way.held or peer.held or (way.run and fragments))
        and way.fin < 0
        and peer.fin < 0
        and way.base >= 0
        and not (connection.paused or connection.finished)
        and connection.closing < 0
    )


def plausible(pool: bytearray, start: Longs) -> Bools:
    """Whether frames can begin at these places, as far as `legal.PATTERNS` goes; all have HEAD_SIZE bytes."""
    heads = np.ndarray((len(pool) - 11,), "V12", pool, 0, (1,))[start].view(np.uint8).reshape(-1, 12)
    kind = heads[:, 9]
    good: Bools = (heads[:, 0] < 16) & (heads[:, 4] < 16) & (heads[:, 8] == 8) & (heads[:, 10] == _FIRST[kind])
    second = _SECOND[kind]
    good &= (second == -1) | (heads[:, 11] == second)
    return good


def may_begin(pool: bytearray, start: int, end: int) -> bool:
    """The same for an open frame of which HEAD_SIZE bytes may be there; fewer tell nothing."""
    return end - start < HEAD_SIZE or PATTERNS[None].match(pool, start) is not None


def affordable(way: Direction, size: int) -> bool:
    """Whether checks of so many bytes are within what a direction may read, at whatever packet they come."""
    return way.budget.spent + size <= BUDGET * (way.offset + 1024)
