"""Frames processed together and one by one, in order."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from pcli.codec.capture import CapturedFrame, Note
from pcli.codec.capture.frames import Stream
from pcli.spark.columnar.reading.window_frames import WindowFrames

STREAMS = [Stream(number, ("a", 1), ("b", 2), midstream=False) for number in range(3)]


def frame(packet, data, stream=2, problems=()):
    return CapturedFrame(data, 6, 1, packet, 900 + packet, STREAMS[stream], True, 55, "anchored", problems, (1, packet))


def given(found, turn, *items):
    """Add frames as if the object path had returned them at a packet."""
    tcp = SimpleNamespace(table=SimpleNamespace(count=0), output=SimpleNamespace(out=list(items)))
    found.collect(tcp, turn, 0)
    assert tcp.output.out == []


def together(found, turns, stream, client, data):
    """Return a row of frames of two bytes each that end in these packets."""
    start = len(found.pool) + np.arange(len(turns)) * 2
    found.add([memoryview(data)])
    direction = SimpleNamespace(stream=STREAMS[stream], from_client=client, sync="start")
    packets = np.array(turns)
    columns = [start, np.full(len(turns), 2), packets, packets - 1, start * 10, np.zeros(len(turns), np.int64)]
    found.put([direction], columns)


def test_frames_are_in_order_of_turns_and_single_ones_first():
    found = WindowFrames(np.arange(100, 110), base=10)
    together(found, [11, 11, 15], 0, True, b"aabbcc")
    given(found, 11, Note("gap", "first"), frame(4, b"alone"), Note("gap", "second"))
    together(found, [10, 13, 15], 1, False, b"ddeeff")
    given(found, 14, frame(14, b"late", problems=("a hole",)))
    given(found, 19, Note("gap", "third"))
    places, notes = found.places()
    data = places.data.tobytes()
    frame_bytes = [
        data[start : start + kept] for start, kept in zip(places.start.tolist(), places.kept.tolist(), strict=True)
    ]
    assert frame_bytes == [b"dd", b"alone", b"aa", b"bb", b"ee", b"late", b"cc", b"ff"]
    assert places.turn.tolist() == [10, 11, 11, 11, 13, 14, 15, 15]
    assert places.packet.tolist() == [10, 4, 11, 11, 13, 14, 15, 15]
    assert places.first_packet.tolist() == [9, 1, 10, 10, 12, 1, 14, 14]
    assert places.time_ns.tolist() == [100, 904, 101, 101, 103, 914, 105, 105]
    assert places.stream.tolist() == [1, 2, 0, 0, 1, 2, 0, 1]
    assert places.from_client.tolist() == [False, True, True, True, False, True, True, False]
    assert places.sync.tolist() == [0, 1, 0, 0, 0, 1, 0, 0]
    assert places.offset.tolist()[1] == 55
    assert places.trouble == {5: ("a hole",)}
    assert [(row, note.text) for row, note in notes] == [(1, "first"), (2, "second"), (8, "third")]
    assert found.note_turns() == [11, 11, 19]


def test_more_packets_than_short_numbers_count():
    found = WindowFrames(np.arange(200_000), base=1)
    together(found, [150_000, 199_000], 0, True, b"aabb")
    together(found, [5, 170_000], 1, True, b"ccdd")
    assert found.places()[0].turn.tolist() == [5, 150_000, 170_000, 199_000]


def test_nothing_and_only_single_frames():
    places, notes = WindowFrames().places()
    assert (len(places), notes) == (0, [])
    found = WindowFrames()
    given(found, 3, frame(2, b"one"), frame(3, b"two"))
    assert found.places()[0].time_ns.tolist() == [902, 903]
