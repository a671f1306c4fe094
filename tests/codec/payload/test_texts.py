from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.payload.texts import as_text


@given(st.text())
def test_a_text_stays(text: str) -> None:
    assert as_text(text) == text


@given(st.binary())
def test_bytes_become_a_text_that_can_be_written(data: bytes) -> None:
    as_text(data).encode()


def test_wrong_bytes_are_shown() -> None:
    assert as_text(b"a\xffb") == "a\\xffb"
