"""Message ids as text, as values and on the wire."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.wire.message_id import MessageId, signed

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
def test_parse_and_format(text, value):
    assert MessageId.parse(text) == value
    assert str(value) == text


@pytest.mark.parametrize("text", ["", "7", "7:", "a:b", "1:2:3:4:5", "7 0"])
def test_invalid_ids(text):
    with pytest.raises(LocalError, match="is not a message id"):
        MessageId.parse(text)


def test_minus_one_is_the_largest_unsigned_number_on_the_wire():
    data = MessageId(-1, -1).proto()
    assert data.ledgerId == data.entryId == 2**64 - 1
    assert not data.HasField("partition")
    assert MessageId.of(data) == MessageId(-1, -1)


@given(st.builds(MessageId, NUMBERS, NUMBERS, NUMBERS, NUMBERS))
def test_round_trips(value):
    assert MessageId.of(value.proto()) == value
    assert MessageId.parse(str(value)) == value


def test_order_equals_the_clients():
    ordered = [
        MessageId(1, 9, 0, 3),
        MessageId(1, 9, 1, 0),
        MessageId(1, 9, 1, 2),
        MessageId(1, 10, -1, -1),
        MessageId(2, 0, -1, -1),
    ]
    assert all(one < other for one, other in pairwise(ordered))


# MessageIdData has uint64 and int32; Java reads them as long and int.
@pytest.mark.parametrize(
    "text",
    [f"{2**63}:0", f"0:{-(2**63) - 1}", f"1:2:{2**31}", f"1:2:3:{-(2**31) - 1}", "9" * 5000 + ":1", "٣:1", "²:1"],
)
def test_numbers_out_of_range(text):
    with pytest.raises(LocalError, match="is not a message id"):
        MessageId.parse(text)


def test_the_largest_numbers():
    value = MessageId(2**63 - 1, -(2**63), 2**31 - 1, -(2**31))
    assert MessageId.parse(str(value)) == value
    assert MessageId.of(value.proto()) == value


def test_an_unset_partition_is_omitted():
    with pytest.raises(LocalError, match="32 bits"):
        MessageId(1, 2, 2**31).proto()


def test_signed():
    assert (signed(2**64 - 1), signed(2**63 - 1), signed(0)) == (-1, 2**63 - 1, 0)
    assert signed(-1) == -1  # a signed number is unchanged
