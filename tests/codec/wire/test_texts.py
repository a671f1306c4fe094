from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.wire.texts import as_text


@given(st.text())
def test_a_text_is_unchanged(text: str) -> None:
    assert as_text(text) == text


@given(st.binary())
def test_invalid_utf8_becomes_encodable_text(data: bytes) -> None:
    as_text(data).encode()


def test_invalid_bytes_are_escaped() -> None:
    assert as_text(b"a\xffb") == "a\\xffb"
