"""Names of segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.scalable.segment_name import SegmentName, is_name_on_segment, name_without_segment, scalable_topic

HASH = st.integers(0, 65535)


@given(st.text(alphabet="abc-.0", min_size=1), HASH, HASH, st.integers(0, 2**63 - 1))
def test_a_name_has_the_parts_from_which_it_was_made(topic, start, end, number):
    name = SegmentName(f"topic://t/n/{topic}", start, end, number)
    assert SegmentName.parse(str(name)) == name
    assert scalable_topic(str(name)) == name.topic


@pytest.mark.parametrize(
    "name",
    [
        "segment://public/default/p1/zz",
        "segment://public/default/p1/0000-7FFF-0",
        "segment://public/default/p1/0000-7fff-01",
        "segment://public/default/0000-7fff-0",
        "persistent://public/default/p1/0000-7fff-0",
        "persistent://public/default/p1",
    ],
)
def test_other_names_are_not_segments(name):
    assert SegmentName.parse(name) is None
    assert scalable_topic(name) == ""


def test_a_scalable_topic_is_its_own_topic():
    assert scalable_topic("topic://public/default/p1") == "topic://public/default/p1"


@pytest.mark.parametrize(
    ("name", "topic", "application"),
    [
        ("s1-seg-7", "segment://public/default/orders/0000-ffff-7", "s1"),
        ("s1-seg-7", "segment://public/default/orders/0000-ffff-17", "s1-seg-7"),
        ("s1-seg-7", "persistent://public/default/orders", "s1-seg-7"),
        ("", "segment://public/default/orders/0000-ffff-7", ""),
    ],
)
def test_the_name_that_the_application_gave(name, topic, application):
    assert name_without_segment(name, topic) == application


@pytest.mark.parametrize(
    ("name", "found"), [("s1-seg-7", True), ("a-seg-b-seg-0", True), ("s1-seg-", False), ("-seg-1", False), ("", False)]
)
def test_whether_a_name_is_that_of_a_client_on_a_segment(name, found):
    assert is_name_on_segment(name) == found
