"""Too large, by whom."""

import pytest


@pytest.mark.parametrize(
    ("sample", "culprit"),
    [("SEND of 6,000,000 bytes", "client"), ("GET_TOPICS_OF_NAMESPACE_RESPONSE of 5,488,916 bytes", "broker")],
)
def test_above_the_limit(look, connection, tallied, sample, culprit):
    [found] = look("oversize-frame", connection(oversize=tallied(1, 9, sample=sample), max_message_size=5_242_880))
    assert (found.severity, found.culprit, found.sure, found.frames) == ("error", culprit, "certain", [9])
    assert sample in found.what
    assert "5,242,880" in found.what


def test_behind_a_hole(look, connection, tallied):
    [found] = look("oversize-frame", connection(oversize=tallied(1, 9, sample="x"), doubts={"gap"}))
    assert found.sure == "possible"


def test_within_it(look, connection):
    assert look("oversize-frame", connection()) == []


def test_messages_up_to_the_limit(diagnosed):
    assert diagnosed("java/size-limits", "oversize-frame") == []
