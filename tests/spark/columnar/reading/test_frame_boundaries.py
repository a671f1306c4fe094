"""The loop over lengths, and the check of the frames."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture.command_start_patterns import PATTERNS, TAGS
from pcli.spark.columnar.reading.frame_boundaries import may_begin, missing, plausible, unusual, unusual_open, walk


def frame(size, command=None, head=b"\x08\x02"):
    """Return a frame of ``size`` bytes, including its prefix."""
    body = struct.pack(">II", size - 4, max(0, size - 8) if command is None else command) + head
    return body.ljust(size, b"\0")[:size]


def slowly(data, start, end):
    places = []
    while start + 4 <= end and start + 4 + int.from_bytes(data[start : start + 4], "big") <= end:
        places.append(start)
        start += 4 + int.from_bytes(data[start : start + 4], "big")
    return places, start


@given(
    st.lists(st.one_of(st.integers(8, 40).map(frame), st.binary(max_size=9))), st.integers(0, 20), st.integers(0, 20)
)
def test_the_loop_follows_the_lengths(parts, before, behind):
    data = bytearray(bytes(before) + b"".join(parts) + bytes(behind))
    places: list[int] = []
    opened = walk(data, before, len(data) - behind, places)
    assert (places, opened) == slowly(data, before, len(data) - behind)
    data.append(0)  # no memory view of the pool exists


@pytest.mark.parametrize(
    ("one", "marked"),
    [
        (frame(30), False),
        (frame(10), False),
        (frame(100), False),
        (frame(101), True),
        (frame(30, command=23), True),
        (frame(30, command=1), True),
        (frame(30, head=b"\x10\x02"), True),
        (frame(30, head=b"\x08\x80"), True),
        (frame(30, head=b"\x08\x7f"), False),
        (frame(30, head=b"\x08\x03"), True),
        (frame(4), True),
        (frame(9), True),
    ],
)
def test_unusual_frames(one, marked):
    pool = bytearray(frame(20) + one + bytes(2))
    found = unusual(pool, np.array([0, 20]), np.array([20, len(one)]), np.array([100, 100]))
    assert found.tolist() == [False, marked]
    short = bytearray(one)
    assert unusual(short, np.array([0]), np.array([len(one)]), np.array([100])).tolist() == [marked]


def test_open_frames():
    assert not unusual_open(bytearray(frame(50)[:20]), 0, 20, 50)
    assert unusual_open(bytearray(frame(50)[:20]), 0, 20, 49)
    assert unusual_open(bytearray(frame(50, command=43)[:8]), 0, 8, 50)
    assert not unusual_open(bytearray(frame(50, command=43)[:7]), 0, 7, 50)
    whole = bytearray(b"xx" + frame(50))
    assert [missing(whole, 2, end, 8) for end in (3, 9, 10, 51)] == [7, 1, 42, 1]
    assert [missing(whole, 2, end, 12) for end in (3, 9, 10, 13, 14)] == [7, 1, 4, 1, 38]


HEADS = [struct.pack(">II", 30, 20) + bytes([8, number]) + tag.ljust(2, b"\1") for number, tag in TAGS.items()]


@given(st.lists(st.one_of(st.sampled_from(HEADS), st.binary(min_size=12, max_size=12)), min_size=1), st.data())
def test_plausible_frames_are_those_of_the_search(heads, data):
    pool = bytearray(b"".join(heads))
    for _ in range(data.draw(st.integers(0, 5))):
        pool[data.draw(st.integers(0, len(pool) - 1))] = data.draw(st.integers(0, 255))
    starts = np.arange(len(heads)) * 12
    told = [PATTERNS[None].match(pool, start) is not None for start in starts.tolist()]
    assert plausible(pool, starts).tolist() == told
    assert [may_begin(pool, start, start + 12) for start in starts.tolist()] == told
    assert may_begin(pool, 0, 11)
