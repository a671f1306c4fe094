"""Timers run in the order of their times, then of their creation. Cancelled ones do not run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.session.timers import Timers


def run(timers, now):
    times = []
    while (timer := timers.pop_due(now)) is not None:
        timer[1]()
        times.append(timer[0])
    return times


def test_in_order_of_time():
    timers, done = Timers(), []
    timers.call_at(30, lambda: done.append("late"))
    timers.call_at(10, lambda: done.append("early"))
    timers.call_at(10, lambda: done.append("early too"))
    assert timers.deadline == 10
    assert run(timers, 29) == [10, 10]
    assert done == ["early", "early too"]
    assert timers.deadline == 30


def test_a_cancelled_timer_does_not_run():
    timers, done = Timers(), []
    timer = timers.call_at(10, lambda: done.append(1))
    timer.cancel()
    timer.cancel()
    assert (timers.deadline, len(timers), run(timers, 99), done) == (None, 0, [], [])


def test_cancelling_after_it_ran_is_harmless():
    timers = Timers()
    timer = timers.call_at(10, lambda: None)
    run(timers, 10)
    timer.cancel()
    timers.call_at(20, lambda: None)
    assert (len(timers), timer.active, timers.deadline) == (1, False, 20)


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=400))
def test_any_mixture(rows):
    """Hundreds of timers, many of them cancelled, so that the heap is rebuilt in between."""
    timers, done = Timers(), []
    set_ = [(timers.call_at(due, lambda index=index: done.append(index)), cut) for index, (due, cut) in enumerate(rows)]
    for timer, cut in set_:
        if cut:
            timer.cancel()
    kept = [index for index, (_, cut) in enumerate(rows) if not cut]
    assert len(timers) == len(kept)
    run(timers, 100)
    assert done == sorted(kept, key=lambda index: (rows[index][0], index))
