"""What the capture lacks, from EVENTS: of each connection, and so of each topic.

Rules of this file
1. A hole lies between two frames: the last of its direction before it, and the last of all when it was told, which is
   later than it happened. What happened between the two may have been in it.
2. Who reads and writes a topic is told by names, and of those without by the ledgers that they read and write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pcli.spark.columnar.lifecycles.cumulative_acks import subscriptions_of
from pcli.spark.columnar.lifecycles.recording_facts import Doubt, Known, Reader, Witness
from pcli.spark.columnar.lifecycles.split_aggregation import BEGINS, CAUTIOUS, PROOF, SEARCHED

__all__ = ["doubts_of", "witnesses_of"]

_HOLES: Final = ("gap", "frame:gap", "frame:overlap")
_COLUMNS: Final = ("stream", "kind", "number", "since", "from_client", "flags", "offset", "length")

_Weak = tuple[int, int, int]
"""Number, flags and offset of a frame that was found by search."""

_End = tuple[int, bool, int]
"""Number of a frame, whether it was found by search, the offset behind it."""


def doubts_of(events: pa.Table) -> dict[int, Doubt]:
    """For each connection of which there is something to say."""
    kinds = events.column("kind")
    said = events.filter(pc.is_in(kinds, pa.array([*_HOLES, "end", "weak"])))
    mine = events.filter(pc.is_in(events.column("stream"), pc.unique(said.column("stream"))))
    rows = [row for row in zip(*(mine.column(name).to_pylist() for name in _COLUMNS), strict=True) if row[0] >= 0]
    found: dict[int, Doubt] = {stream: Doubt() for stream, *_ in rows}
    lasts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    weak: dict[tuple[int, int], list[_Weak]] = defaultdict(list)
    ends: dict[tuple[int, int], list[_End]] = defaultdict(list)
    for stream, kind, number, _, side, flags, offset, length in rows:
        if kind == "last":
            lasts[stream].append((number, side))
            ends[stream, side].append((number, bool(flags & SEARCHED), offset + length))
            found[stream].last_number = max(found[stream].last_number, number)
        elif kind == "weak":
            weak[stream, side].append((number, flags, offset))
        found[stream].ended |= kind == "end"
    for stream, kind, number, since, side, *_ in rows:
        if kind in _HOLES:
            begin = since if since >= 0 else _before(lasts[stream], number - kind.startswith("frame:"), side)
            found[stream].holes.append((begin, number))
    for (stream, side), runs in weak.items():
        found[stream].weak += _runs(sorted(runs), sorted(ends[stream, side]))
    return found


def _runs(frames: list[_Weak], ends: list[_End]) -> Iterator[tuple[int, int]]:
    """The first and the last doubtful frame of each run; ``ends`` are those of splits, and before holes."""
    begins = []
    for at, (number, flags, offset) in enumerate(frames):
        before = bisect_left(ends, (number,)) if flags & CAUTIOUS else 0
        _, searched, end = ends[before - 1] if before else (0, False, -1)
        if flags & BEGINS or (flags & CAUTIOUS and not (searched and end == offset)):
            begins.append(at)
    for at, following in zip(begins, [*begins[1:], len(frames)], strict=True):
        yield frames[at][0], frames[min(at + PROOF, following) - 1][0]


def _before(lasts: list[tuple[int, int]], number: int, side: int) -> int:
    """The last frame of a direction up to a number, as far as the ends of runs tell; 0: none."""
    return max((one for one, its in lasts if one <= number and side in (-1, its)), default=0)


def witnesses_of(ledgers: pa.Table, known: Known) -> dict[str, Witness]:
    """For each topic who reads it, and what holes their connections have."""
    found: dict[str, Witness] = {}
    readers: dict[tuple[str, int], Reader] = {}
    for topic, sub, stream, since, lasts in _reading(ledgers, known):
        reader = readers.get((topic, sub))
        if reader is None:
            reader = readers[topic, sub] = Reader(sub, since, lasts)
            found.setdefault(topic, Witness()).readers.append(reader)
        reader.since = min(reader.since, since)
        reader.lasts |= lasts
        reader.holes = sorted({*reader.holes, *_holes(known, stream)})
    for topic, stream in _writing(ledgers, known):
        one = found.setdefault(topic, Witness())
        one.holes = sorted({*one.holes, *_holes(known, stream)})
    return found


def _holes(known: Known, stream: int) -> list[tuple[int, int]]:
    doubt = known.doubts.get(stream)
    return [] if doubt is None else doubt.holes


def _reading(ledgers: pa.Table, known: Known) -> Iterator[tuple[str, int, int, int, bool]]:
    """Topic, subscription, connection, first frame, whether attached at the end."""
    until = np.iinfo(np.int64).max
    for row, index in enumerate(known.session.tolist()):
        session = known.sessions[index]
        doubt = known.doubts.get(session.stream)
        lasts = bool(known.ready[row]) and known.until[row] == until and not (doubt is not None and doubt.ended)
        if session.stream not in known.legs:
            yield session.topic, session.sub, session.stream, int(known.consumers.number[row]), lasts
    for topic, stream, owner, number in _nameless(ledgers, known, produces=0):
        sub, _ = subscriptions_of(known, *(np.array([one]) for one in (stream, owner, number)))
        doubt = known.doubts.get(stream)
        yield topic, int(sub[0]), stream, 0, not (doubt is not None and doubt.ended)


def _writing(ledgers: pa.Table, known: Known) -> Iterator[tuple[str, int]]:
    for row, index in enumerate(known.publisher.tolist()):
        topic = known.publishers[index].topic
        if topic:
            yield topic, int(known.producers.stream[row])
    for topic, stream, _, _ in _nameless(ledgers, known, produces=1):
        yield topic, stream


def _nameless(ledgers: pa.Table, known: Known, *, produces: int) -> Iterator[tuple[str, int, int, int]]:
    """Topic, connection, id and frame of producers or consumers whose opening is not in the capture."""
    names = ("stream", "owner_id", "number", "ledger")
    mine = ledgers.filter(pa.array(ledgers.column("produces").to_numpy() == produces))
    stream, owner, number, ledger = (mine.column(name).to_numpy() for name in names)
    at = (known.producers if produces else known.consumers).find(stream, owner, number)
    for row in range(len(mine)):
        named = at[row] >= 0 and (not produces or known.publishers[known.publisher[at[row]]].topic)
        if not named:
            yield known.ledgers.get(int(ledger[row]), ""), int(stream[row]), int(owner[row]), int(number[row])
