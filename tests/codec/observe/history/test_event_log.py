"""The selection of the most important events."""

import pytest

from pcli.codec.observe.history.event_log import MOST_KEPT, Bursts, Event, EventLog, PrefixedLog

SECOND = 1_000_000_000


def moment(kind, second, text="", **more):
    return Event(kind, second * SECOND, second, text or f"{kind} at {second}.", **more)


def period(kind, second, lasted):
    return Event(kind, second * SECOND, second, f"{lasted} s.", (second + lasted) * SECOND, 0, lasted * SECOND)


def texts(log, most):
    return [event.text for event in log.selected(most, 0)]


@pytest.fixture
def log():
    return EventLog()


def test_events_are_in_chronological_order(log):
    for second, kind in ((3, "closed"), (1, "opened"), (2, "blocked")):
        log.add(moment(kind, second))
    assert texts(log, 10) == ["opened at 1.", "blocked at 2.", "closed at 3."]


def test_the_most_important_kinds_are_shown(log):
    for second, kind in enumerate(("opened", "first message", "blocked", "idle", "closed")):
        log.add(moment(kind, second))
    assert texts(log, 3) == ["opened at 0.", "blocked at 2.", "closed at 4."]


def test_each_kind_has_an_event_before_any_has_two(log):
    for second in range(5):
        log.add(moment("lost", second))
    log.add(moment("opened", 9))
    assert texts(log, 3) == ["lost at 0.", "lost at 1. (3 more like this, the last at 4.000 s.)", "opened at 9."]


def test_the_longest_periods_are_shown(log):
    for second, lasted in ((1, 2), (10, 7), (20, 3)):
        log.add(period("no permits", second, lasted))
    assert texts(log, 1) == ["7 s. (2 more like this, 12.0 s in total.)"]


def test_events_of_different_varieties_are_not_similar(log):
    log.add(moment("redelivery", 1, variety="nack", size=9))
    log.add(moment("redelivery", 2, variety="nack", size=8))
    log.add(moment("redelivery", 3, variety="reset", size=1))
    assert texts(log, 2) == ["redelivery at 1. (1 more like this, the last at 2.000 s.)", "redelivery at 3."]


def test_few_events_of_a_kind_are_kept_but_all_are_counted(log):
    for second in range(1_000):
        log.add(moment("lost", second))
    shown = texts(log, 1_000)
    assert len(shown) == MOST_KEPT
    assert shown[-1] == "lost at 9. (990 more like this, the last at 999.000 s.)"


def test_a_group_contains_selected_events_of_its_members(log):
    member = PrefixedLog(log, "Consumer c: ", frozenset(("blocked",)))
    member.add(moment("blocked", 1, "Blocked."))
    member.add(moment("idle", 2))
    assert texts(log, 10) == ["Consumer c: blocked."]


def test_messages_in_close_succession_are_one_event(log):
    bursts = Bursts(log, lambda key, count, until: ("redelivery", f"{count} {key} until {until}"))
    for second in (1, 2, 3, 9):
        bursts.add("nack", second * SECOND, second)
    bursts.add("left", 10 * SECOND, 10, 5)
    bursts.finish()
    assert texts(log, 10) == ["3 nack until 3", "1 nack until 0", "5 left until 0"]
