"""One result for several operations."""

from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.wait_for_all import collect, gather


def test_no_operations_complete_at_once():
    got = []
    gather([], lambda item, done: None, got.append)
    assert got == [None]


def test_done_is_called_after_the_last_result_with_the_first_failure():
    waiting, got = [], []
    gather("abc", lambda item, done: waiting.append(done), got.append)
    waiting[2](ClientFailure("TimeOut", "c"))
    waiting[0](None)
    assert got == []
    waiting[1](ClientFailure("TimeOut", "b"))
    assert got == [ClientFailure("TimeOut", "c")]


def test_results_are_combined_or_the_first_failure_is_passed():
    waiting, got = [], []
    for _ in range(2):
        collect("ab", lambda item, done: waiting.append(done), sum, got.append)
    waiting[1](20)
    waiting[0](1)
    waiting[2](1)
    waiting[3](ClientFailure("TimeOut", "b"))
    assert got == [21, ClientFailure("TimeOut", "b")]
