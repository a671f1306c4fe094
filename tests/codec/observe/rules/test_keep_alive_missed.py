"""Rule keep-alive-missed: the silent side."""

import pytest


@pytest.fixture
def given_up(connection, ns):
    def make(by_client, **fields):
        ping = {by_client: (40, ns(5))}
        return connection(end="keep_alive", ended_ns=ns(35), ping_open=ping, last_frame=44, **fields)

    return make


@pytest.mark.parametrize(("by_client", "culprit"), [(True, "broker"), (False, "client")])
def test_the_silent_side_is_the_culprit(evaluate, given_up, by_client, culprit):
    [found] = evaluate("keep-alive-missed", given_up(by_client))
    assert (found.severity, found.culprit, found.cause_certainty, found.frames) == (
        "error",
        culprit,
        "likely",
        [40, 44],
    )
    assert "30.0 s after its PING in frame 40" in found.what


def test_with_gaps_the_capture_is_the_culprit(evaluate, given_up):
    [found] = evaluate("keep-alive-missed", given_up(True, doubts={"gap"}))
    assert (found.severity, found.culprit, found.cause_certainty) == ("note", "capture", "possible")
    assert evaluate("keep-alive-missed", given_up(True, doubts={"one_way"})) == []


def test_other_ends(evaluate, connection, ns):
    assert evaluate("keep-alive-missed", connection(end="fin_broker", ping_open={False: (40, ns(5))})) == []


def test_a_connection_that_is_open(evaluate, connection, ns):
    assert evaluate("keep-alive-missed", connection(ping_open={False: (40, ns(5))}), 300) == []
