"""The search for the next frame, on bytes."""

from __future__ import annotations

import pytest

from pcli.codec.capture.resync import Budget, Search, check_frame, follows

LIMIT = 1 << 22


def look(run, *, side=None, final=False, due=False):
    search = Search(0, 0, 0, 64, Budget(), side=side)
    found = search.advance(bytearray(run), LIMIT, final=final, due=due)
    return search.candidate if found else None


def test_frames_that_fill_all_bytes_are_accepted_at_once(w):
    assert look(w.send(1)) == 0
    assert look(w.send(1) + w.ack(2)) == 0


def test_a_frame_after_other_bytes_waits_for_a_decision(w):
    run = b"the rest of a payload" + w.send(1)
    assert look(run) is None
    assert look(run, due=True) == 21
    assert look(run, final=True) == 21


def test_many_frames_are_accepted(w):
    run = b"rest" + b"".join(w.send(number) for number in range(20)) + w.send(99)[:20]
    assert look(run) == 4


def test_a_broken_chain_is_rejected(w):
    run = w.ack(1) + w.ack(2) + b"broken" * 4 + w.send(3) + w.send(4)
    assert look(run, final=True) == run.index(w.send(3))


@pytest.mark.parametrize(
    "change",
    [
        (slice(0, 4), b"\x00\x50\x00\x01"),  # a size above the limit
        (slice(4, 8), b"\x00\x00\x00\x01"),  # the command ends before its body
        (slice(9, 10), b"\x2d"),  # an unknown type
        (slice(10, 11), b"\x3a"),  # the body of another command
        (slice(12, 13), b"\x48"),  # a missing required field
        (slice(24, 25), b"\xff"),  # a wrong checksum
    ],
)
def test_invalid_candidates_are_rejected(w, change):
    frame = bytearray(w.send(1))
    frame[change[0]] = change[1]
    assert look(bytes(frame), final=True, side=True) is None


def test_only_commands_of_the_side_are_candidates(w):
    assert look(w.send(1), side=True) == 0
    assert look(w.send(1), side=False, final=True) is None
    assert look(w.receipt(1), side=False) == 0
    assert look(w.receipt(1), side=True, final=True) is None
    assert look(w.ping, side=True) == look(w.ping, side=False) == 0


def test_an_incomplete_frame_is_accepted_only_at_the_end(w):
    head = w.send(1, bytes(1000))[:40]
    assert look(head) is None
    assert look(head, final=True) == 0
    assert look(b"some" + head, final=True) is None


def test_bytes_before_candidates_are_dropped(w):
    search = Search(500, 0, 0, 64, Budget(), side=None)
    run = bytearray(b"no frames here " * 100)
    assert not search.advance(run, LIMIT, final=False, due=False)
    assert search.drop() > len(run) - 12
    assert search.base > 500


def test_check_frame(w):
    assert check_frame(w.send(1))
    assert not check_frame(w.send(1)[:-1] + b"?")
    assert not check_frame(b"\x00\x00\x00\x06\x00\x00\x00\x02\x08\x06")


def test_follows(w):
    run = bytearray(w.send(1) + w.send(2))
    assert follows(run, len(w.send(1)), LIMIT)
    assert follows(run, len(run), LIMIT)
    assert not follows(run, 1, LIMIT)
    assert not follows(run, len(run) - 3, LIMIT)


def test_endless_candidates_cost_linear_time(w):
    """A sequence of frame headers without ends: each is examined once."""
    head = w.send(1, bytes(100_000))[:24]
    run = bytearray(head * 20_000)
    budget = Budget()
    search = Search(0, 0, 0, 64, budget, side=True)
    for end in range(24 * 1000, len(run) + 1, 24 * 1000):
        search.advance(run[:end], LIMIT, final=False, due=False)
    search.advance(run, LIMIT, final=True, due=True)
    assert budget.spent <= 33 * (len(run) + 1024)
