"""Message ids as text and bit sets as words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.message_id import MessageId, pull_ack_set, push_ack_set, signed

NUMBERS = st.integers(-1, 2**31 - 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7:0", MessageId(7, 0)),
        ("7:0:3", MessageId(7, 0, 3)),
        ("7:0:-1:2", MessageId(7, 0, -1, 2)),
        ("7:0:3:2", MessageId(7, 0, 3, 2)),
        ("-1:-1", MessageId(-1, -1)),
    ],
)
def test_text_both_ways(text, value):
    assert MessageId.parse(text) == value
    assert str(value) == text


@pytest.mark.parametrize("text", ["", "7", "7:", "a:b", "1:2:3:4:5", "7 0"])
def test_no_id(text):
    with pytest.raises(LocalError, match="is no message id"):
        MessageId.parse(text)


def test_minus_one_travels_as_the_largest_unsigned_number():
    data = MessageId(-1, -1).proto()
    assert data.ledgerId == data.entryId == 2**64 - 1
    assert not data.HasField("partition")
    assert MessageId.of(data) == MessageId(-1, -1)


@given(st.builds(MessageId, NUMBERS, NUMBERS, NUMBERS, NUMBERS))
def test_round_trips(value):
    assert MessageId.of(value.proto()) == value
    assert MessageId.parse(str(value)) == value


def test_order_is_the_brokers():
    assert sorted([MessageId(2, 0), MessageId(1, 9), MessageId(1, 10)]) == [
        MessageId(1, 9),
        MessageId(1, 10),
        MessageId(2, 0),
    ]


# java.util.BitSet: bits {0, 1, 65} are the words 3 and 2; all of 64 bits are the word -1.
def test_bit_sets_are_javas():
    assert push_ack_set([0, 1, 65]) == [3, 2]
    assert push_ack_set(range(64)) == [-1]
    assert push_ack_set([]) == []
    assert pull_ack_set([3, 2], 70) == [0, 1, 65]
    assert pull_ack_set([-1], 10) == list(range(10))


def test_a_bit_set_larger_than_the_batch_costs_nothing():
    assert pull_ack_set(iter([1] * 10**6), 3) == [0]


@given(st.sets(st.integers(0, 300)))
def test_bit_sets_round_trip(indexes):
    words = push_ack_set(indexes)
    assert pull_ack_set(words, 301) == sorted(indexes)
    assert pb.CommandMessage(consumer_id=1, ack_set=words).ack_set == words


def test_signed():
    assert (signed(2**64 - 1), signed(2**63 - 1), signed(0)) == (-1, 2**63 - 1, 0)
