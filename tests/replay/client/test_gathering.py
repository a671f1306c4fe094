"""One answer for several."""

from pcli.replay.client.gathering import gather
from pcli.replay.client.refusal import Refusal


def test_nothing_is_done_at_once():
    got = []
    gather([], lambda item, done: None, got.append)
    assert got == [None]


def test_the_last_answer_counts_and_the_first_refusal():
    waiting, got = [], []
    gather("abc", lambda item, done: waiting.append(done), got.append)
    waiting[2](Refusal("TimeOut", "c"))
    waiting[0](None)
    assert got == []
    waiting[1](Refusal("TimeOut", "b"))
    assert got == [Refusal("TimeOut", "c")]
