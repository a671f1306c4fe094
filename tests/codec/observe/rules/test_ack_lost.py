"""Rule ack-lost: ACKs without a response, with an error, or without effect."""

import pytest


def test_no_response_before_the_connection_broke(evaluate, consumer, counted):
    [found] = evaluate("ack-lost", consumer(acks_unanswered=counted(2, 30, 31, first=8), ended=8.1, end="reset_broker"))
    assert (found.culprit, found.certainty, found.variant) == ("network", "certain", "unanswered")
    assert found.frames == [30, 31]


def test_the_response_may_be_in_flight(evaluate, consumer, counted):
    assert evaluate("ack-lost", consumer(acks_unanswered=counted(1, 30, first=9.5))) == []


def test_no_response_for_seconds(evaluate, consumer, counted):
    [found] = evaluate("ack-lost", consumer(acks_unanswered=counted(1, 30, first=3), doubts={"end"}))
    assert (found.culprit, found.certainty) == ("broker", "likely")


def test_the_capture_has_only_one_direction(evaluate, consumer, counted):
    [found] = evaluate("ack-lost", consumer(acks_unanswered=counted(1, 30, first=3), doubts={"one_way"}))
    assert (found.culprit, found.certainty) == ("capture", "possible")


@pytest.mark.parametrize(
    ("why", "end", "culprit"),
    [
        ("unload", "broker", "broker"),
        ("lost", "fin_broker", "broker"),
        ("lost", "reset_broker", "broker"),
        ("lost", "reset_client", "network"),
        ("twice", "closed", "broker"),
    ],
)
def test_an_acknowledged_message_is_redelivered(evaluate, consumer, counted, why, end, culprit):
    seen = {why: counted(1, 12, 40, sample="7:3")}
    [found] = evaluate("ack-lost", consumer(acked_but_back=seen, ends={end: counted()}))
    assert (found.severity, found.culprit, found.certainty) == ("warning", culprit, "likely")
    assert found.variant == f"back-again-{why}"


def test_the_broker_refuses_an_ack(evaluate, consumer, counted):
    refused = {"TransactionConflict": counted(1, 12, 13, sample="pending by another\x1b[0m")}
    [found] = evaluate("ack-lost", consumer(acks_failed=refused))
    assert found.variant == "TransactionConflict"
    assert "pending by another\\x1b[0m" in found.what


@pytest.mark.parametrize(
    ("message", "severity", "culprit"),
    [
        (
            "Mark deleting an already mark-deleted position. Current mark-delete: 25:2 -- attempted: 25:1",
            "note",
            "client",
        ),
        ("Invalid mark deleted position", "warning", "application"),
    ],
)
def test_a_broker_5_refuses_an_ack_behind_the_cursor_or_beyond_the_end(
    evaluate, consumer, counted, message, severity, culprit
):
    refused = {"UnknownError": counted(1, 12, 13, sample=message)}
    [found] = evaluate("ack-lost", consumer(acks_failed=refused))
    assert (found.severity, found.culprit) == (severity, culprit)


def test_no_finding(evaluate, consumer):
    assert evaluate("ack-lost", consumer()) == []
