"""The packets that contain given bytes of a run."""

from __future__ import annotations

import pytest

from pcli.codec.capture.flows import Connection
from pcli.codec.capture.frames import Stream
from pcli.codec.capture.output import Output, carriers_of, trim


@pytest.fixture
def direction():
    stream = Stream(0, ("1.1.1.1", 1), ("2.2.2.2", 2), midstream=False)
    direction = Connection(stream, 1000, (b"", b""), first_is_client=True).there
    direction.run += b"aaabbbbccccc"
    direction.marks = [(0, 10, 100), (3, 11, 110), (7, 12, 120)]
    return direction


@pytest.mark.parametrize(
    ("start", "end", "packets"),
    [(0, 3, [10]), (0, 4, [10, 11]), (3, 7, [11]), (2, 12, [10, 11, 12]), (7, 8, [12]), (6, 8, [11, 12])],
)
def test_carriers(direction, start, end, packets):
    assert carriers_of(direction, 0, start, end)[1] == packets


@pytest.mark.parametrize(
    ("count", "marks"),
    [
        (0, [(0, 10, 100), (3, 11, 110), (7, 12, 120)]),
        (2, [(0, 10, 100), (1, 11, 110), (5, 12, 120)]),
        (3, [(0, 11, 110), (4, 12, 120)]),
        (11, [(0, 12, 120)]),
        (12, []),
    ],
)
def test_trimming_keeps_the_marks_of_the_remaining_bytes(direction, count, marks):
    trim(direction, count)
    assert direction.marks == marks
    assert direction.run == b"aaabbbbccccc"[count:]


def test_fragments_are_stored_in_bounded_memory():
    output = Output()
    for packet in range(5000):
        output.remember_fragments(packet, (packet, packet + 1))
    assert len(output.fragments) <= 1024
    assert output.fragments[4999] == (4999, 5000)
