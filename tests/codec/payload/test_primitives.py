"""Primitive types: bytes from the Java client's schemas, and Python's calendar within its range."""

from __future__ import annotations

import datetime
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.primitives import PRIMITIVES, date_text, decode_primitive, moment_text, number
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

EPOCH = datetime.date(1970, 1, 1)


def test_values_of_the_java_client(java: dict[str, Any]) -> None:
    kinds = set()
    for kind, data, value in java["primitives"]:
        assert decode_primitive(pb.Schema.Type.Value(kind), bytes.fromhex(data)) == value, (kind, data)
        kinds.add(pb.Schema.Type.Value(kind))
    assert kinds == set(PRIMITIVES) - {0}, "a kind without a vector"


def test_no_schema_is_bytes() -> None:
    assert decode_primitive(0, b"\x00\xff") == "00ff"


@given(st.dates())
def test_dates_equal_pythons(day: datetime.date) -> None:
    assert date_text((day - EPOCH).days) == day.isoformat()


@given(st.datetimes())
def test_times_equal_pythons(moment: datetime.datetime) -> None:
    micros = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert moment_text(micros, 6) == moment.isoformat(timespec="microseconds") + "Z"


@given(st.integers(-(10**15), 10**15), st.integers(-10, 10))
def test_the_calendar_repeats_every_four_hundred_years(day: int, times: int) -> None:
    later = date_text(day + times * 146_097)
    assert later[-6:] == date_text(day)[-6:]
    assert int(later[:-6]) == int(date_text(day)[:-6]) + 400 * times


@pytest.mark.parametrize("kind", sorted(PRIMITIVES))
@given(data=st.binary(max_size=20))
def test_any_bytes_give_a_json_value_or_a_problem(kind: int, data: bytes) -> None:
    value = decode_primitive(kind, data)
    size = PRIMITIVES[kind][0]
    if size is not None and len(data) != size:
        assert isinstance(value, Problem)
        assert f"{size} bytes, not {len(data)}" in value.detail
    if not isinstance(value, Problem):
        json.dumps(value, allow_nan=False)


def test_a_text_with_invalid_utf8() -> None:
    assert decode_primitive(pb.Schema.String, b"ab\xff") == Problem("schema", "not UTF-8 at byte 2 of 3")


@pytest.mark.parametrize("nanos", [-1, 86_400 * 10**9])
def test_an_invalid_time_of_day(nanos: int) -> None:
    assert decode_primitive(pb.Schema.LocalTime, struct.pack(">q", nanos)) == Problem(
        "schema", f"{nanos} ns are not a time of day"
    )


def test_numbers_that_json_lacks() -> None:
    assert [number(float(word)) for word in ("nan", "inf", "-inf", "1.5")] == ["NaN", "Infinity", "-Infinity", 1.5]
