"""The longest stop of a consumer, and its waiting entries."""

import pytest

from pcli.codec.observe.rules import Moment
from pcli.codec.observe.rules.consumer_state import Stop, stop_of, waiting
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.observe.tracking.records.counters import StateDuration


@pytest.fixture
def moment(ns):
    return Moment(ns(10), over=True, capture=CaptureRecord())


def test_a_current_stop_precedes_a_longer_one(consumer, ongoing, finished, moment, ns):
    now = ongoing(8, 80)
    now.longest_ns, now.longest_from_ns, now.longest_frames = ns(5), ns(2), (20, 70)
    assert stop_of(now, consumer(), moment) == Stop(ns(8), ns(2), 80, 0)
    assert stop_of(finished(2, 7, 20, 70), consumer(), moment) == Stop(ns(2), ns(5), 20, 70)


def test_a_stop_until_the_end_of_the_session_has_not_ended(consumer, ongoing, finished, moment, ns):
    closed = consumer(ended=9)
    assert stop_of(finished(2, 9, 20, 99), closed, moment) == Stop(ns(2), ns(7), 20, 0)
    assert stop_of(finished(2, 8, 20, 70), closed, moment) == Stop(ns(2), ns(6), 20, 70)
    assert stop_of(ongoing(8, 80), closed, moment) == Stop(ns(8), ns(1), 80, 0)


def test_a_last_stop_without_end_precedes_a_longer_one(consumer, moment, ns):
    stops = StateDuration()
    for since, until, frame in ((2, 6, 20), (7, 9, 70)):
        stops.begin(ns(since), frame)
        stops.end(ns(until), frame + 9)
    assert stop_of(stops, consumer(ended=9), moment) == Stop(ns(7), ns(2), 70, 0)
    assert stop_of(stops, consumer(), moment) == Stop(ns(2), ns(4), 20, 29)
    assert stop_of(stops, consumer(ended=9.5), moment) == Stop(ns(2), ns(4), 20, 29)


def test_a_silent_connection_is_still_attached(consumer, ongoing, moment, ns):
    silent = consumer(ended=9, end="silence")
    assert stop_of(ongoing(8, 80), silent, moment) == Stop(ns(8), ns(2), 80, 0)


def test_a_consumer_without_stops(consumer, moment):
    assert stop_of(StateDuration(), consumer(), moment) is None


def test_waiting_entries_are_those_no_attached_consumer_holds(consumer, subscription):
    of = subscription(type="Shared", backlog=10)
    one = consumer("one", of, unacked=3)
    assert waiting(one) == 7
    consumer("two", of, unacked=4)
    consumer("gone", of, unacked=2, ended=9)
    assert waiting(one) == 3
    of.backlog = 5
    assert waiting(one) == 0
    of.backlog = None
    assert waiting(one) is None


def test_entries_delivered_to_an_exclusive_consumer_do_not_wait(consumer, subscription, counted):
    of = subscription(type="Exclusive", backlog=8)
    cum = consumer("cum", of, received_entries=8)
    assert waiting(cum) == 0  # all were delivered; which of them are held is unknown
    of.backlog = 5
    cum.ack_ages = counted(6)
    assert waiting(cum) == 3  # two are held
