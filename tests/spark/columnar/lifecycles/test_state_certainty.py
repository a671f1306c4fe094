"""What a row's state is worth, when the capture lacks some of it."""

from __future__ import annotations

import numpy as np
import pytest

from pcli.spark.columnar.lifecycles.entry_history import Handed, Sub
from pcli.spark.columnar.lifecycles.interval_join import Intervals
from pcli.spark.columnar.lifecycles.recording_facts import Doubt, Known, Reader, Witness
from pcli.spark.columnar.lifecycles.state_certainty import Story, weigh

NONE = np.zeros(0, np.int64)
STREAM = 3


def known(*, holes=(), of_producers=(), weak=(), lasts=False, since=1):
    nobody = Intervals(NONE, NONE, NONE)
    one = Known(nobody, [], NONE, nobody, [], NONE, NONE > 0, NONE)
    one.witnesses = {"t": Witness([Reader(0, since, lasts, list(holes))], list(of_producers))}
    one.doubts = {STREAM: Doubt(holes=list(holes), weak=list(weak))}
    return one


def sub(delivered=20, acked=30):
    """One delivery; ``acked`` 0: never."""
    found = Sub(1, individual=True, left=not acked, closed=acked or -1)
    found.handed.append(Handed(STREAM, 1, 0, delivered, 0, 0, 1))
    return found


def evidence(known, subs, *, sent=10, state="acked"):
    row = {"topic": "t", "state": state, "producer": {"connection": STREAM if sent >= 0 else None}}
    return weigh([Story(row, subs, sent)], known)[0]["evidence"]


def test_what_was_seen_from_end_to_end():
    assert evidence(known(), {0: sub()}) == "complete"
    assert evidence(known(), {0: sub(acked=0)}, state="unacked") == "complete"  # its consumer has left


@pytest.mark.parametrize(
    ("hole", "word"),
    [((1, 5), "complete"), ((5, 12), "gap_affected"), ((25, 28), "gap_affected"), ((31, 40), "complete")],
)
def test_a_hole_counts_between_sending_and_ack(hole, word):
    assert evidence(known(holes=[hole]), {0: sub()}) == word


def test_unacked_is_never_said_over_a_hole_or_the_end():
    assert evidence(known(holes=[(40, 50)]), {0: sub(acked=0)}, state="unacked") == "gap_affected"
    assert evidence(known(lasts=True), {0: sub(acked=0)}, state="unacked") == "capture_end"


def test_what_nobody_was_given():
    assert evidence(known(), {}, state="never_delivered") == "capture_end"
    assert evidence(known(holes=[(11, 12)]), {}, state="never_delivered") == "gap_affected"


def test_a_subscription_that_was_there_and_still_waits():
    assert evidence(known(lasts=True), {1: sub()}) == "capture_end"
    assert evidence(known(lasts=True, since=11), {1: sub()}) == "complete"


def test_a_message_whose_sending_was_not_seen():
    assert evidence(known(), {0: sub()}, sent=-1) == "capture_start"
    assert evidence(known(of_producers=[(5, 8)]), {0: sub()}, sent=-1) == "gap_affected"
    assert evidence(known(of_producers=[(25, 28)]), {0: sub()}, sent=-1) == "capture_start"


def test_frames_found_by_search():
    assert evidence(known(weak=[(18, 22)]), {0: sub()}) == "weak_sync"
    assert evidence(known(weak=[(31, 50)]), {0: sub()}) == "complete"


@pytest.mark.parametrize(
    ("state", "holes", "word"),
    [("in_flight", (), "capture_end"), ("lost", (), "complete"), ("lost", [(11, 12)], "gap_affected"),
     ("lost", [(1, 5)], "complete"), ("refused", [(11, 12)], "complete")],
)  # fmt: skip
def test_messages_without_an_id(state, holes, word):
    assert evidence(known(holes=holes), {}, state=state) == word
