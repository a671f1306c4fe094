"""Quantiles compared with exact ones; names compared with a dictionary."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.spark.report.histograms import OTHERS, Histograms, Keys

DURATIONS = st.lists(st.integers(1, 10**14), min_size=1, max_size=200)


@given(DURATIONS, st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_within_an_eighth_of_an_octave(durations: list[int], share: float) -> None:
    keys = Keys()
    found = Histograms(keys)
    numbers = keys.numbers(pa.array(["t"] * len(durations)))
    for half in (slice(0, 7), slice(7, None)):  # in two batches
        found.add(numbers[half], np.array(durations[half], np.int64))
    exact = sorted(durations)[max(0, int(np.ceil(share * len(durations))) - 1)]
    assert found.quantile_ns(0, share) == pytest.approx(exact, rel=0.1)
    assert found.longest_ns(0) == max(durations)
    assert found.count(0) == len(durations)


def test_durations_of_zero_count() -> None:
    keys = Keys()
    found = Histograms(keys)
    found.add(keys.numbers(pa.array(["t", "t"])), np.array([0, -5], np.int64))
    assert found.count(0) == 2


def test_a_curve_ends_at_all() -> None:
    keys = Keys()
    found = Histograms(keys)
    found.add(keys.numbers(pa.array(["t"] * 3)), np.array([1_000_000, 2_000_000, 64_000_000], np.int64))
    x, y = found.curve(0)
    assert y[-1] == 100
    assert x[0] >= 1
    assert x[-1] >= 64
    assert x == sorted(x)
    assert y == sorted(y)


@given(st.lists(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y", "z"])), min_size=1)))
def test_names_have_one_number_over_all_batches(batches: list[list[tuple[str | None, str]]]) -> None:
    keys = Keys()
    for batch in batches:
        numbers = keys.numbers(pa.array([one for one, _ in batch], pa.string()), pa.array([two for _, two in batch]))
        assert [keys.names[number] for number in numbers] == [(one or "", two) for one, two in batch]
    assert len(set(keys.names)) == len(keys.names)


def test_too_many_names_are_counted_together() -> None:
    keys = Keys(most=2)
    numbers = keys.numbers(pa.array(["a", "b", "c", "d", "a"]))
    assert [keys.names[number] for number in numbers] == [("a",), ("b",), OTHERS, OTHERS, ("a",)]
