"""One answer for several."""

from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.wait_for_all import collect, gather


def test_nothing_is_done_at_once():
    got = []
    gather([], lambda item, done: None, got.append)
    assert got == [None]


def test_the_last_answer_counts_and_the_first_refusal():
    waiting, got = [], []
    gather("abc", lambda item, done: waiting.append(done), got.append)
    waiting[2](ClientFailure("TimeOut", "c"))
    waiting[0](None)
    assert got == []
    waiting[1](ClientFailure("TimeOut", "b"))
    assert got == [ClientFailure("TimeOut", "c")]


def test_answers_are_made_one_whole_or_the_first_refusal():
    waiting, got = [], []
    for _ in range(2):
        collect("ab", lambda item, done: waiting.append(done), sum, got.append)
    waiting[1](20)
    waiting[0](1)
    waiting[2](1)
    waiting[3](ClientFailure("TimeOut", "b"))
    assert got == [21, ClientFailure("TimeOut", "b")]
