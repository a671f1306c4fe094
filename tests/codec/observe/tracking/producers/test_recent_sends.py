"""Recognition of entries that were sent before."""

from pcli.codec.observe.tracking.producers.recent_sends import RecentSends
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle


def life(sequence_id=1, publish_ms=50, size=5, messages=1):
    return Lifecycle(None, sequence_id=sequence_id, publish_ms=publish_ms, size=size, messages=messages)


def test_the_same_entry():
    sent, one = RecentSends(), life()
    sent.put(3, one)
    assert sent.find(3, 1, 50, 5, 1) is one


def test_different_entries():
    sent = RecentSends()
    sent.put(3, life())
    for other in ((4, 1, 50, 5, 1), (3, 2, 50, 5, 1), (3, 1, 51, 5, 1), (3, 1, 50, 6, 1), (3, 1, 50, 5, 2)):
        assert sent.find(*other) is None


def test_the_oldest_is_evicted():
    sent = RecentSends(limit=2)
    for sequence_id in (1, 2, 3):
        sent.put(0, life(sequence_id))
    assert sent.find(0, 1, 50, 5, 1) is None
    assert sent.find(0, 2, 50, 5, 1) is not None
