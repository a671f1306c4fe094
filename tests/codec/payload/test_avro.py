"""Avro values compared with fastavro; test_schemas.py has values from the Java client."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.avro import AvroType, decode_avro, parse_avro
from pcli.codec.wire.problems import Problem

PLAIN = {
    "type": "record",
    "name": "All",
    "namespace": "a.b",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "half", "type": "float"},
        {"name": "whole", "type": "double"},
        {"name": "text", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}},
        {"name": "again", "type": "a.b.Suit"},
        {"name": "list", "type": {"type": "array", "items": ["null", "long", "Suit"]}},
        {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {"name": "next", "type": ["null", "All"]},
    ],
}

suits = st.sampled_from(["HEARTS", "SPADES"])
plain_values = st.recursive(
    st.none(),
    lambda inner: st.fixed_dictionaries(
        {
            "nothing": st.none(),
            "flag": st.booleans(),
            "small": st.integers(-(2**31), 2**31 - 1),
            "large": st.integers(-(2**63), 2**63 - 1),
            "half": st.floats(width=32, allow_nan=False, allow_infinity=False),
            "whole": st.floats(allow_nan=False, allow_infinity=False),
            "text": st.text(),
            "suit": suits,
            "again": suits,
            "list": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5),
            "map": st.dictionaries(st.text(), st.lists(st.text(), max_size=3), max_size=3),
            "next": inner,
        }
    ),
    max_leaves=4,
).filter(bool)


def schema(declared: Any) -> AvroType:
    parsed = parse_avro(json.dumps(declared).encode())
    assert isinstance(parsed, AvroType), parsed
    return parsed


def written(declared: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(declared), value)
    return out.getvalue()


@given(plain_values)
def test_what_fastavro_writes(value: dict[str, Any]) -> None:
    assert decode_avro(schema(PLAIN), written(PLAIN, value)) == value


UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, UTC)


@pytest.mark.parametrize(
    ("declared", "value", "shown"),
    [
        ({"type": "int", "logicalType": "date"}, MOMENT.date(), "2024-02-29"),
        ({"type": "int", "logicalType": "time-millis"}, datetime.time(1, 2, 3, 4000), "01:02:03.004"),
        ({"type": "long", "logicalType": "time-micros"}, datetime.time(1, 2, 3, 4), "01:02:03.000004"),
        ({"type": "long", "logicalType": "timestamp-millis"}, MOMENT, "2024-02-29T12:34:56.789Z"),
        ({"type": "long", "logicalType": "timestamp-micros"}, MOMENT, "2024-02-29T12:34:56.789012Z"),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            MOMENT.replace(tzinfo=None),
            "2024-02-29T12:34:56.789",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            decimal.Decimal("-1234.50"),
            "-1234.50",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4}, decimal.Decimal("0.0007"), "0.0007"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, decimal.Decimal(-70), "-70"),
        ({"type": "bytes"}, b"\x00\xff", "00ff"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc", "616263"),
        ({"type": "long", "logicalType": "a word of ours"}, 5, 5),
        ("double", float("nan"), "NaN"),
        ("float", float("inf"), "Infinity"),
    ],
)
def test_values_without_a_json_form(declared: Any, value: Any, shown: object) -> None:
    assert decode_avro(schema(declared), written(declared, value)) == shown


def test_blocks_with_their_size() -> None:
    # Specification, "Arrays": a negative count is followed by the size of the block in bytes, so that readers may skip.
    assert decode_avro(schema({"type": "array", "items": "long"}), bytes([3, 4, 6, 54, 2, 2, 0])) == [3, 27, 1]


@pytest.mark.parametrize(
    ("declared", "data", "said"),
    [
        ("long", b"\x80", "the bytes end"),
        ("long", b"\xff" * 11, "more than ten bytes"),
        ("long", b"\x02\x02", "the value ends at byte 1 of 2"),
        ("string", b"\x0aab", "5 bytes are required, but only 2 are left"),
        ("string", b"\x01", "-1 bytes are required"),
        ("string", b"\x02\xff", "not UTF-8"),
        (["null", "int"], b"\x04", "branch 2 of a union of 2"),
        (["null", "int"], b"\x01", "branch -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "symbol 1 of an enum of 1"),
        ({"type": "fixed", "name": "F", "size": 2**60}, b"ab", "bytes are required"),
        ("float", b"\x00", "4 bytes are required"),
    ],
)
def test_problems_of_values(declared: Any, data: bytes, said: str) -> None:
    problem = decode_avro(schema(declared), data)
    assert isinstance(problem, Problem)
    assert problem.kind == "schema"
    assert said in problem.detail


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "not JSON"),
        ("5", "a type must be a name"),
        ('"unknown"', "'unknown' is not declared"),
        ('{"type": "record", "fields": []}', "without a name"),
        ('{"type": "record", "name": "R"}', "lists"),
        ('{"type": "record", "name": "R", "fields": [5]}', "a field must be an object"),
        ('{"type": "record", "name": "R", "fields": [{"name": "f"}]}', "a type must be a name"),
        ('{"type": "fixed", "name": "F", "size": -1}', "a size must be a number"),
        ('{"type": "array"}', "a type must be a name"),
        ("[" * 300 + '"int"' + "]" * 300, "more than 100 nested types"),
        ('{"type":' * 300 + '"int"' + "}" * 300, "more than 100 nested types"),
    ],
)
def test_problems_of_schemas(text: str, said: str) -> None:
    problem = parse_avro(text.encode())
    assert isinstance(problem, Problem)
    assert said in problem.detail


EMPTY = {"type": "record", "name": "Empty", "fields": []}
BOMBS = {
    "2**60 nulls": ({"type": "array", "items": "null"}, b"\x80" * 8 + b"\x20"),
    "2**60 empty records": ({"type": "array", "items": EMPTY}, b"\x80" * 8 + b"\x20"),
    "many blocks of nulls": ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f" * 1000),
    "a record of itself": ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b""),
    "a long list of records": (
        {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]},
        b"\x02" * 3_000_000,
    ),
    "doubling": (
        {
            "type": "record",
            "name": "R0",
            "fields": [{"name": name, "type": {"type": "array", "items": "null"}} for name in "ab"],
        },
        b"\xfe\xff\xff\xff\x0f\x00" * 2,
    ),
}


def doubling(times: int) -> Any:
    """Sixty records, each with two fields of the previous type: 2**60 values in no bytes."""
    fields: list[Any] = [{"name": "r0", "type": EMPTY}]
    before = "Empty"
    for number in range(times):
        pair = [{"name": name, "type": before} for name in "ab"]
        fields.append({"name": f"r{number + 1}", "type": {"type": "record", "name": f"R{number}", "fields": pair}})
        before = f"R{number}"
    return {"type": "record", "name": "Top", "fields": fields}


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_decompression_bombs(name: str, peak: Callable[[Callable[[], object]], int]) -> None:
    declared, data = BOMBS[name]
    kind = schema(declared)
    found: list[object] = []
    assert peak(lambda: found.append(decode_avro(kind, data))) < 10_000_000
    assert isinstance(found[0], Problem)


def test_an_exponential_schema(peak: Callable[[Callable[[], object]], int]) -> None:
    kind = schema(doubling(60))
    assert peak(lambda: decode_avro(kind, b"")) < 10_000_000
    assert isinstance(decode_avro(kind, b""), Problem)
    assert not isinstance(decode_avro(schema(doubling(3)), b""), Problem)


@given(data=st.binary(max_size=200))
def test_any_bytes_give_a_json_value_or_a_problem(data: bytes) -> None:
    value = decode_avro(schema(PLAIN), data)
    if not isinstance(value, Problem):
        json.dumps(value, allow_nan=False)


declarations = st.recursive(
    st.sampled_from(["null", "int", "string", "record", "array", "x", 5, None, -1]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "items", "values", "fields", "name", "namespace", "symbols", "size", "scale"]),
            inner | st.sampled_from(["record", "enum", "fixed", "array", "map"]),
            max_size=5,
        )
    ),
)


@given(declarations, st.binary(max_size=20))
def test_any_json_gives_a_schema_or_a_problem(declared: Any, data: bytes) -> None:
    kind = parse_avro(json.dumps(declared).encode())
    if isinstance(kind, AvroType):
        decode_avro(kind, data)
