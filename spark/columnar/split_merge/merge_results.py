"""What stitching says of the splits of a recording: which of their rows stand, what they are called, what comes in.

A split that begins in the middle of a recording is read with numbers of its own: packets from 1, connections
("streams") from 0, offsets of connections that it met in the middle from `hold.FAR`. All work on its rows may be done
with these, keyed by (split, stream). Stitching (``stitch``) then gives one `Joined` for each split.

Rules of this file
1. A row of a split stands, renamed, or its whole (split, stream) is dropped: then its rows come again in ``extra``.
   Whoever has aggregated rows by (split, stream) drops the aggregate and reads the extra rows instead.
2. Extra rows are few: frames over the edge of a split, what was read again, what the end of the recording gives. They
   speak in the recording's own numbers already.
3. Order is (split, turn, place): ``turn`` the packet at which a row became known, ``place`` its order within the turn.
   For a row of the split, the place is its row number. Extra items with such a place stand before that row; those below
   0 before all rows of the split of this turn, those from AFTER on behind them. `Joined.extra` is in order.
4. Data only; plain arrays and small classes that can be pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pcli.codec.capture.frames import CapturedFrame, Note, Stream, StreamEnd
from pcli.spark.columnar.frame_columns import ANCHORED, RESYNC, Bools, Longs, Places
from pcli.spark.columnar.split_merge.deferred_tcp_ends import AT_ONCE, Ready

__all__ = ["AFTER", "DROPPED", "OWN", "Extra", "Joined", "Renaming", "Stitched", "spots"]

AFTER: Final = 1 << 40
"""`Extra.place` of what the packet itself gives: behind everything that alarms gave at that packet."""

OWN: Final = -1
"""In `Renaming.sync`: the row's own word counts."""

DROPPED: Final = -1
"""In `Renaming.streams`: no row of this stream stands."""


@dataclass(slots=True)
class Extra:
    """A frame, note or end that no split has in its rows."""

    turn: int
    """The recording's packet at whose processing it became known."""
    place: int
    """Order within the turn, see the module."""
    item: CapturedFrame | Note | StreamEnd
    """In the recording's numbers, but for ``CapturedFrame.number``, which `Joined.numbers` gives."""
    rank: int = 0
    """Order within the place,"""
    ticket: int = 0
    """and within the rank."""
    ready: Ready = AT_ONCE
    """Of an end, and until all is joined: when it could have been told earlier."""


def spots(extra: Sequence[Extra], turn: Longs, first: int) -> Longs:
    """Before which of some rows each one stands.

    ``turn`` are those of the rows in the recording's packets, ``first`` is the place of the first row in its split.
    """
    turns = np.array([one.turn for one in extra], np.int64)
    places = np.array([one.place for one in extra], np.int64)
    found: Longs = np.clip(places - first, np.searchsorted(turn, turns, "left"), np.searchsorted(turn, turns, "right"))
    return found


@dataclass(slots=True)
class Renaming:
    """From a split's own numbers to those of the recording."""

    packets: int
    """Add to every packet number (turn, packet, first_packet)."""
    streams: Longs
    """By the split's stream: that of the recording, or DROPPED."""
    offsets: Longs
    """By 2 * stream + from_client: add to the offset."""
    sync: Longs
    """By 2 * stream + from_client: how certain the places are; OWN: as the row says itself."""
    anchored: Longs
    """And the split's offset from which on they are no more certain than ANCHORED,"""
    lost: Longs
    """or RESYNC. With OWN neither matters."""

    @classmethod
    def of_none(cls, packets: int, streams: int) -> Renaming:
        """Of a split with so many packets before it, and so many streams, of which none stands yet."""
        sides = 2 * streams
        return cls(
            packets,
            np.full(streams, DROPPED, np.int64),
            np.zeros(sides, np.int64),
            np.full(sides, OWN, np.int64),
            np.zeros(sides, np.int64),
            np.zeros(sides, np.int64),
        )

    def stands(self, stream: Longs) -> Bools:
        """Which rows, given by their streams, stand."""
        stands: Bools = self.streams[stream] != DROPPED
        return stands

    def places(self, places: Places) -> Places:
        """Rows of the split that all stand, renamed; ``data`` and ``start`` are the same objects."""
        side = places.stream * 2 + places.from_client
        return Places(
            data=places.data,
            start=places.start,
            kept=places.kept,
            turn=places.turn + self.packets,
            packet=places.packet + self.packets,
            first_packet=places.first_packet + self.packets,
            time_ns=places.time_ns,
            stream=self.streams[places.stream],
            from_client=places.from_client,
            offset=places.offset + self.offsets[side],
            sync=self.levels(places, side),
            trouble=places.trouble,
        )

    def levels(self, places: Places, side: Longs) -> Longs:
        """The column ``sync`` of the recording; ``side``: 2 * stream + from_client of each row."""
        level = self.sync[side]
        given = np.where(places.offset >= self.anchored[side], np.maximum(level, ANCHORED), level)
        given[places.offset >= self.lost[side]] = RESYNC
        return np.where(level == OWN, places.sync, given)


@dataclass(slots=True)
class Joined:
    """A split's part of the recording."""

    split: int
    """Index of the split in its recording."""
    renaming: Renaming
    first_number: int
    """`CapturedFrame.number` of the split's first frame, extras included."""
    rows: int
    """Frames of the split, extras included, dropped ones not."""
    extra: list[Extra] = field(default_factory=list)
    """In order."""

    def numbers(self, turn: Longs, stream: Longs) -> tuple[Longs, Longs]:
        """`CapturedFrame.number` of the split's rows, -1 for those that do not stand, and of what is in ``extra``.

        ``turn`` and ``stream`` are those of all rows of the split, in order, in its own numbers. The number of a note
        or an end is that of the last frame before it; 0: none.
        """
        stands = self.renaming.stands(stream) if len(stream) else np.zeros(0, np.bool_)
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(stands)))
        framed = np.array([isinstance(extra.item, CapturedFrame) for extra in self.extra], np.bool_)
        at = spots(self.extra, turn + self.renaming.packets, 0)
        come = np.searchsorted(at[framed], np.arange(len(turn)), "right")
        own = np.where(stands, self.first_number + before[:-1] + come, -1)
        return own, self.first_number + before[at] + np.cumsum(framed) - 1


@dataclass(slots=True)
class Stitched:
    """A recording, put together."""

    splits: list[Joined]
    streams: list[Stream]
    """All its connections by their numbers, as they are known at its end."""
