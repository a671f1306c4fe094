"""Rule reconnect-loop: repeated connections and their cause."""

import pytest

from pcli.codec.observe.tracking.records.connection_records import HostRecord

SECOND = 1_000_000_000


@pytest.fixture
def host(ns):
    def make(cause, ends, attempts=None, port=6650, **fields):
        made = HostRecord("10.0.0.1", ("10.0.0.2", port), **fields)
        made.recent_ends = [(ns(one), cause, number) for number, one in enumerate(ends, 1)]
        for one in [end - 0.5 for end in ends] if attempts is None else attempts:
            made.attempt_times.append(ns(one))
            made.attempts.add(ns(one))
        return made

    return make


@pytest.mark.parametrize(
    ("cause", "culprit"),
    [
        ("keep_alive", "network"),
        ("fin_broker", "broker"),
        ("reset_broker", "network"),
        ("reset_client", "client"),
        ("auth", "application"),
    ],
)
def test_three_times_in_a_minute(evaluate, host, cause, culprit):
    [found] = evaluate("reconnect-loop", host(cause, [5, 20, 40]))
    assert (found.severity, found.culprit, found.cause_certainty, found.variant) == ("error", culprit, "likely", cause)
    assert (found.frames, found.since_ns) == ([1, 2, 3], 5 * SECOND)
    assert "3 times within 35.0 s" in found.what


@pytest.mark.parametrize("cause", ["fin_client", "silence"])
def test_closes_by_the_application(evaluate, host, cause):
    assert evaluate("reconnect-loop", host(cause, [5, 6, 7, 8])) == []


def test_two_rounds_are_no_loop(evaluate, host):
    assert evaluate("reconnect-loop", host("fin_broker", [5, 20])) == []


def test_three_times_in_an_hour(evaluate, host):
    assert evaluate("reconnect-loop", host("fin_broker", [5, 1000, 3000])) == []


def test_ends_that_are_far_apart_do_not_hide_a_loop(evaluate, host):
    [found] = evaluate("reconnect-loop", host("fin_broker", [5, 1000, 1010, 1020, 1030]))
    assert found.frames == [2, 3, 4, 5]


def test_three_connections_lost_at_once(evaluate, host):
    ends = [5, 5.01, 5.02]
    assert evaluate("reconnect-loop", host("fin_broker", ends, attempts=[1, 1.1, 1.2, 6, 6.1, 6.2])) == []


def test_the_last_connection_lasts(evaluate, host):
    [found] = evaluate("reconnect-loop", host("fin_broker", [5, 5.2, 5.6], attempts=[4, 5.1, 5.4, 9]))
    assert (found.severity, found.culprit) == ("warning", "broker")
