"""Positions of frames from the object path."""

from __future__ import annotations

import numpy as np

from pcli.codec.capture import CapturedFrame, Stream
from pcli.codec.wire.hot import push_flow
from pcli.codec.wire.problems import Problem
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.frame_columns import ANCHORED, RESYNC, START

STREAM = Stream(4, ("10.0.0.1", 40000), ("10.0.0.2", 6650), midstream=False)
CUT = Problem("cut", "some")


def frames() -> list[CapturedFrame]:
    data = push_flow(1, 1000)
    return [
        CapturedFrame(data, 11, 1, 7, 70, STREAM, True, 0, "start"),
        CapturedFrame(data[:9], 11, 2, 9, 90, STREAM, False, 5, "anchored", (CUT,), (3, 9)),
        CapturedFrame(data, 11, 3, 8, 80, STREAM, True, 30, "resync"),
    ]


def test_all_values_come_from_the_objects():
    made = frames()
    places = places_of(made)
    for row, frame in enumerate(made):
        start, kept = places.start[row], places.kept[row]
        assert places.data[start : start + kept].tobytes() == frame.data
    assert places.packet.tolist() == [7, 9, 8]
    assert places.first_packet.tolist() == [7, 3, 8]
    assert places.time_ns.tolist() == [70, 90, 80]
    assert places.stream.tolist() == [4, 4, 4]
    assert places.from_client.tolist() == [True, False, True]
    assert places.offset.tolist() == [0, 5, 30]
    assert places.sync.tolist() == [START, ANCHORED, RESYNC]
    assert places.trouble == {1: (CUT,)}


def test_turns_never_decrease():
    assert places_of(frames()).turn.tolist() == [7, 9, 9]


def test_no_frames():
    places = places_of([])
    assert len(places) == 0
    assert places.data.dtype == np.uint8
