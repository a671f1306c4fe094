"""The attributes of a captured frame besides its bytes."""

from __future__ import annotations

from pcli.codec.capture import CapturedFrame, Stream
from pcli.codec.wire import Frame


def test_a_captured_frame_is_a_frame(w):
    stream = Stream(3, ("1.2.3.4", 5), ("6.7.8.9", 6650), midstream=False)
    data = w.send(7, b"payload")
    frame = CapturedFrame(data, 6, 1, 2, 3, stream, True, 4, "start")
    assert isinstance(frame, Frame)
    assert frame.command == Frame.of(data).command
    assert frame.command.send.sequence_id == 7
    assert (frame.payload, frame.checksum, frame.problems) == (b"payload", "good", [])
    assert frame.packets == (2,)
    assert frame.capture_problems == ()
    assert not hasattr(frame, "__dict__")
