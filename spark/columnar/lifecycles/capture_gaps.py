"""Gaps in the capture, computed from EVENTS, by connection and by topic.

Rules of this file
1. A gap is between two frames: the last frame of its direction before the gap, and the last frame of any connection
   before the gap was reported. The gap is reported later than it occurs. Any event between these two frames may be
   missing.
2. The readers and writers of a topic are found by the name of the topic. If the name is unknown, they are found by the
   ledgers that they read and write.
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
from pcli.spark.columnar.lifecycles.recording_facts import (
    ConnectionGaps,
    RecordingFacts,
    SubscriptionEvidence,
    TopicEvidence,
)
from pcli.spark.columnar.lifecycles.split_aggregation import BEGINS, MAY_BEGIN, PROOF_FRAMES, SEARCHED

_GAPS: Final = ("gap", "frame:gap", "frame:overlap")
_COLUMNS: Final = ("stream", "kind", "number", "since", "from_client", "flags", "offset", "length")

_Weak = tuple[int, int, int]
"""Number, flags and offset of a frame that was found by resynchronization."""

_End = tuple[int, bool, int]
"""Number of a frame, whether it was found by resynchronization, and the offset after it."""


def connection_gaps_of(events: pa.Table) -> dict[int, ConnectionGaps]:
    """Return the gaps in each connection that has gaps, an end or resynchronized frames."""
    kinds = events.column("kind")
    requests = events.filter(pc.is_in(kinds, pa.array([*_GAPS, "end", "weak"])))
    mine = events.filter(pc.is_in(events.column("stream"), pc.unique(requests.column("stream"))))
    rows = [row for row in zip(*(mine.column(name).to_pylist() for name in _COLUMNS), strict=True) if row[0] >= 0]
    found: dict[int, ConnectionGaps] = {stream: ConnectionGaps() for stream, *_ in rows}
    last_frames: dict[int, list[tuple[int, int]]] = defaultdict(list)
    weak: dict[tuple[int, int], list[_Weak]] = defaultdict(list)
    ends: dict[tuple[int, int], list[_End]] = defaultdict(list)
    for stream, kind, number, _, side, flags, offset, length in rows:
        if kind == "last":
            last_frames[stream].append((number, side))
            ends[stream, side].append((number, bool(flags & SEARCHED), offset + length))
            found[stream].last_number = max(found[stream].last_number, number)
        elif kind == "weak":
            weak[stream, side].append((number, flags, offset))
        found[stream].ended |= kind == "end"
    for stream, kind, number, since, side, *_ in rows:
        if kind in _GAPS:
            begin = since if since >= 0 else _before(last_frames[stream], number - kind.startswith("frame:"), side)
            found[stream].gaps.append((begin, number))
    for (stream, side), runs in weak.items():
        found[stream].weak += _runs(sorted(runs), sorted(ends[stream, side]))
    return found


def _runs(frames: list[_Weak], ends: list[_End]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last uncertain frame of each run.

    ``ends`` contains the last frames before gaps and in splits.
    """
    begins = []
    for at, (number, flags, offset) in enumerate(frames):
        before = bisect_left(ends, (number,)) if flags & MAY_BEGIN else 0
        _, searched, end = ends[before - 1] if before else (0, False, -1)
        if flags & BEGINS or (flags & MAY_BEGIN and not (searched and end == offset)):
            begins.append(at)
    for at, following in zip(begins, [*begins[1:], len(frames)], strict=True):
        yield frames[at][0], frames[min(at + PROOF_FRAMES, following) - 1][0]


def _before(ends: list[tuple[int, int]], number: int, side: int) -> int:
    """Return the last end of a run in a direction, up to a frame number; 0 if there is none."""
    return max((one for one, its in ends if one <= number and side in (-1, its)), default=0)


def topic_evidence_of(ledgers: pa.Table, facts: RecordingFacts) -> dict[str, TopicEvidence]:
    """Return, for each topic, its subscriptions and the gaps in the connections of its consumers and producers."""
    found: dict[str, TopicEvidence] = {}
    subscriptions: dict[tuple[str, int], SubscriptionEvidence] = {}
    for topic, sub, stream, since, attached_at_end in _reading(ledgers, facts):
        reader = subscriptions.get((topic, sub))
        if reader is None:
            reader = subscriptions[topic, sub] = SubscriptionEvidence(sub, since, attached_at_end)
            found.setdefault(topic, TopicEvidence()).subscriptions.append(reader)
        reader.since = min(reader.since, since)
        reader.attached_at_end |= attached_at_end
        reader.gaps = sorted({*reader.gaps, *_gaps(facts, stream)})
    for topic, stream in _writing(ledgers, facts):
        one = found.setdefault(topic, TopicEvidence())
        one.gaps = sorted({*one.gaps, *_gaps(facts, stream)})
    return found


def _gaps(facts: RecordingFacts, stream: int) -> list[tuple[int, int]]:
    gaps_of_connection = facts.connection_gaps.get(stream)
    return [] if gaps_of_connection is None else gaps_of_connection.gaps


def _reading(ledgers: pa.Table, facts: RecordingFacts) -> Iterator[tuple[str, int, int, int, bool]]:
    """Yield topic, subscription, connection, first frame, and whether the consumer is attached at the end."""
    until = np.iinfo(np.int64).max
    for row, index in enumerate(facts.session.tolist()):
        session = facts.sessions[index]
        gaps_of_connection = facts.connection_gaps.get(session.stream)
        attached_at_end = (
            bool(facts.ready[row])
            and facts.until[row] == until
            and not (gaps_of_connection is not None and gaps_of_connection.ended)
        )
        if session.stream not in facts.duplicate_connections:
            yield session.topic, session.sub, session.stream, int(facts.consumers.number[row]), attached_at_end
    for topic, stream, owner, number in _nameless(ledgers, facts, produces=0):
        sub, _ = subscriptions_of(facts, *(np.array([one]) for one in (stream, owner, number)))
        gaps_of_connection = facts.connection_gaps.get(stream)
        yield topic, int(sub[0]), stream, 0, not (gaps_of_connection is not None and gaps_of_connection.ended)


def _writing(ledgers: pa.Table, facts: RecordingFacts) -> Iterator[tuple[str, int]]:
    for row, index in enumerate(facts.publisher.tolist()):
        topic = facts.publishers[index].topic
        if topic:
            yield topic, int(facts.producers.stream[row])
    for topic, stream, _, _ in _nameless(ledgers, facts, produces=1):
        yield topic, stream


def _nameless(ledgers: pa.Table, facts: RecordingFacts, *, produces: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield topic, connection, id and frame of producers or consumers whose PRODUCER or SUBSCRIBE was not captured."""
    names = ("stream", "owner_id", "number", "ledger")
    mine = ledgers.filter(pa.array(ledgers.column("produces").to_numpy() == produces))
    stream, owner, number, ledger = (mine.column(name).to_numpy() for name in names)
    at = (facts.producers if produces else facts.consumers).find(stream, owner, number)
    for row in range(len(mine)):
        named = at[row] >= 0 and (not produces or facts.publishers[facts.publisher[at[row]]].topic)
        if not named:
            yield facts.ledger_topics.get(int(ledger[row]), ""), int(stream[row]), int(owner[row]), int(number[row])
