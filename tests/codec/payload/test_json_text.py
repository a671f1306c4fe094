from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.json_text import parse_json
from pcli.codec.wire.problems import Problem

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(values)
def test_valid_json(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


def test_non_finite_numbers_are_strings() -> None:
    assert parse_json(b"[NaN, -Infinity, 1e999, -1e999]") == ["NaN", "-Infinity", "Infinity", "-Infinity"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "Expecting value at character 0"),
        (b'{"a" 1}', "at character 5"),
        (b"\xff\xfe\xfd", "invalid character"),
        (b"9" * 100_000, "invalid character or number"),
        (b"[" * 1_000_000, "too deep"),
        (b'{"a":' * 100_000, "too deep"),
        (b'["\\ud800"]', "half of a surrogate pair"),
    ],
)
def test_problems(data: bytes, said: str) -> None:
    problem = parse_json(data)
    assert isinstance(problem, Problem)
    assert problem.kind == "schema"
    assert said in problem.detail
    assert len(problem.detail) < 200


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert parse_json(b'"\\ud83d\\ude00"') == "\U0001f600"


@given(st.binary(max_size=50) | st.text(alphabet='[]{}",:0123456789.eE+-\\u trfaNI', max_size=60).map(str.encode))
def test_any_text_gives_a_json_value_or_a_problem(data: bytes) -> None:
    value = parse_json(data)
    if not isinstance(value, Problem):
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


def test_deep_nesting_is_a_problem(peak: Callable[[Callable[[], object]], int]) -> None:
    data = b"[" * 1_000_000
    assert peak(lambda: parse_json(data)) < 5_000_000
