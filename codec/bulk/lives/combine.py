"""From the frames of a split to its partials: what pairs inside the split is paired, the rest goes on.

Rules of this file
1. A split is a chain of windows in order. Rows of frames that join two splits (seams) are a split of their own.
2. Nothing here needs a name: which topic an id means is found out later, by the number of the frame.
3. ``numbers`` are counted from 1 in the split; `renumber.globalize` makes them the recording's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pcli.codec.bulk.columns import RESYNC, Frames, Longs
from pcli.codec.bulk.lives.consuming import Consuming
from pcli.codec.bulk.lives.partials import EVENTS, Partials
from pcli.codec.bulk.lives.picking import edges, order_of
from pcli.codec.bulk.lives.sending import Sending
from pcli.codec.bulk.lives.speaking import Speaking
from pcli.codec.bulk.observing.asides import Aside
from pcli.codec.capture.frames import Note, StreamEnd

__all__ = ["BEGINS", "CAUTIOUS", "PROOF", "SEARCHED", "Combiner", "Events", "combine"]

Events = Sequence[tuple[int, Note | StreamEnd]]
"""Notes and ends, each with the row of the window's frames before which it stands."""


class Combiner:
    """One split."""

    def __init__(self, split: int) -> None:
        """``split`` names it in every row."""
        self._split = split
        self._sending, self._consuming, self._speaking = Sending(split), Consuming(split), Speaking(split)
        self._events: list[pa.Table] = []
        self._number = 0
        self._time_ns = -1
        self._searching: set[int] = set()
        """Connections and directions (`_sides`) whose last frame was found by search."""
        self._ends: dict[int, int] = {}
        """Where the last frame ends, of connections and directions."""
        self._told: dict[int, int] = {}
        """How many frames of their run were told, of these."""
        self._last: dict[tuple[int, int], int] = {}

    def add(self, frames: Frames, events: Events = (), *, numbers: Longs | None = None) -> None:
        """Take in a window. ``numbers``: of its frames, rising; None: they are counted on."""
        if numbers is None:
            numbers = np.arange(1, len(frames) + 1, dtype=np.int64) + self._number
        self._note(frames, events, numbers)
        loose = self._sending.add(frames, numbers)
        self._consuming.add(frames, numbers)
        self._speaking.add(frames, numbers, loose)
        if len(numbers):
            self._number, self._time_ns = int(numbers[-1]), int(frames.places.time_ns[-1])

    def tell(self, asides: Iterable[Aside]) -> None:
        """Take in notes and ends of which is known behind which frame of the recording they stand."""
        rows = [_row(self._split, one.after, one.last_ns, one.item) | {"since": -1} for one in asides]
        if rows:
            self._events.append(pa.Table.from_pylist(rows, EVENTS))

    def _note(self, frames: Frames, events: Events, numbers: Longs) -> None:
        rows = []
        for before, item in events:
            number = int(numbers[before - 1]) if before else self._number
            time_ns = int(frames.places.time_ns[before - 1]) if before else self._time_ns
            row = _row(self._split, number, time_ns, item)
            rows.append(row | {"since": self._since(frames, numbers, before, row["stream"], row["from_client"])})
        order = order_of(_sides(frames))
        for at, row in _marks(self._split, frames, numbers, order):
            since = self._since(frames, numbers, at, row["stream"], row["from_client"]) if row["kind"] in _HOLES else -1
            rows.append(row | {"since": since})
        if len(frames):
            rows += self._weak(frames, numbers, order)
        self._remember(frames, numbers)
        if rows:
            self._events.append(pa.Table.from_pylist(rows, EVENTS))

    def _since(self, frames: Frames, numbers: Longs, before: int, stream: int, side: int) -> int:
        """The last frame of a connection and direction before a row; -1: none in the split."""
        places = frames.places
        same = places.stream[:before] == stream
        if side >= 0:
            same &= places.from_client[:before] == bool(side)
        found = np.flatnonzero(same)
        if len(found):
            return int(numbers[found[-1]])
        sides = (0, 1) if side < 0 else (side,)
        return max(self._last.get((stream, one), -1) for one in sides)

    def _weak(self, frames: Frames, numbers: Longs, order: Longs) -> Iterator[dict[str, Any]]:
        """The first PROOF frames of every run that was found by search: behind another kind, or behind a hole.

        Of a connection's first frames in the split nothing says whether the run began with them: CAUTIOUS.
        """
        sides, offset = _sides(frames)[order], frames.places.offset[order]
        searched, first = frames.places.sync[order] == RESYNC, edges(sides)
        at = np.flatnonzero(first)
        names = sides[at].tolist()
        before, was = _behind(offset + frames.size[order]), _behind(searched)
        before[at] = [self._ends.get(side, -1) for side in names]
        was[at] = [side in self._searching for side in names]
        begins = searched & ~((before == offset) & was)
        # How many of its run were told before each one: counted from where the run begins, or from what was told.
        count = np.cumsum(searched) - searched
        base = count.copy()
        base[at] -= [0 if begin else self._told.get(side, PROOF) for side, begin in zip(names, begins[at].tolist())]
        marks = np.flatnonzero(first | begins)
        told = count - base[marks][np.cumsum(first | begins) - 1]
        for place in np.flatnonzero(searched & (told < PROOF)).tolist():
            new = first[place] and (int(sides[place]) >> 1, int(sides[place]) & 1) not in self._last
            row = _mark(self._split, frames, int(order[place]), int(numbers[order[place]]), "weak")
            yield row | {"since": -1, "flags": (CAUTIOUS if new else BEGINS) if begins[place] else 0}
        lasts = np.append(at[1:], len(order)) - 1
        so_far = np.minimum(told[lasts] + searched[lasts], PROOF)
        self._told |= dict(zip(names, so_far.tolist(), strict=True))
        self._ends |= dict(zip(names, (offset + frames.size[order])[lasts].tolist(), strict=True))
        self._searching = (self._searching - set(names)) | set(sides[lasts[searched[lasts]]].tolist())

    def _remember(self, frames: Frames, numbers: Longs) -> None:
        sides = _sides(frames)[::-1]
        at = _firsts(sides)
        for one, number in zip(sides[at].tolist(), numbers[::-1][at].tolist(), strict=True):
            self._last[one >> 1, one & 1] = number

    def finish(self) -> Partials:
        """No more will come."""
        published, sessions, written, paired = self._sending.finish()
        consumed, cumulative, labels, read = self._consuming.finish()
        spoken, answered = self._speaking.finish(paired)
        events = pa.concat_tables([EVENTS.empty_table(), *self._events])
        ledgers = pa.concat_tables([written, read])
        return Partials(published, consumed, cumulative, spoken, answered, sessions, ledgers, events, labels)


def combine(batches: Iterable[tuple[Frames, Events]], split: int) -> Partials:
    """The partials of a split, given window by window with the notes and ends in it."""
    combiner = Combiner(split)
    for frames, events in batches:
        combiner.add(frames, events)
    return combiner.finish()


def _sides(frames: Frames) -> Longs:
    """Connection and direction as one number."""
    return frames.places.stream * 2 + frames.places.from_client


def _behind(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each value one place later; the first is no value."""
    return np.concatenate((values[:1], values[:-1]))


def _lasts(frames: Frames, order: Longs) -> Longs:
    """The last frame of each connection and direction, and each behind which another than its next byte follows.

    ``order``: the rows by connection and direction.
    """
    sides = _sides(frames)
    offset = frames.places.offset[order]
    follows = ~edges(sides[order])[1:] & (offset[1:] == offset[:-1] + frames.size[order[:-1]])
    return order[np.append(~follows, True)] if len(order) else order


def _firsts(values: Longs) -> Longs:
    """Where each value (0 or more, not many) stands first; in order of the values."""
    if not len(values):
        return values
    first = np.full(int(values.max()) + 1, -1, np.int64)
    first[values[::-1]] = np.arange(len(values))[::-1]
    return first[first >= 0]


PROOF: Final = 16
"""So many whole frames behind each other are no accident, wherever the first was found."""

BEGINS: Final = 1
CAUTIOUS: Final = 2
"""Flags of a mark "weak": a run begins there; it does unless the frame before, in another split, was in it."""

SEARCHED: Final = 4
"""Flag of a mark "last": it was found by search."""

_HOLES: Final = ("frame:gap", "frame:overlap")


def _row(split: int, number: int, time_ns: int, item: Note | StreamEnd) -> dict[str, Any]:
    row: dict[str, Any] = {
        "split": split, "number": number, "packet": item.packet,
        "stream": -1 if item.stream is None else item.stream.number,
        "from_client": -1 if item.from_client is None else int(item.from_client),
    }  # fmt: skip
    if isinstance(item, StreamEnd):
        flags = item.reset | item.refused << 1 | item.silent << 2
        return row | {
            "kind": "end", "time_ns": item.time_ns, "offset": -1, "length": 0, "flags": flags, "text": "",
        }  # fmt: skip
    offset = -1 if item.offset is None else item.offset
    return row | {
        "kind": item.kind, "time_ns": time_ns, "offset": offset, "length": item.length, "flags": 0, "text": item.text,
    }  # fmt: skip


def _marks(split: int, frames: Frames, numbers: Longs, order: Longs) -> Iterator[tuple[int, dict[str, Any]]]:
    """What the capture did to frames, and for each connection its first frame and what `_lasts` finds."""
    places = frames.places
    marks = [(row, f"frame:{one.kind}") for row, problems in places.trouble.items() for one in problems]
    marks += [(row, "first") for row in _firsts(places.stream).tolist()]
    marks += [(row, "last") for row in _lasts(frames, order).tolist()]
    for row, kind in marks:
        yield row, _mark(split, frames, row, int(numbers[row]), kind)


def _mark(split: int, frames: Frames, row: int, number: int, kind: str) -> dict[str, Any]:
    places = frames.places
    searched = SEARCHED * int(places.sync[row] == RESYNC)
    return {
        "split": split, "number": number, "packet": int(places.packet[row]), "stream": int(places.stream[row]),
        "from_client": int(places.from_client[row]), "kind": kind, "time_ns": int(places.time_ns[row]),
        "offset": int(places.offset[row]), "length": int(frames.size[row]), "flags": searched, "text": "",
    }  # fmt: skip
