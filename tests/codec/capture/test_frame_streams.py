"""The connections of frames, and the frames of a connection up to its last wanted frame."""

from __future__ import annotations

from pcli.codec.capture import frame_streams
from pcli.codec.capture.frame_streams import FrameStreams


def test_frames_of_a_connection_up_to_the_last_wanted_frame():
    streams = FrameStreams()
    for number, stream in ((1, 0), (3, 7), (4, 0), (8, 7)):
        streams.begin(number, stream)
    found = {stream: list(numbers) for stream, numbers in streams.numbers_until({5, 9}).items()}
    assert found == {0: [1, 2, 4, 5], 7: [3, 8, 9]}
    assert {stream: list(numbers) for stream, numbers in streams.numbers_until([2]).items()} == {0: [1, 2]}
    assert streams.numbers_until([]) == {}


def test_more_runs_than_are_kept(monkeypatch):
    monkeypatch.setattr(frame_streams, "MAX_RUNS", 2)
    streams = FrameStreams()
    for number in range(1, 4):
        assert streams.complete
        streams.begin(number, number)
    assert not streams.complete
