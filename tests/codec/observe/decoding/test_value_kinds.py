"""The raw and the display form of values."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.observe.decoding.value_kinds import KINDS, converters, kind_of, nine_decimals, shown
from pcli.codec.proto import pb


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0.000000000"),
        (1, "0.000000001"),
        (-1, "-0.000000001"),
        (1763726400123000000, "1763726400.123000000"),
        (-1_500_000_000, "-1.500000000"),
    ],
)
def test_nine_decimals(nanoseconds, text):
    assert nine_decimals(nanoseconds) == text


@given(st.integers(-(2**80), 2**80))
def test_nine_decimals_are_exact(nanoseconds):
    text = nine_decimals(nanoseconds)
    assert int(text.replace(".", "")) == nanoseconds
    assert len(text.partition(".")[2]) == 9


def test_every_kind_of_the_protocol_is_described():
    for name, message in pb.DESCRIPTOR.message_types_by_name.items():
        for field in message.fields:
            assert kind_of(field) in KINDS, (name, field.name)


def test_milliseconds_since_1970_are_times():
    """All fields that the protocol names as a time in ms and not as a duration."""
    times = {
        f"{message.name}.{field.name}"
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
        if kind_of(field) == "time"
    }
    words = ("publish_time", "event_time", "deliver_at_time", "broker_timestamp", "_at_ms")
    named = {
        f"{message.name}.{field.name}"
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
        if field.name.endswith(words)
    }
    assert times == named


@pytest.mark.parametrize(
    ("message", "field", "wire", "value"),
    [
        ("CommandFlow", "messagePermits", 2**32 - 1, 2**32 - 1),
        ("CommandFlow", "messagePermits", 2**64 - 1, 2**32 - 1),
        ("CommandFlow", "consumer_id", 2**64 - 1, -1),
        ("CommandFlow", "consumer_id", 2**64 - 2, 2**64 - 2),
        ("MessageIdData", "partition", 2**64 - 1, -1),
        ("MessageIdData", "partition", 2**31, -(2**31)),
        ("MessageIdData", "ack_set", 2**64 - 1, -1),
        ("CommandSubscribe", "durable", 2, True),
        ("CommandSubscribe", "subType", 3, "Key_Shared"),
        ("CommandSubscribe", "subType", 4, "UNKNOWN_4"),
        ("MessageMetadata", "publish_time", 5, 5_000_000),
        ("MessageMetadata", "publish_time", 2**64 - 1, -1_000_000),
    ],
)
def test_varints(message, field, wire, value):
    descriptor = pb.DESCRIPTOR.message_types_by_name[message].fields_by_name[field]
    ((wire_type, converter),) = converters(descriptor)
    assert wire_type == 0
    assert converter(wire) == value


def test_display_forms():
    assert shown("bytes")(b"\x00\xff") == "00ff"
    assert shown("text") is None
    assert shown("number")(float("nan")) == "NaN"
    assert shown("number")(2**64 - 1) == 2**64 - 1
    assert Decimal(shown("time")(1_000_000_001)) == Decimal("1.000000001")
