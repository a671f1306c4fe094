"""Rule answers-missing: no response, or one too many."""

import pytest

from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord
from pcli.codec.observe.tracking.records.counters import Occurrences


@pytest.fixture
def lookup(counted, ns):
    def make(waited, type_="LOOKUP", **fields):
        return ExchangeRecord(1, type_, asked=5, unanswered=counted(1, 12), waited_ns=ns(waited), **fields)

    return make


@pytest.mark.parametrize(("waited", "severity"), [(11, "warning"), (30, "error")])
def test_a_lookup_without_a_response(evaluate, lookup, waited, severity):
    [found] = evaluate("answers-missing", lookup(waited))
    assert (found.severity, found.culprit, found.certainty, found.frames) == (severity, "broker", "certain", [12])
    assert "1 of 5 LOOKUP requests on connection 1" in found.what


def test_a_pending_response(evaluate, lookup):
    assert evaluate("answers-missing", lookup(9)) == []


def test_later_requests_have_responses(evaluate, lookup):
    [found] = evaluate("answers-missing", lookup(6, overtaken=1))
    assert found.severity == "error"
    assert "later requests were" in found.what
    assert evaluate("answers-missing", lookup(4, overtaken=1)) == []


@pytest.mark.parametrize(("doubt", "sure"), [("gap", "possible"), ("cut", "possible"), ("end", "likely")])
def test_the_response_may_not_be_captured(evaluate, lookup, doubt, sure):
    [found] = evaluate("answers-missing", lookup(20, doubts={doubt}))
    assert found.certainty == sure


@pytest.mark.parametrize("type_", ["SEND", "ACK", "PING"])
def test_requests_with_other_rules(evaluate, lookup, type_):
    assert evaluate("answers-missing", lookup(60, type_)) == []


@pytest.mark.parametrize(("field", "cause"), [("answered_twice", "twice"), ("unasked", "unasked")])
def test_a_second_response(evaluate, field, cause):
    [found] = evaluate("answers-missing", ExchangeRecord(1, "LOOKUP", **{field: Occurrences(1, frames=[7])}))
    assert (found.severity, found.variant, found.frames) == ("note", cause, [7])
    assert evaluate("answers-missing", ExchangeRecord(1, "LOOKUP", **{field: Occurrences(1)}, doubts={"gap"})) == []


def test_requests_before_the_capture_are_unknown(evaluate):
    assert evaluate("answers-missing", ExchangeRecord(1, "SUCCESS", unasked=Occurrences(1), doubts={"start"})) == []


def test_the_response_may_be_in_a_gap(evaluate, lookup):
    [found] = evaluate("answers-missing", lookup(60, overtaken=1, doubts={"gap"}))
    assert (found.severity, found.culprit) == ("note", "capture")


def test_one_direction_contains_no_responses(evaluate, lookup):
    assert evaluate("answers-missing", lookup(60, doubts={"one_way"})) == []
