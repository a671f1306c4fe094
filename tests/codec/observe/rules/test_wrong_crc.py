"""Rule wrong-crc: the hop that corrupted the message."""

import pytest


@pytest.fixture
def legs(connection):
    """Both connections of a proxied conversation."""
    front, back = connection(stream=1), connection(stream=2, leg_of=1)
    front.other_leg, back.other_leg = back, front
    return front, back


@pytest.mark.parametrize(
    ("from_client", "culprit", "command"), [(True, "client", "SEND"), (False, "broker", "MESSAGE")]
)
def test_the_sender_is_the_culprit(evaluate, connection, counted, from_client, culprit, command):
    [found] = evaluate("wrong-crc", connection(wrong_crc={from_client: counted(2, 9, 11)}))
    assert (found.severity, found.culprit, found.cause_certainty, found.frames) == ("error", culprit, "likely", [9, 11])
    assert f"2 {command}" in found.what


def test_frames_found_by_search(evaluate, connection, counted):
    [found] = evaluate("wrong-crc", connection(wrong_crc={True: counted(1, 9)}, doubts={"weak_sync"}))
    assert found.cause_certainty == "possible"


@pytest.mark.parametrize("from_client", [True, False])
def test_the_proxy_is_the_culprit(evaluate, legs, counted, from_client):
    before, behind = legs if from_client else reversed(legs)
    behind.wrong_crc = {from_client: counted(1, 9)}
    [found] = evaluate("wrong-crc", behind)
    assert found.culprit == "network"
    assert "the proxy changed them" in found.what
    assert evaluate("wrong-crc", before) == []


@pytest.mark.parametrize(("from_client", "culprit"), [(True, "client"), (False, "broker")])
def test_damaged_before_the_proxy(evaluate, legs, counted, from_client, culprit):
    before, behind = legs if from_client else reversed(legs)
    for leg in legs:
        leg.wrong_crc = {from_client: counted(1, 9)}
    assert [one.culprit for one in evaluate("wrong-crc", before)] == [culprit]
    assert evaluate("wrong-crc", behind) == []
