"""Rule stuck-no-permits: SUBSCRIBE without FLOW, and FLOWs with too few permits."""

import pytest


def test_a_consumer_without_a_flow(evaluate, consumer):
    [found] = evaluate("stuck-no-permits", consumer(permits={"flows": 0, "flowed": 0, "queue": 0}, ended=10))
    assert (found.severity, found.culprit, found.certainty, found.variant) == (
        "error",
        "application",
        "certain",
        "never-asked",
    )
    assert found.frames == [6]
    assert "9.0 s" in found.what
    assert "backlog is 100 entries" in found.what


def test_the_flow_may_follow_after_the_capture(evaluate, consumer):
    [found] = evaluate("stuck-no-permits", consumer(permits={"flows": 0}))
    assert found.certainty == "likely"


def test_no_waiting_entries(evaluate, consumer, subscription):
    [found] = evaluate("stuck-no-permits", consumer(of=subscription(backlog=0), permits={"flows": 0}))
    assert found.severity == "note"


def test_the_flow_may_be_in_a_gap(evaluate, consumer):
    [found] = evaluate("stuck-no-permits", consumer(permits={"flows": 0}, doubts={"gap"}))
    assert found.certainty == "possible"
    assert "packets of the connection are missing" in found.opposite


def test_a_consumer_closed_at_once(evaluate, consumer):
    assert evaluate("stuck-no-permits", consumer(permits={"flows": 0}, ended=1.5)) == []


def test_a_consumer_without_subscribe(evaluate, consumer):
    assert evaluate("stuck-no-permits", consumer(permits={"flows": 0, "known": False})) == []


@pytest.fixture
def keeper(consumer, ongoing, counted):
    def make(**permits):
        stuck = {"delivered": 30, "flowed": 24, "exhausted": ongoing(4, 40), "last_flow_frame": 7, **permits}
        return consumer(permits=stuck, unacked=2)

    return make


def test_a_client_that_returns_too_few_permits(evaluate, keeper, counted):
    [found] = evaluate("stuck-no-permits", keeper(short=counted(2, 30, 35)))
    assert (found.severity, found.culprit, found.certainty, found.variant) == (
        "error",
        "client",
        "likely",
        "not-returned",
    )
    assert found.frames[:4] == [40, 7, 30, 35]
    assert "30 messages and holds 2 of them" in found.what


def test_flows_that_stop_suddenly_are_a_pause(evaluate, keeper):
    assert evaluate("stuck-no-permits", keeper()) == []
    assert evaluate("paused-client", keeper()) != []


def test_a_client_with_permits_left(evaluate, keeper, counted, finished):
    assert evaluate("stuck-no-permits", keeper(short=counted(2, 30), exhausted=finished(4, 8, 40, 50))) == []
