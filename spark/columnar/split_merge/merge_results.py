"""Results of the merge: valid rows of each split, their numbers in the recording, and additional items.

A split in the middle of a recording is read with numbers that are relative to the split: packets from 1, connections
("streams") from 0, offsets of earlier connections from `held_packets.FAR`. All processing of the split's rows may use
these numbers, with (split, stream) as the key. The merge returns one `MergedSplit` for each split.

Rules of this file
1. The rows of a (split, stream) are either valid and renumbered, or all dropped. If they are dropped, ``extra``
   contains the rows that replace them. An aggregate of a dropped (split, stream) is also dropped, and the extra rows
   are aggregated instead.
2. There are few extra rows: frames across the boundary of a split, rows of splits that were read again, and items from
   the end of the recording. They have the recording's numbers.
3. The order is (split, turn, place): ``turn`` is the packet that completed a row, and ``place`` is the order of the row
   within the turn. The place of a row of the split is its row number. An extra item whose place is a row number
   precedes that row. Items with a place below 0 precede all rows of the split in this turn; items with a place of at
   least AFTER follow these rows. `MergedSplit.extra` is sorted.
4. The module contains only data: plain arrays and small classes that can be pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pcli.codec.capture.frames import CapturedFrame, Note, Stream, StreamEnd
from pcli.spark.columnar.frame_columns import ANCHORED, RESYNC, Bools, Longs, Places
from pcli.spark.columnar.split_merge.deferred_tcp_ends import IMMEDIATE, ReportIntervals

AFTER: Final = 1 << 40
"""`Extra.place` of items of the packet itself, after all items of timers at that packet."""

OWN: Final = -1
"""Value in `SplitRenumbering.sync` that leaves the value of each row unchanged."""

DROPPED: Final = -1
"""Value in `SplitRenumbering.streams` if no row of the stream is valid."""


@dataclass(slots=True)
class Extra:
    """A frame, note or end that is not in the rows of any split."""

    turn: int
    """The recording's packet that completed the item."""
    place: int
    """Order within the turn (see the module's docstring)."""
    item: CapturedFrame | Note | StreamEnd
    """The item with the recording's numbers, except ``CapturedFrame.number``: see `MergedSplit.numbers`."""
    rank: int = 0
    """Order within the place."""
    ticket: int = 0
    """Order within the rank."""
    ready: ReportIntervals = IMMEDIATE
    """The intervals in which an end could have been reported earlier; used only until the merge."""


def insertion_points(extra: Sequence[Extra], turn: Longs, first: int) -> Longs:
    """Return the row that each item precedes.

    ``turn`` contains the turn of each row as a packet of the recording; ``first`` is the number of the first row in its
    split.
    """
    turns = np.array([one.turn for one in extra], np.int64)
    places = np.array([one.place for one in extra], np.int64)
    found: Longs = np.clip(places - first, np.searchsorted(turn, turns, "left"), np.searchsorted(turn, turns, "right"))
    return found


@dataclass(slots=True)
class SplitRenumbering:
    """The mapping from a split's numbers to the recording's numbers."""

    packets: int
    """Value to add to every packet number (turn, packet, first_packet)."""
    streams: Longs
    """The recording's stream for each stream of the split, or DROPPED."""
    offsets: Longs
    """Values to add to offsets, by 2 * stream + from_client."""
    sync: Longs
    """Certainty of frame boundaries, by 2 * stream + from_client; OWN leaves the value of each row unchanged."""
    anchored: Longs
    """The split's offset from which the certainty is at most ANCHORED, with the same index."""
    lost: Longs
    """The split's offset from which the certainty is RESYNC. Both limits are ignored where ``sync`` is OWN."""

    @classmethod
    def of_none(cls, packets: int, streams: int) -> SplitRenumbering:
        """Return the initial mapping of a split, in which no stream is valid."""
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
        """Return which rows, given by their streams, are valid."""
        stands: Bools = self.streams[stream] != DROPPED
        return stands

    def places(self, places: Places) -> Places:
        """Return the split's valid rows with the recording's numbers; ``data`` and ``start`` are not copied."""
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
        """Return the column ``sync`` for the recording. ``side`` is 2 * stream + from_client for each row."""
        level = self.sync[side]
        given = np.where(places.offset >= self.anchored[side], np.maximum(level, ANCHORED), level)
        given[places.offset >= self.lost[side]] = RESYNC
        return np.where(level == OWN, places.sync, given)


@dataclass(slots=True)
class MergedSplit:
    """One split as a part of the recording."""

    split: int
    """Index of the split in its recording."""
    renaming: SplitRenumbering
    extra: list[Extra]
    """Additional items, in order."""
    first_number: int = 0
    """`CapturedFrame.number` of the split's first frame, including extra frames."""
    rows: int = 0
    """Number of valid frames of the split, including extra frames."""

    def numbers(self, turn: Longs, stream: Longs) -> tuple[Longs, Longs]:
        """Return `CapturedFrame.number` of the split's rows (-1 if not valid), and of the items in ``extra``.

        ``turn`` and ``stream`` contain all rows of the split, in order, with the split's numbers. A note or an end has
        the number of the last frame before it; 0 if there is none.
        """
        stands = self.renaming.stands(stream) if len(stream) else np.zeros(0, np.bool_)
        before = np.concatenate((np.zeros(1, np.int64), np.cumsum(stands)))
        framed = np.array([isinstance(extra.item, CapturedFrame) for extra in self.extra], np.bool_)
        at = insertion_points(self.extra, turn + self.renaming.packets, 0)
        come = np.searchsorted(at[framed], np.arange(len(turn)), "right")
        own = np.where(stands, self.first_number + before[:-1] + come, -1)
        return own, self.first_number + before[at] + np.cumsum(framed) - 1


@dataclass(slots=True)
class MergedSplits:
    """The merged recording."""

    splits: list[MergedSplit]
    ending: MergedSplit
    """The items from the end of the recording, as one more split. They are valid if no packet follows."""
    streams: list[Stream]
    """All connections by number, in their state at the end of the recording."""
