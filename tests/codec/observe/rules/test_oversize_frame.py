"""Rule oversize-frame: frames above the limit."""

import pytest


@pytest.mark.parametrize(
    ("sample", "culprit"),
    [
        ("SEND of 6,000,000 bytes", "client"),
        ("a client frame of 6,000,000 bytes", "client"),
        ("GET_TOPICS_OF_NAMESPACE_RESPONSE of 5,488,916 bytes", "broker"),
    ],
)
def test_above_the_limit(evaluate, connection, counted, sample, culprit):
    [found] = evaluate("oversize-frame", connection(oversize=counted(1, 9, sample=sample), max_message_size=5_242_880))
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("error", culprit, "certain", [9])
    assert sample in found.what
    assert "5,242,880" in found.what


def test_after_a_gap(evaluate, connection, counted):
    [found] = evaluate("oversize-frame", connection(oversize=counted(1, 9, sample="x"), doubts={"gap"}))
    assert found.certainty == "possible"


def test_within_the_limit(evaluate, connection):
    assert evaluate("oversize-frame", connection()) == []


def test_messages_up_to_the_limit(diagnosed):
    assert diagnosed("java/size-limits", "oversize-frame") == []
