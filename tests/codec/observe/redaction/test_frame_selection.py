"""The selection of frames around a frame."""

import pytest

from pcli.codec.capture import CapturedFrame, Stream
from pcli.codec.errors import LocalError
from pcli.codec.observe.bit_set import Bits
from pcli.codec.observe.redaction import select_around
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame

SECOND = 1_000_000_000
STREAMS = [Stream(number, ("10.0.0.1", 40_000 + number), ("10.0.0.2", 6650), midstream=False) for number in range(3)]


FLOW = pb.CommandFlow(consumer_id=1, messagePermits=1)


def frame(number, stream=0, body=FLOW):
    data = push_frame(body)
    return CapturedFrame(
        data, Frame.of(data).type, number, number, number * SECOND, STREAMS[stream], True, 0, "start"
    )  # fmt: skip


def capture():
    """Thirty frames, one per second, on the streams 0, 1, 2, 0, 1, 2, …."""
    return [frame(number, number % 3) for number in range(1, 31)]


def chosen(selection):
    return [one.number for one in capture() if one.stream.number in selection.streams and selection.takes(one)]


def test_a_window_in_frames():
    assert chosen(select_around(capture, 10, "3")) == [7, 8, 9, 10, 11, 12, 13]
    assert chosen(select_around(capture, 2, "3")) == [1, 2, 3, 4, 5]
    assert chosen(select_around(capture, 30, "1")) == [29, 30]


@pytest.mark.parametrize("window", ["2s", "2.0s", "2000ms"])
def test_a_window_in_time(window):
    assert chosen(select_around(capture, 10, window)) == [8, 9, 10, 11, 12]


def test_only_connections_with_frames_in_the_window():
    selection = select_around(capture, 10, "500ms")
    assert chosen(selection) == [10]
    assert [number in selection.streams for number in range(3)] == [False, True, False]


def test_only_given_connections():
    streams = Bits()
    streams.add(0)
    assert chosen(select_around(capture, 10, "3", streams)) == [9, 12]


def test_commands_that_identify_peers_precede_the_window():
    selection = select_around(capture, 10, "3")
    subscribe = pb.CommandSubscribe(topic="t", subscription="s", subType="Shared", consumer_id=1, request_id=1)
    assert selection.takes(frame(2, body=subscribe))
    assert not selection.takes(frame(2))
    assert not selection.takes(frame(29, body=subscribe))


@pytest.mark.parametrize("window", ["0", "x", "3k", "-1", "0s", "1 s", "", "9" * 30])
def test_an_invalid_window(window):
    with pytest.raises(LocalError, match="--window"):
        select_around(capture, 10, window)


def test_a_frame_that_does_not_exist():
    with pytest.raises(LocalError, match="the capture has 30 frames"):
        select_around(capture, 31, "3")
