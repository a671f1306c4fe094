"""Rule auth-expired: the broker requests new credentials."""

import pytest


@pytest.fixture
def asked(connection, counted, ns):
    def make(**fields):
        return connection(challenges=counted(1, 30), last_frame=44, **fields)

    return make


def test_the_client_does_not_respond(evaluate, asked, ns):
    [found] = evaluate("auth-expired", asked(challenge_open_ns=ns(5)), 20)
    assert (found.severity, found.culprit, found.certainty, found.variant) == (
        "error",
        "application",
        "certain",
        "unanswered",
    )
    assert found.frames == [30, 44]
    assert evaluate("auth-expired", asked(challenge_open_ns=ns(5)), 14) == []


def test_the_broker_closes_the_connection(evaluate, asked, ns):
    [found] = evaluate("auth-expired", asked(challenge_open_ns=ns(5), end="fin_broker", ended_ns=ns(6)))
    assert "closed the connection" in found.what
    assert evaluate("auth-expired", asked(challenge_open_ns=ns(5), end="fin_client", ended_ns=ns(6))) == []


def test_the_response_is_not_accepted(evaluate, asked, ns):
    [found] = evaluate("auth-expired", asked(refreshed_ns=ns(5), end="fin_broker", ended_ns=ns(5.1)))
    assert (found.variant, found.certainty) == ("refused", "likely")
    assert evaluate("auth-expired", asked(refreshed_ns=ns(5), end="fin_broker", ended_ns=ns(50))) == []
    assert evaluate("auth-expired", asked(refreshed_ns=ns(5))) == []


def test_the_response_may_be_in_a_gap(evaluate, asked, ns):
    [found] = evaluate("auth-expired", asked(challenge_open_ns=ns(5), doubts={"gap"}), 20)
    assert found.certainty == "possible"
    assert evaluate("auth-expired", asked(challenge_open_ns=ns(5), doubts={"one_way"}), 20) == []


def test_renewed_tokens(diagnosed):
    assert diagnosed("java/auth-token", "auth-expired") == []
