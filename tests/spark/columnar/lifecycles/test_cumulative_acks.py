"""Cumulative ACKs: the earliest one that covers a position, compared with brute force."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pcli.spark.columnar.lifecycles import row_operations
from pcli.spark.columnar.lifecycles.cumulative_acks import (
    acks_of_bucket,
    effective_acks,
    first_acks_after,
    first_reaching,
    later_acks_of,
    subscriptions_of,
    summarize_acks,
)
from pcli.spark.columnar.lifecycles.entry_history import cumulative_ack_events
from pcli.spark.columnar.lifecycles.partial_tables import CUMULATIVE
from pcli.spark.columnar.lifecycles.recording_facts import RecordingFacts, Session
from pcli.spark.columnar.lifecycles.row_operations import Intervals, blocks_of

LONGEST = (1 << 63) - 1
FAR = st.sampled_from([1 << 40, (1 << 40) + 1, 1 << 62, LONGEST - 1, LONGEST])
PLACES = st.tuples(st.integers(0, 3) | FAR, st.integers(-1, 6) | FAR)
"""Peers may send any ids."""


def facts(kind="Exclusive"):
    one = np.array([1], np.int64)
    session = Session(1, 1, "t", "s", "c", kind, persistent=True, sub=0, system=False)
    none = Intervals(*[one[:0]] * 3)
    return RecordingFacts(none, [], one[:0], Intervals(one, one, one), [session], one * 0, one > 0, one << 40)


def facts_without_consumers():
    none = np.zeros(0, np.int64)
    nobody = Intervals(none, none, none)
    return RecordingFacts(nobody, [], none, nobody, [], none, none > 0, none)


def cumulative(places):
    rows = [
        {"stream": 1, "consumer_id": 1, "ledger": ledger, "entry": entry, "number": 10 + at,
         "time_ns": 100 + at, "ack": None}
        for at, (ledger, entry) in enumerate(places)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, CUMULATIVE)


def of_bucket(acks, known, places):
    """The ACKs of a bucket with these positions of subscription 0, which contains only the ACKs of their blocks."""
    every = effective_acks(cumulative(acks), known)
    known.later_acks = later_acks_of(summarize_acks(every, known))
    ledger, entry = (np.array(column, np.int64) for column in zip(*places, strict=True))
    blocks = set(zip(ledger.tolist(), blocks_of(entry)[0].tolist(), strict=True))
    mine = [(one, at) for at, one in enumerate(acks) if (one[0], one[1] // row_operations.ENTRY_BLOCK) in blocks]
    rows = cumulative(acks).take(pa.array([at for _, at in mine], pa.int64()))
    return acks_of_bucket(rows, known, np.zeros(len(places), np.int64), ledger, entry)


@given(
    st.lists(PLACES, min_size=1, max_size=12),
    st.lists(PLACES, min_size=1, max_size=3),
    st.sampled_from([1, 3, 1 << 14]),
    st.integers(0, 25),
)
def test_the_first_that_reaches_a_position(acks, asked, size, since):
    usual, row_operations.ENTRY_BLOCK = row_operations.ENTRY_BLOCK, size
    try:
        acks_by_position = of_bucket(acks, facts(), asked)[0]
    finally:
        row_operations.ENTRY_BLOCK = usual
    rows = first_reaching(acks_by_position, *(np.array(column, np.int64) for column in zip(*asked, strict=True)))
    found = [int(acks_by_position.number[row]) if row >= 0 else -1 for row in rows]
    want = [min((10 + at for at, to in enumerate(acks) if to >= one), default=-1) for one in asked]
    assert found == want
    for place in asked:
        if not acks_by_position.unknown(*place, [since]):
            events = {one.number for one in cumulative_ack_events(acks_by_position, place, [since])}
            later = min((10 + at for at, to in enumerate(acks) if to >= place and 10 + at > since), default=None)
            assert events == ({later} if later is not None else set())


@given(st.lists(PLACES, min_size=1, max_size=12), PLACES, st.integers(0, 25))
def test_the_first_after_a_frame_that_reaches_a_position(acks, place, since):
    known = facts()
    asked = [np.array([one], np.int64) for one in (0, *place, since)]
    rows = first_acks_after(effective_acks(cumulative(acks), known), *asked)
    later = [10 + at for at, to in enumerate(acks) if to >= place and 10 + at > since]
    assert rows["number"].to_pylist() == later[:1]


def test_shared_subscriptions_have_none():
    assert effective_acks(cumulative([(1, 1)]), facts("Shared")).num_rows == 0


def test_an_ack_before_the_subscribe_has_another_owner():
    facts_later = facts()
    facts_later.consumers.number = np.array([11], np.int64)
    found = effective_acks(cumulative([(1, 1), (1, 2)]), facts_later)
    assert [one == 0 for one in found["sub"].to_pylist()] == [False, True]


def test_consumers_without_a_name_have_numbers_that_no_other_has():
    owners = [0, 1, 5, (1 << 24) + 1, 1 << 25, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, -(1 << 63), -16_777_219, -5, -2]
    pairs = [(stream, owner) for stream in (0, 1, 2, 3, (1 << 30) - 2) for owner in owners if (stream, owner) != (1, 1)]
    stream, owner = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    for one in (facts(), facts_without_consumers()):
        found, at = subscriptions_of(one, stream, owner, np.full(len(pairs), 20))
        assert (found < -1).all()
        assert (at == -1).all()
        assert len(set(found.tolist())) == len(pairs)


def test_large_ids_do_not_collide():
    """Connection, id and frame form one key: 64 bits are too few for an id of 38 bits and a frame of 26 bits."""
    columns = ((0, 0, 1), (0, 1 << 38, 0), (1, 5, 7))
    owners = Intervals(*(np.array(column, np.int64) for column in columns))
    for late in (100, (1 << 26) - 2, (1 << 40) - 2):
        assert owners.find(owners.stream, owners.id, np.full(3, late)).tolist() == [0, 1, 2], late
    assert owners.find(owners.stream, owners.id, owners.number - 1).tolist() == [-1, -1, -1]
