"""Partial aggregation of a split: pairs within the split are matched; everything else is forwarded.

Rules of this file
1. A split is a sequence of windows. The frames that cross a boundary between splits are aggregated as a separate split.
2. Topic names are not needed in this stage: the topic of a producer or consumer id is looked up later by frame number.
3. ``numbers`` start at 1 in the split; `renumber_table` replaces them with the recording's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pcli.codec.capture.frames import Note, StreamEnd
from pcli.spark.columnar.frame_columns import RESYNC, Frames, Longs
from pcli.spark.columnar.lifecycles.forwarded_frames import ForwardedFrames
from pcli.spark.columnar.lifecycles.pairs_across_splits import unpaired_acks
from pcli.spark.columnar.lifecycles.partial_tables import EVENTS, Partials
from pcli.spark.columnar.lifecycles.row_operations import group_starts, order_of
from pcli.spark.columnar.lifecycles.split_deliveries import SplitDeliveries
from pcli.spark.columnar.lifecycles.split_sends import SplitSends
from pcli.spark.columnar.observation.capture_event_rows import RecordingEvent

Events = Sequence[tuple[int, Note | StreamEnd]]
"""Notes and ends of connections, each with the row of the window's frames that it precedes."""


class SplitAggregator:
    """The aggregation of one split."""

    def __init__(self) -> None:
        self._sends, self._deliveries_of_split, self._forwarded_frames = (
            SplitSends(),
            SplitDeliveries(),
            ForwardedFrames(),
        )
        self._events: list[pa.Table] = []
        self._number = 0
        self._time_ns = -1
        self._last_frames: dict[int, _LastFrame] = {}
        """The last frame of each connection and direction (`_direction_keys`)."""
        self._run_lengths: dict[int, int] = {}
        """Number of marked frames in the current run, by the same key."""

    def add(self, frames: Frames, events: Events = (), *, numbers: Longs | None = None) -> None:
        """Add a window. ``numbers`` contains the ascending numbers of the frames; if it is None, counting continues."""
        if numbers is None:
            numbers = np.arange(1, len(frames) + 1, dtype=np.int64) + self._number
        self._note(frames, events, numbers)
        unusual = self._sends.add(frames, numbers)
        self._deliveries_of_split.add(frames, numbers)
        self._forwarded_frames.add(frames, numbers, unusual)
        if len(numbers):
            self._number, self._time_ns = int(numbers[-1]), int(frames.places.time_ns[-1])

    def add_events(self, recording_events: Iterable[RecordingEvent]) -> None:
        """Add notes and ends whose preceding frame in the recording is known."""
        rows = [_row(one.after, one.last_ns, one.item) | {"since": -1} for one in recording_events]
        if rows:
            self._events.append(pa.Table.from_pylist(rows, EVENTS))

    def _note(self, frames: Frames, events: Events, numbers: Longs) -> None:
        rows = []
        for before, item in events:
            number = int(numbers[before - 1]) if before else self._number
            time_ns = int(frames.places.time_ns[before - 1]) if before else self._time_ns
            row = _row(number, time_ns, item)
            rows.append(row | {"since": self._since(frames, numbers, before, row["stream"], row["from_client"])})
        trouble = frames.places.trouble
        places = np.array(list(trouble), np.int64)
        ends = zip(_direction_keys(frames)[places].tolist(), _last_frames(frames, numbers, places), strict=True)
        for (at, problems), (side, tail) in zip(trouble.items(), ends, strict=True):
            for kind in (f"frame:{one.kind}" for one in problems):
                since = self._since(frames, numbers, at, side >> 1, side & 1) if kind in _GAPS else -1
                rows.append(_mark(side, tail, kind) | {"since": since})
        if len(frames):
            rows += self._runs(frames, numbers)
        if rows:
            self._events.append(pa.Table.from_pylist(rows, EVENTS))

    def _since(self, frames: Frames, numbers: Longs, before: int, stream: int, side: int) -> int:
        """Return the last frame of a connection and direction before a row; -1 if the split has none."""
        places = frames.places
        same = places.stream[:before] == stream
        if side >= 0:
            same &= places.from_client[:before] == bool(side)
        found = np.flatnonzero(same)
        if len(found):
            return int(numbers[found[-1]])
        sides = (0, 1) if side < 0 else (side,)
        return max(
            self._last_frames[2 * stream + one].number if 2 * stream + one in self._last_frames else -1 for one in sides
        )

    def _runs(self, frames: Frames, numbers: Longs) -> Iterator[dict[str, Any]]:
        """Yield marks for the ends of runs within the split, and for the start of runs found by resynchronization.

        A run starts after a gap or after a run of a different kind; its first PROOF_FRAMES frames are marked. The first
        frame of a direction in the split is marked MAY_BEGIN, because the run may have started in an earlier split.
        """
        order = order_of(_direction_keys(frames))
        sides, offset = _direction_keys(frames)[order], frames.places.offset[order]
        searched, first = frames.places.sync[order] == RESYNC, group_starts(sides)
        at = np.flatnonzero(first)
        names = sides[at].tolist()
        tails = [self._last_frames.get(side) for side in names]
        before, was = _previous(offset + frames.size[order]), _previous(searched)
        before[at] = [-1 if tail is None else tail.offset + tail.length for tail in tails]
        was[at] = [tail is not None and tail.searched for tail in tails]
        follows = before == offset
        for side, tail, goes_on in zip(names, tails, follows[at].tolist(), strict=True):
            if tail is not None and not goes_on:
                yield _mark(side, tail, "last")
        places = np.flatnonzero(~follows & ~first)
        for place, tail in zip(places.tolist(), _last_frames(frames, numbers, order[places - 1]), strict=True):
            yield _mark(int(sides[place]), tail, "last")
        begins = searched & ~(follows & was)
        # For each frame, the number of earlier frames in its run. The number includes frames that were marked in
        # earlier windows.
        count = np.cumsum(searched) - searched
        base = count.copy()
        base[at] -= [
            0 if begin else self._run_lengths.get(side, PROOF_FRAMES) for side, begin in zip(names, begins[at].tolist())
        ]
        marks = first | begins
        run_length = count - base[marks][np.cumsum(marks) - 1]
        places = np.flatnonzero(searched & (run_length < PROOF_FRAMES))
        for place, tail in zip(places.tolist(), _last_frames(frames, numbers, order[places]), strict=True):
            side = int(sides[place])
            begin = MAY_BEGIN if first[place] and side not in self._last_frames else BEGINS
            yield _mark(side, tail, "weak") | {"flags": begin if begins[place] else 0}
        last_rows = np.append(at[1:], len(order)) - 1
        self._run_lengths |= dict(
            zip(names, np.minimum(run_length[last_rows] + searched[last_rows], PROOF_FRAMES).tolist(), strict=True)
        )
        self._last_frames |= dict(zip(names, _last_frames(frames, numbers, order[last_rows]), strict=True))

    def finish(self) -> Partials:
        """Return the partial tables of the split."""
        published, halves, sessions, unpaired, written = self._sends.finish()
        consumed, cumulative, labels, read = self._deliveries_of_split.finish()
        forwarded, answered, ack_halves = self._forwarded_frames.finish()
        last_rows = [_mark(side, tail, "last") for side, tail in self._last_frames.items()]
        events = pa.concat_tables([EVENTS.empty_table(), *self._events, pa.Table.from_pylist(last_rows, EVENTS)])
        ledgers = pa.concat_tables([written, read])
        unpaired = pa.concat_tables([unpaired, unpaired_acks(ack_halves)])
        return Partials(
            published=published, halves=halves, consumed=consumed, cumulative=cumulative, forwarded=forwarded,
            answered=answered, ack_halves=ack_halves, sessions=sessions, unpaired=unpaired, ledgers=ledgers,
            events=events, labels=labels,
        )  # fmt: skip


def _direction_keys(frames: Frames) -> Longs:
    """Return connection and direction as one number."""
    return frames.places.stream * 2 + frames.places.from_client


def _previous(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values shifted by one; the first value is a placeholder."""
    return np.concatenate((values[:1], values[:-1]))


class _LastFrame(NamedTuple):
    """The last frame of a run."""

    number: int
    packet: int
    time_ns: int
    offset: int
    length: int
    searched: bool


def _last_frames(frames: Frames, numbers: Longs, rows: Longs) -> list[_LastFrame]:
    places = frames.places
    columns = (numbers, places.packet, places.time_ns, places.offset, frames.size, places.sync == RESYNC)
    return [_LastFrame(*values) for values in zip(*(column[rows].tolist() for column in columns), strict=True)]


PROOF_FRAMES: Final = 16
"""Number of consecutive complete frames that prove a resynchronization to be correct."""

BEGINS: Final = 1
MAY_BEGIN: Final = 2
"""Flags of a "weak" mark. BEGINS: a run starts at the frame. MAY_BEGIN: a run starts at the frame unless the last frame
of the previous split belongs to the same run."""

SEARCHED: Final = 4
"""Flag of a "last" mark: the frame was found by resynchronization."""

_GAPS: Final = ("frame:gap", "frame:overlap")


def _row(number: int, time_ns: int, item: Note | StreamEnd) -> dict[str, Any]:
    row: dict[str, Any] = {
        "number": number, "packet": item.packet,
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


def _mark(side: int, frame: _LastFrame, kind: str) -> dict[str, Any]:
    return {
        "stream": side >> 1, "from_client": side & 1, "kind": kind, "since": -1, "text": "",
        "number": frame.number, "packet": frame.packet, "time_ns": frame.time_ns, "offset": frame.offset,
        "length": frame.length, "flags": SEARCHED * frame.searched,
    }  # fmt: skip
