"""Texts of rows, compared with slices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pcli.spark.columnar.string_arrays import names_of, texts_of


@given(st.data())
def test_texts_and_names(sliced, data):
    places = data.draw(sliced.places)
    texts = [None if one is None else one.decode(errors="replace") for one in sliced.wanted(places)]
    assert sliced.run(texts_of, places).to_pylist() == texts
    names = sliced.run(names_of, places)
    assert names.to_pylist() == texts
    assert len(names.dictionary) == len(set(texts) - {None})
