"""Values that tie connections, and values that do not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pcli.codec.capture import CapturedFrame, Stream
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.observation import connection_groups as groups_module
from pcli.spark.columnar.observation.connection_groups import groups_of
from pcli.spark.columnar.observation.connection_ties import TIES, merge_ties, ties_of


def stream(number, client="10.0.0.1", server="10.0.0.2", port=6650):
    return Stream(number, (client, 40_000 + number), (server, port), midstream=False)


def tie(place, stream, tie, owner=-1, ledger=-1, text=""):
    sides = {"PRODUCER": "producer", "CLOSE_PRODUCER": "producer", "sender": "producer"}
    side = sides.get(tie, "consumer" if owner >= 0 else "producer")
    told = {"place": place, "stream": stream, "tie": tie, "side": side}
    return {**told, "owner": owner, "ledger": ledger, "text": text}


def grouped(*ties, streams=None, frames=None):
    """Return the groups as sets of connections."""
    known = {one.number: one for one in streams or [stream(number) for number in range(4)]}
    batches = [pa.RecordBatch.from_pylist([one], TIES) for one in reversed(ties)]  # in any order
    found = groups_of(batches, known, frames)
    assert all(group == min(one for one in found if found[one] == group) for group in found.values())
    return sorted(sorted(one for one in found if found[one] == group) for group in set(found.values()))


def test_a_topic_ties_and_a_host_does_not():
    assert grouped() == [[0], [1], [2], [3]]
    assert grouped(tie(1, 0, "topic", text="a"), tie(2, 3, "topic", text="a")) == [[0, 3], [1], [2]]


def test_ties_lead_on():
    ties = (tie(1, 3, "topic", text="a"), tie(2, 2, "topic", text="a"), tie(3, 2, "transaction", text="1:2"))
    assert grouped(*ties, tie(4, 1, "transaction", text="1:2"), tie(5, 0, "transaction", text="a")) == [[0], [1, 2, 3]]


def test_reused_ports_tie_connections():
    again = Stream(1, ("10.0.0.1", 40_000), ("10.0.0.2", 6650), midstream=False)
    assert grouped(streams=[stream(0), again, stream(2)]) == [[0, 1], [2]]


def test_a_ledger_ties_a_consumer_that_did_not_subscribe():
    store = tie(5, 1, "ledger", ledger=9)
    assert grouped(store, tie(7, 0, "SUBSCRIBE", owner=3), tie(8, 0, "ledger", owner=3, ledger=9)) == [
        [0],
        [1],
        [2],
        [3],
    ]
    late = (tie(9, 0, "SUBSCRIBE", owner=3), tie(8, 0, "ledger", owner=3, ledger=9))
    assert grouped(store, *late) == [[0, 1], [2], [3]]
    other = (tie(7, 0, "SUBSCRIBE", owner=4), tie(8, 0, "ledger", owner=3, ledger=9))
    assert grouped(store, *other, tie(6, 2, "ledger", ledger=8)) == [[0, 1], [2], [3]]


@pytest.mark.parametrize(
    ("before", "tied"),
    [
        ([], True),
        ([tie(1, 0, "PRODUCER", owner=3)], False),
        ([tie(3, 0, "PRODUCER", owner=3)], True),
        ([tie(1, 0, "PRODUCER", owner=3), tie(1, 0, "CLOSE_PRODUCER", owner=3)], True),
    ],
)
def test_a_name_ties_a_producer_that_was_not_opened(before, tied):
    found = grouped(*before, tie(2, 0, "sender", owner=3, text="p"), tie(9, 1, "PRODUCER", owner=0, text="p"))
    assert found == ([[0, 1], [2], [3]] if tied else [[0], [1], [2], [3]])


@pytest.mark.parametrize(
    ("connected", "url", "back", "tied"),
    [
        (5, "", ("10.0.0.2", "10.0.0.3"), True),  # from the host of the proxy
        (2, "", ("10.0.0.2", "10.0.0.3"), False),  # the first connection already had its response
        (5, "", ("10.0.0.9", "10.0.0.3"), True),  # from another address of the proxy
        (5, "", ("10.0.0.2", "10.0.0.2"), False),  # to the same server
        (None, "", ("10.0.0.2", "10.0.0.3"), True),
    ],
)
def test_legs_through_a_proxy(connected, url, back, tied):
    ties = [tie(1, 0, "CONNECT", text=url), tie(3, 1, "CONNECT")]
    if connected:
        ties.append(tie(connected, 0, "CONNECTED"))
    found = grouped(*ties, streams=[stream(0), stream(1, *back)])
    assert found == ([[0, 1]] if tied else [[0], [1]])


def test_small_groups_are_combined(monkeypatch):
    monkeypatch.setattr(groups_module, "PACKED_FRAMES", 100)
    assert grouped(frames={0: 50, 1: 500, 2: 50, 3: 1}) == [[0, 2], [1], [3]]
    assert grouped(frames={}) == [[0, 1, 2, 3]]


@pytest.mark.slow
def test_lookups_tie_nothing(recordings, rows_of_items):
    """A connection on which many topics are looked up is not tied to all of them."""
    looked = 0
    for _, items in recordings():
        groups = rows_of_items(items).groups()
        topics = {}
        for one in items:
            if isinstance(one, CapturedFrame) and one.type == 23:
                topics.setdefault(one.stream.number, set()).add(one.command.lookupTopic.topic)
        looked += sum(len(found) > 1 and list(groups.values()).count(groups[on]) == 1 for on, found in topics.items())
    assert looked > 5


@pytest.mark.slow
def test_ties_of_windows_are_those_of_the_whole(recordings, rows_of_items):
    """Each tie is kept once, for any windows."""
    fewer = 0
    for name, items in recordings():
        rows = rows_of_items(items)
        frames = [one for one in items if isinstance(one, CapturedFrame)]
        halves = [frames[: len(frames) // 2], frames[len(frames) // 2 :]]
        numbers = [np.array([one.number for one in half], np.int64) for half in halves]
        ties = [ties_of(read_fields(places_of(half)), number) for half, number in zip(halves, numbers)]
        merged = merge_ties(ties)
        assert groups_of([merged], rows.streams) == rows.groups(), name
        assert merge_ties([merged]).num_rows == merged.num_rows, name
        fewer += merged.num_rows < sum(one.num_rows for one in ties)
    assert fewer > 50
