"""Periods of a state, read while the state changes."""

from pcli.codec.observe.history.period_reader import Period, PeriodReader
from pcli.codec.observe.tracking.records.counters import StateDuration


def test_each_ended_period_is_returned_once():
    reader, state = PeriodReader(), StateDuration()
    assert reader.ended(state, 1) is None
    state.begin(10, 2)
    assert reader.ended(state, 2) is None
    state.end(15, 3)
    assert reader.ended(state, 3) == Period(10, 2, 15, 3)
    assert reader.ended(state, 4) is None


def test_a_shorter_period_has_its_own_frames():
    reader, state = PeriodReader(), StateDuration()
    state.begin(10, 2)
    state.end(20, 3)
    reader.ended(state, 3)
    state.begin(30, 5)
    reader.ended(state, 5)
    state.end(31, 6)
    assert reader.ended(state, 6) == Period(30, 5, 31, 6)


def test_a_period_that_begins_and_ends_between_two_calls():
    reader, state = PeriodReader(), StateDuration()
    reader.ended(state, 1)
    state.begin(10, 2)
    state.end(20, 4)
    state.begin(25, 5)
    assert reader.ended(state, 5) == Period(10, 2, 20, 4)


def test_the_state_of_a_new_session_is_a_new_object():
    reader, state = PeriodReader(), StateDuration()
    state.begin(10, 2)
    state.end(20, 3)
    reader.ended(state, 3)
    later = StateDuration()
    later.begin(30, 7)
    later.end(32, 8)
    assert reader.ended(later, 8) == Period(30, 7, 32, 8)
