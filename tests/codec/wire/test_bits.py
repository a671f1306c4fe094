"""Bit sets as java.util.BitSet writes them."""

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.wire.bits import left_of, ones, set_of, words_of


def test_words_equal_javas():
    assert words_of(ones(64)) == [-1]  # BitSet.toLongArray of 64 bits
    assert words_of(1 << 63) == [-(1 << 63)]
    assert words_of(1 << 64 | 5) == [5, 1]
    assert words_of(0) == []
    assert set_of([0b0110, 0, 0]) == 6


@given(st.integers(0, 2**300))
def test_words_round_trip(value):
    words = words_of(value)
    assert set_of(words) == value
    assert all(-(1 << 63) <= word < 1 << 63 for word in words)
    assert not words or words[-1]


@given(st.sets(st.integers(0, 200)), st.integers(0, 250))
def test_unacknowledged_messages_of_a_batch(places, messages):
    assert left_of(sum(1 << place for place in places), messages) == sum(place < messages for place in places)


def test_a_huge_batch_size_takes_no_memory():
    assert left_of(0b101, 2**31 - 1) == 2
