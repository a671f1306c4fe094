"""Rule paused-client: a full queue and an application that takes no messages."""

import pytest


@pytest.fixture
def paused(consumer, ongoing):
    def make(**fields):
        permits = {"delivered": 10, "exhausted": ongoing(4, 40), "last_flow_frame": 7}
        return consumer(**{"permits": permits, "unacked": 10, "received": 10, **fields})

    return make


def test_a_full_queue_without_a_flow(evaluate, paused):
    [found] = evaluate("paused-client", paused())
    assert (found.severity, found.culprit, found.cause_certainty) == ("warning", "application", "likely")
    assert found.frames[0] == 40
    assert "6.0 s before the end" in found.what
    assert "10 unacknowledged messages; 90 more entries wait" in found.what


def test_without_a_backlog_it_is_a_note(evaluate, paused, subscription):
    [found] = evaluate("paused-client", paused(of=subscription(backlog=10)))
    assert found.severity == "note"


def test_deliveries_resume(evaluate, paused, finished):
    permits = {"delivered": 10, "flows": 2, "flowed": 20, "exhausted": finished(4, 9, 40, 50)}
    [found] = evaluate("paused-client", paused(permits=permits))
    assert found.severity == "note"
    assert found.frames[:2] == [40, 50]


def test_a_short_pause_is_not_reported(evaluate, paused, finished, ongoing):
    assert evaluate("paused-client", paused(permits={"delivered": 10, "exhausted": finished(4, 5.9, 40, 50)})) == []
    assert evaluate("paused-client", paused(permits={"delivered": 10, "exhausted": ongoing(9.5, 40)})) == []


def test_closing_the_consumer_does_not_end_the_pause(evaluate, paused, finished):
    permits = {"delivered": 10, "exhausted": finished(4, 9, 40, 99)}
    [found] = evaluate("paused-client", paused(permits=permits, ended=9))
    assert (found.severity, found.certainty) == ("warning", "certain")


def test_the_client_is_the_culprit_if_flows_are_too_small(evaluate, paused, ongoing, counted):
    assert evaluate("paused-client", paused(permits={"exhausted": ongoing(4, 40), "short": counted(1, 30)})) == []


def test_a_paused_listener_that_acknowledged_all(evaluate, paused, subscription):
    [found] = evaluate("paused-client", paused(unacked=0, of=subscription(backlog=None)))
    assert found.severity == "note"
    assert "holds 0 unacknowledged messages" in found.what


def test_a_broker_that_opens_the_consumer_slowly(evaluate, paused, finished, ns):
    slow = paused(permits={"exhausted": finished(1, 8, 5, 7)})
    slow.session.ready_ns = ns(7.5)
    assert evaluate("paused-client", slow) == []
    slow.session.ready_ns = ns(2)
    [found] = evaluate("paused-client", slow)
    assert "for 6.0 s" in found.what


def test_a_queue_of_one_is_mentioned(evaluate, paused, ongoing):
    permits = {"queue": 1, "flowed": 3, "flows": 3, "delivered": 3, "exhausted": ongoing(4, 40)}
    [found] = evaluate("paused-client", paused(permits=permits, unacked=1))
    assert "requests messages one at a time" in found.what


def test_a_client_that_clears_its_queue_without_returning_permits(evaluate, paused, counted):
    [found] = evaluate("paused-client", paused(unacked=0, asked_all=counted(1, 79, first=5)))
    assert (found.culprit, found.cause_certainty) == ("client", "likely")
    assert "requested redelivery of all messages in frame 79" in found.opposite


def test_a_reader_that_stops_reading_is_not_reported(evaluate, paused):
    [found] = evaluate("paused-client", paused(durable=False))
    assert found.severity == "note"


def test_all_messages_are_acknowledged(evaluate, paused):
    [found] = evaluate("paused-client", paused(unacked=0, ended=10))
    assert (found.severity, found.cause_certainty) == ("warning", "likely")
    assert "the listener is paused, or a FLOW was lost" in found.opposite


def test_a_delivery_without_permits_moves_the_start(evaluate, paused, ns):
    assert evaluate("paused-client", paused(last_message_ns=ns(9.5), last_message_frame=90)) == []
    [found] = evaluate("paused-client", paused(last_message_ns=ns(6), last_message_frame=60))
    assert "since frame 60, 4.0 s before the end" in found.what


def test_a_consumer_that_left(evaluate, paused):
    [found] = evaluate("paused-client", paused(ended=9))
    assert (
        "requested no message from frame 40 until the consumer was closed (frame 99) 5.0 s later. It held 10"
        in found.what
    )
    [found] = evaluate("paused-client", paused(ended=9, end="reset_client"))
    assert "until the connection ended 5.0 s later" in found.what
