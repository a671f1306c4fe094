"""Rows of ``published`` that may belong to messages that were sent several times.

Rules of this file
1. A client resends a message later with the same producer name, sequence id and publish time. If the ranges of sequence
   id and publish time in a later session overlap the ranges of an earlier session with the same name, the rows in the
   overlap are candidates. Rows with the connection, producer_id and sequence id of an unusual frame are also
   candidates.
2. A producer without a topic (its PRODUCER was not captured) may belong to any topic that a producer of the same name
   uses.
3. Windows of a session with ascending sequence ids are one range, so the number of ranges depends on the number of
   sessions and not on the traffic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from pcli.codec.wire.frame import Frame
from pcli.codec.wire.message_id import signed
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.lifecycles.frame_replay import with_role
from pcli.spark.columnar.lifecycles.partial_tables import Partials
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts

Suspect = tuple[int, int, int, int, int, int]
"""Stream, producer_id, lowest and highest sequence id, lowest and highest publish_time."""

ANY_TIME: Final = (-(1 << 63), (1 << 63) - 1)

_Row = tuple[int, int, int, int, int, int, int]


def candidate_ranges(small: Partials, facts: RecordingFacts) -> list[Suspect]:
    """Return ranges of rows of ``published`` that may be resends or have been resent."""
    found = set(_unusual_ids(small.forwarded))
    by_name: dict[str, list[tuple[str, _Row]]] = defaultdict(list)
    owners = (small.sessions.column(name).to_numpy() for name in ("stream", "producer_id", "first_number"))
    for row, at in _ascending_runs(small.sessions, facts.producers.find(*owners)):
        one = facts.publishers[facts.publisher[at]] if at >= 0 else None
        by_name[one.name if one is not None and one.name else f"{row[1]}#{row[2]}"].append(
            (one.topic if one else "", row)
        )
    for rows in by_name.values():
        if len(rows) > 1:
            found.update(_overlaps(sorted(rows, key=lambda one: one[1][0])))
    return sorted(found)


def _ascending_runs(sessions: pa.Table, owner: Longs) -> Iterator[tuple[_Row, int]]:
    """Yield a row with its owner for each run of windows with ascending sequence ids of the same owner."""
    columns = [sessions.column(name).to_numpy() for name in _COLUMNS]
    order = np.lexsort((columns[0], owner, columns[2], columns[1]))
    first, stream, producer, least, most, since, until, at = (one[order] for one in (*columns, owner))
    begins = np.ones(len(order), np.bool_)
    same = (stream[1:] == stream[:-1]) & (producer[1:] == producer[:-1]) & (at[1:] == at[:-1])
    begins[1:] = ~same | (least[1:] <= most[:-1])
    starts = np.flatnonzero(begins)
    if len(starts):
        ends = np.append(starts[1:], len(order)) - 1
        times = np.minimum.reduceat(since, starts), np.maximum.reduceat(until, starts)
        runs = (first[starts], stream[starts], producer[starts], least[starts], most[ends], *times)
        yield from zip(zip(*(one.tolist() for one in runs), strict=True), at[starts].tolist(), strict=True)


_COLUMNS: Final = (
    "first_number",
    "stream",
    "producer_id",
    "least_sequence",
    "most_sequence",
    "least_publish_ms",
    "most_publish_ms",
)


def _overlaps(rows: list[tuple[str, _Row]]) -> Iterator[Suspect]:
    highest: dict[str, tuple[int, int]] = {}
    for place, (topic, later) in enumerate(rows):
        _, stream, owner, least, most, since, until = later
        before = [one for name, one in highest.items() if name == topic or not (name and topic)]
        if any(top >= least and last >= since for top, last in before):
            for other, earlier in rows[:place]:
                if (other == topic or not (other and topic)) and earlier[4] >= least and earlier[6] >= since:
                    low, high = max(least, earlier[3]), min(most, earlier[4])
                    times = max(since, earlier[5]), min(until, earlier[6])
                    if low <= high and times[0] <= times[1]:
                        yield (stream, owner, low, high, *times)
                        yield (earlier[1], earlier[2], low, high, *times)
        top, last = highest.get(topic, ANY_TIME[:1] * 2)
        highest[topic] = max(top, most), max(last, until)


def _unusual_ids(forwarded: pa.Table) -> Iterator[Suspect]:
    """Yield the sequence ids of unusual frames, each with its connection."""
    rows = with_role(forwarded, "unusual")
    for stream, data in zip(rows.column("stream").to_pylist(), rows.column("data").to_pylist(), strict=True):
        body = Frame.of(data).body
        sequence = signed(body.sequence_id)
        yield stream, body.producer_id, sequence, sequence, *ANY_TIME


def separate_candidates(published: pa.Table, facts: RecordingFacts) -> tuple[pa.Table, pa.Table]:
    """Return the rows that are not candidates, and the candidates, which `resolve_sends` must match.

    A SEND_ERROR may contain the highest sequence id of the SEND's batch. A receipt contains no publish_time, so it is a
    candidate if its sequence id is in the range.
    """
    if not facts.resend_candidates or not len(published):
        return published, published.slice(0, 0)
    names = ("stream", "producer_id", "sequence", "highest", "publish_ms", "sent_number")
    stream, owner, sequence, highest, publish, sent = (published.column(name).to_numpy() for name in names)
    back = np.zeros(len(published), np.bool_)
    # Most ranges are a single sequence id, which few rows have.
    single = {one[:3] for one in facts.resend_candidates if one[2] == one[3] and one[4:] == ANY_TIME}
    for ids in (sequence, highest) if single else ():
        rows = np.flatnonzero(np.isin(ids, [one[2] for one in single]))
        keys = zip(stream[rows].tolist(), owner[rows].tolist(), ids[rows].tolist(), strict=True)
        back[rows[np.array([one in single for one in keys], np.bool_)]] = True
    for one in facts.resend_candidates:
        if one[:3] not in single or one[4:] != ANY_TIME:
            rows = np.flatnonzero((sequence >= one[2]) & (sequence <= one[3]))
            inside = (stream[rows] == one[0]) & (owner[rows] == one[1])
            inside &= (publish[rows] >= one[4]) & (publish[rows] <= one[5]) | (sent[rows] < 0)
            back[rows[inside]] = True
    return published.filter(pa.array(~back)), published.filter(pa.array(back))
