"""Rule producer-waiting: WaitForExclusive, and fenced producers."""

import pytest

from pcli.codec.observe.tracking.records.counters import StateDuration


@pytest.fixture
def waits(producer, ns):
    """A producer that was ready at 1 s, waited from 3 s, and was ready again at ``until`` if given."""

    def make(until=None, fenced_at=None):
        made = producer(access_mode="WaitForExclusive", first_ns=ns(1))
        made.waiting = StateDuration()
        made.waiting.begin(ns(3), 40)
        if until is not None:
            made.waiting.end(ns(until), 50)
        if fenced_at is not None:
            other = producer("leader", access_mode="ExclusiveWithFencing", first_ns=ns(fenced_at))
            made.topic_record.producers["leader"] = other
        return made

    return make


@pytest.mark.parametrize(
    ("until", "fenced_at", "severity", "cause"),
    [
        (None, None, "note", ""),
        (8, None, "note", ""),
        (None, 2, "error", "fenced"),
        (8, 2, "warning", "fenced"),
        (8, 0.5, "note", ""),
        (8, 7, "note", ""),
    ],
    ids=["waiting", "waited", "fenced", "was-fenced", "opened-later", "fenced-another"],
)
def test_severity(evaluate, waits, until, fenced_at, severity, cause):
    [found] = evaluate("producer-waiting", waits(until, fenced_at))
    assert (found.severity, found.culprit, found.certainty, found.variant) == (
        severity,
        "application",
        "certain",
        cause,
    )
    assert ("because producer leader on orders fenced it" in found.what) == (cause == "fenced")
    assert found.frames[0] == 40


def test_a_short_wait(evaluate, waits):
    assert evaluate("producer-waiting", waits(until=3.5)) == []


@pytest.mark.parametrize(("fenced_at", "findings"), [(2, 0), (None, 1)])
def test_lost_messages_of_a_fenced_producer_are_not_the_brokers_fault(evaluate, waits, counted, fenced_at, findings):
    one = waits(until=8, fenced_at=fenced_at)
    one.lost, one.session.end = counted(1, 30, first=2.5), "fin_broker"
    assert len(evaluate("producer-stuck", one)) == findings
