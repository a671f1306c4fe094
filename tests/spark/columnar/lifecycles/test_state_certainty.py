"""The evidence of a row if the capture is incomplete."""

from __future__ import annotations

import numpy as np
import pytest

from pcli.spark.columnar.lifecycles.entry_history import Delivery, EntryAtSubscription
from pcli.spark.columnar.lifecycles.recording_facts import (
    ConnectionGaps,
    RecordingFacts,
    SubscriptionEvidence,
    TopicEvidence,
)
from pcli.spark.columnar.lifecycles.row_operations import Intervals
from pcli.spark.columnar.lifecycles.state_certainty import MessageHistory, add_evidence

NONE = np.zeros(0, np.int64)
STREAM = 3


def facts(*, gaps=(), of_producers=(), weak=(), attached_at_end=False, since=1):
    nobody = Intervals(NONE, NONE, NONE)
    one = RecordingFacts(nobody, [], NONE, nobody, [], NONE, NONE > 0, NONE)
    one.topic_evidence = {
        "t": TopicEvidence([SubscriptionEvidence(0, since, attached_at_end, list(gaps))], list(of_producers))
    }
    one.connection_gaps = {STREAM: ConnectionGaps(gaps=list(gaps), weak=list(weak))}
    return one


def sub(delivered=20, acked=30):
    """One delivery; ``acked`` is 0 if it was never acknowledged."""
    found = EntryAtSubscription(1, individual=True, unacked=not acked, acked_number=acked or -1)
    found.deliveries.append(Delivery(STREAM, 1, 0, delivered, 0, 0, 1))
    return found


def evidence(facts, subs, *, sent=10, state="acked"):
    row = {"topic": "t", "state": state, "producer": {"connection": STREAM if sent >= 0 else None}}
    return add_evidence([MessageHistory(row, subs, sent)], facts)[0]["evidence"]


def test_a_completely_captured_message_is_complete():
    assert evidence(facts(), {0: sub()}) == "complete"
    assert evidence(facts(), {0: sub(acked=0)}, state="unacked") == "complete"  # its consumer has left


@pytest.mark.parametrize(
    ("gap", "word"),
    [((1, 5), "complete"), ((5, 12), "gap_affected"), ((25, 28), "gap_affected"), ((31, 40), "complete")],
)
def test_a_gap_counts_between_send_and_ack(gap, word):
    assert evidence(facts(gaps=[gap]), {0: sub()}) == word


def test_unacked_is_uncertain_with_a_gap_or_at_the_end():
    assert evidence(facts(gaps=[(40, 50)]), {0: sub(acked=0)}, state="unacked") == "gap_affected"
    assert evidence(facts(attached_at_end=True), {0: sub(acked=0)}, state="unacked") == "capture_end"


def test_a_message_without_a_delivery():
    assert evidence(facts(), {}, state="never_delivered") == "capture_end"
    assert evidence(facts(gaps=[(11, 12)]), {}, state="never_delivered") == "gap_affected"


def test_a_subscription_that_was_there_and_still_waits():
    assert evidence(facts(attached_at_end=True), {1: sub()}) == "capture_end"
    assert evidence(facts(attached_at_end=True, since=11), {1: sub()}) == "complete"


def test_a_message_whose_send_was_not_captured():
    assert evidence(facts(), {0: sub()}, sent=-1) == "capture_start"
    assert evidence(facts(of_producers=[(5, 8)]), {0: sub()}, sent=-1) == "gap_affected"
    assert evidence(facts(of_producers=[(25, 28)]), {0: sub()}, sent=-1) == "capture_start"


def test_frames_found_by_search():
    assert evidence(facts(weak=[(18, 22)]), {0: sub()}) == "weak_sync"
    assert evidence(facts(weak=[(31, 50)]), {0: sub()}) == "complete"


@pytest.mark.parametrize(
    ("state", "gaps", "word"),
    [("in_flight", (), "capture_end"), ("lost", (), "complete"), ("lost", [(11, 12)], "gap_affected"),
     ("lost", [(1, 5)], "complete"), ("refused", [(11, 12)], "complete")],
)  # fmt: skip
def test_messages_without_an_id(state, gaps, word):
    assert evidence(facts(gaps=gaps), {}, state=state) == word
