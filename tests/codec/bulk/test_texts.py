"""Texts of rows, against slices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.bulk.texts import names_of, texts_of

DATA = "abc, déf \N{EURO SIGN}".encode() + b"\xff\xfe" + bytes(range(64, 100))
PLACES = st.lists(st.one_of(st.just((-1, -1)), st.tuples(st.integers(0, len(DATA)), st.integers(0, 12))), max_size=20)


def wanted(places) -> list[bytes | None]:
    return [None if start < 0 else DATA[start : start + size] for start, size in places]


def run(function, places):
    starts = np.array([start for start, _ in places], np.int64)
    ends = np.array([min(start + size, len(DATA)) for start, size in places], np.int64)
    return function(np.frombuffer(DATA, np.uint8), starts, ends)


@given(PLACES)
def test_texts_and_names(places):
    texts = [None if one is None else one.decode(errors="replace") for one in wanted(places)]
    assert run(texts_of, places).to_pylist() == texts
    names = run(names_of, places)
    assert names.to_pylist() == texts
    assert len(names.dictionary) == len(set(texts) - {None})
