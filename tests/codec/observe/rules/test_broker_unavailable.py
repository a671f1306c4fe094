"""Rule broker-unavailable: lost connections, and attempts that failed until the next CONNECTED."""

import pytest

from pcli.codec.observe.tracking.records.connection_records import HostRecord, Outage


@pytest.fixture
def host(ns, counted):
    def make(*outages, attempts=1, port=6650, **fields):
        made = HostRecord("10.0.0.1", ("10.0.0.2", port), attempts=counted(attempts), **fields)
        made.outages = list(outages)
        return made

    return make


@pytest.fixture
def outage(ns, counted):
    return lambda until=-1, **fields: Outage(ns(2), ns(until) if until >= 0 else -1, 90 if until >= 0 else 0, **fields)


def test_a_restarted_broker(evaluate, host, outage, counted):
    one = outage(8, lost=counted(2, 40, 41), refused=counted(14, sample="packet 7"), unanswered=counted(1, 50))
    [found] = evaluate("broker-unavailable", host(one))
    assert (found.severity, found.culprit, found.cause_certainty) == ("warning", "broker", "likely")
    assert found.what == (
        "Server 10.0.0.2:6650 was not available to client 10.0.0.1 for 6.0 s, until frame 90: 2 connections were lost, "
        "14 connections were refused (first in packet 7), 1 connection was closed because CONNECT had no response."
    )
    assert found.frames == [40, 41, 50, 90]


def test_lookups_while_the_broker_shuts_down(evaluate, host, outage, counted):
    refused = counted(9, 20, 21, 22, 23, sample="No available broker found.")
    [found] = evaluate("broker-unavailable", host(outage(8, not_ready=refused, unanswered=counted(1, 50))))
    assert "9 lookups were refused (No available broker found), 1 connection was closed" in found.what
    assert found.frames == [20, 21, 50, 90]


def test_a_broker_that_does_not_come_back(evaluate, host, outage, counted):
    one = host()
    one.outage = outage(refused=counted(2, sample="packet 7"))
    [found] = evaluate("broker-unavailable", one)
    assert found.severity == "error"
    assert "for 8.0 s, until the end: 2 connections were refused" in found.what


def test_a_server_that_accepts_a_connection_and_never_answers(evaluate, host, outage, counted):
    """The client closes the connection after the last frame of the capture."""
    one = host()
    one.outage = outage(unanswered=counted(1, 50, first=7, last=7))
    [found] = evaluate("broker-unavailable", one, now=2)
    assert "for 5.0 s, until the end: 1 connection was closed because CONNECT had no response" in found.what
    assert found.cause.alternatives == ("another program, or a load balancer, that accepts the connections",)


@pytest.mark.parametrize(("refused", "unanswered", "findings"), [(0, 0, 0), (1, 0, 0), (2, 0, 1), (0, 1, 1)])
def test_a_lost_connection_is_no_outage(evaluate, host, outage, counted, refused, unanswered, findings):
    one = host()
    one.outage = outage(lost=counted(3, 9), refused=counted(refused), unanswered=counted(unanswered))
    assert len(evaluate("broker-unavailable", one)) == findings


@pytest.mark.parametrize(("port", "findings"), [(6650, 1), (6651, 1), (9092, 0)])
def test_other_services_are_not_reported(evaluate, host, outage, counted, port, findings):
    one = outage(8, refused=counted(5))
    assert len(evaluate("broker-unavailable", host(one, attempts=0, port=port))) == findings


def test_two_outages(evaluate, host, outage, counted):
    both = [outage(until, refused=counted(5)) for until in (3, 5)]
    assert [one.variant for one in evaluate("broker-unavailable", host(*both))] == ["", "1"]
