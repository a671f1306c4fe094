"""Rule stuck-no-permits: SUBSCRIBE without FLOW, and FLOWs with too few permits."""

import pytest


def test_a_consumer_that_never_asked(evaluate, consumer):
    [found] = evaluate("stuck-no-permits", consumer(permits={"flows": 0, "flowed": 0, "queue": 0}, ended=10))
    assert (found.severity, found.culprit, found.sure, found.cause) == (
        "error",
        "application",
        "certain",
        "never-asked",
    )
    assert found.frames == [6]
    assert "9.0 s" in found.what
    assert "backlog is 100 entries" in found.what


def test_it_may_ask_behind_the_end_of_the_capture(evaluate, consumer):
    [found] = evaluate("stuck-no-permits", consumer(permits={"flows": 0}))
    assert found.sure == "likely"


def test_nothing_waits_for_one_that_never_asked(evaluate, consumer, subscription):
    [found] = evaluate("stuck-no-permits", consumer(of=subscription(backlog=0), permits={"flows": 0}))
    assert found.severity == "note"


def test_a_hole_may_have_swallowed_the_flow(evaluate, consumer):
    [found] = evaluate("stuck-no-permits", consumer(permits={"flows": 0}, doubts={"gap"}))
    assert found.sure == "possible"
    assert "packets of its connection are missing" in found.opposite


def test_one_that_was_opened_and_closed_again(evaluate, consumer):
    assert evaluate("stuck-no-permits", consumer(permits={"flows": 0}, ended=1.5)) == []


def test_one_whose_subscribe_is_not_in_the_capture(evaluate, consumer):
    assert evaluate("stuck-no-permits", consumer(permits={"flows": 0, "known": False})) == []


@pytest.fixture
def keeper(consumer, still, tallied):
    def make(**permits):
        stuck = {"delivered": 30, "flowed": 24, "exhausted": still(4, 40), "last_flow_frame": 7, **permits}
        return consumer(permits=stuck, unacked=2)

    return make


def test_a_client_that_keeps_permits(evaluate, keeper, tallied):
    [found] = evaluate("stuck-no-permits", keeper(short=tallied(2, 30, 35)))
    assert (found.severity, found.culprit, found.sure, found.cause) == ("error", "client", "likely", "not-returned")
    assert found.frames[:4] == [40, 7, 30, 35]
    assert "30 messages and holds 2 of them" in found.what


def test_flows_that_stop_all_at_once_are_a_pause(evaluate, keeper):
    assert evaluate("stuck-no-permits", keeper()) == []
    assert evaluate("paused-client", keeper()) != []


def test_a_client_that_keeps_permits_and_has_some(evaluate, keeper, tallied, past):
    assert evaluate("stuck-no-permits", keeper(short=tallied(2, 30), exhausted=past(4, 8, 40, 50))) == []
