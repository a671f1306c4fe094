"""Rule slow-answers: the limits of late responses."""

import pytest

from pcli.codec.observe.tracking.records.connection_records import ExchangeRecord


@pytest.fixture
def exchange(counted, ns):
    def make(seconds, type_="SEND", **fields):
        slow = counted(3, 10, 20, first=4)
        return ExchangeRecord(
            1, type_, ("10.0.0.1", 40000), ("10.0.0.2", 6650), 9, 9,
            slow=slow, slowest_ns=ns(seconds), slowest=(10, 20), **fields,
        )  # fmt: skip

    return make


@pytest.mark.parametrize(("seconds", "severity"), [(1.4, "note"), (9.9, "note"), (12, "warning"), (31, "error")])
def test_severity_by_client_timeouts(evaluate, exchange, seconds, severity):
    [found] = evaluate("slow-answers", exchange(seconds))
    assert (found.severity, found.culprit, found.certainty) == (severity, "broker", "certain")
    assert found.frames == [10, 20]
    assert found.subject["request"] == "SEND"


def test_a_rate_limit_is_mentioned(evaluate, exchange):
    [found] = evaluate("slow-answers", exchange(2))
    assert "publish rate" in found.opposite
    [found] = evaluate("slow-answers", exchange(7, "SUBSCRIBE"))
    assert "longer than 5.0 s" in found.what
    assert "loaded" in found.opposite


def test_gaps_reduce_the_certainty(evaluate, exchange):
    [found] = evaluate("slow-answers", exchange(2, doubts={"gap"}))
    assert found.certainty == "likely"


def test_no_slow_response(evaluate):
    assert evaluate("slow-answers", ExchangeRecord(1, "SEND", answered=100, slowest_ns=900_000_000)) == []


def test_a_late_pong_of_a_client(evaluate, exchange):
    [found] = evaluate("slow-answers", exchange(7, "PING", slowest_by_client=True))
    assert (found.culprit, found.cause_certainty) == ("application", "likely")
    assert "any frame answers a PING" in found.opposite
