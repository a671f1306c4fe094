"""Whether facts that closed messages depend on have changed since the last run.

A message is closed if each subscription of its topic has acknowledged it (closed_messages.py). Its row depends only on
facts about frames up to its last frame, except for the gaps of subscriptions that appeared later.

Rules of this file
1. `settled_facts` contains the facts about frames up to a number. If two runs have the same settled facts up to the
   last frame of the first run, the rows that the first run closed are valid in the second run.
2. Cumulative ACKs, ledgers, and ranges of resends are not included. They follow from the included facts and from frames
   that do not change.
3. A gap in the connection of a subscription concerns all messages that the subscription has not acknowledged, also
   messages that were closed before it existed (`has_later_gaps`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts
from pcli.spark.columnar.lifecycles.row_operations import Intervals


def settled_facts(facts: RecordingFacts, streams: Iterable[Stream], frames: int, connections: int) -> str:
    """Return a digest of the facts about the first ``frames`` frames and ``connections`` connections."""
    known = [(one.number, one.client, one.server) for one in streams if one.number < connections]
    values = (
        sorted(known),
        _owners(facts.producers, facts.publishers, facts.publisher.tolist(), frames),
        _owners(facts.consumers, facts.sessions, list(zip(facts.session.tolist(), facts.ready.tolist())), frames),
        sorted(one for one in facts.duplicate_connections if one < connections),
        sorted(one for one in facts.system if one < connections),
        sorted(one for one in facts.failed_acks if one <= frames),
        sorted((sub, one) for sub, some in facts.cursor_resets.items() for one in some if one <= frames),
        sorted(_weak_frames(facts, frames)),
        sorted(_topics(facts, frames)),
    )
    return hashlib.sha256(repr(values).encode()).hexdigest()


def _owners(intervals: Intervals, owners: Sequence[Any], values: Sequence[Any], frames: int) -> list[tuple[Any, ...]]:
    """Return the owners of ids up to a frame. ``values`` contains an index into ``owners``, or it and a flag."""
    rows = zip(intervals.stream.tolist(), intervals.id.tolist(), intervals.number.tolist(), values)
    found = []
    for stream, id_, number, value in rows:
        if number <= frames:
            index, ready = value if isinstance(value, tuple) else (value, True)
            found.append((stream, id_, number, astuple(owners[index]), ready))
    return sorted(found)


def _weak_frames(facts: RecordingFacts, frames: int) -> Iterable[tuple[int, int, int]]:
    for stream, one in facts.connection_gaps.items():
        yield from ((stream, since, min(until, frames)) for since, until in one.weak if since <= frames)


def _topics(facts: RecordingFacts, frames: int) -> Iterable[tuple[Any, ...]]:
    for topic, evidence in facts.topic_evidence.items():
        gaps = tuple(since for since, _ in evidence.gaps if since <= frames)
        if gaps:
            yield topic, -1, 0, tuple((since, 0) for since in gaps)
        for one in evidence.subscriptions:
            if one.since <= frames:
                own = tuple((since, min(number, frames)) for since, number in one.gaps if since <= frames)
                yield topic, one.sub, one.since, own


def subscriptions_by_topic(facts: RecordingFacts) -> dict[str, frozenset[int]]:
    """Return the numbers of the subscriptions of each topic."""
    return {
        topic: frozenset(one.sub for one in evidence.subscriptions) for topic, evidence in facts.topic_evidence.items()
    }


def has_later_gaps(facts: RecordingFacts, closed_at: Mapping[str, frozenset[int]]) -> bool:
    """Return whether a subscription that appeared after messages of its topic were closed has gaps.

    ``closed_at`` contains the subscriptions of each topic when its first message was closed.
    """
    return any(
        one.gaps and one.sub not in subs
        for topic, subs in closed_at.items()
        if topic in facts.topic_evidence
        for one in facts.topic_evidence[topic].subscriptions
    )
