"""Text from a peer cannot control a terminal or break a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.observe.text_format import printable


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain Grüße 日本", "plain Grüße 日本"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("line\r\nbreak", "line\\r\\nbreak"),
        ("right\u202eleft", "right\\u202eleft"),
        (5, "5"),
        (b"\xff", "b'\\xff'"),
    ],
)
def test_examples(value, text):
    assert printable(value) == text


@given(st.text())
def test_any_text_becomes_one_printable_line(text):
    assert printable(text).isprintable()
