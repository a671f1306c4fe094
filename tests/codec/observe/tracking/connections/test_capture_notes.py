"""Notes of the capture reader between frames."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("from_client", "sender"), [(True, "client"), (False, "broker")])
def test_the_sender_and_the_size_in_the_note_of_an_oversized_frame(wire, from_client, sender):
    wire.hello()
    wire.note("length", 0, from_client=from_client, offset=60, length=5_488_920)
    assert wire.connection().oversize.sample == f"a {sender} frame of 5,488,920 bytes"


def test_doubts_from_notes(wire):
    wire.hello()
    assert wire.note("gap", 0, length=100) == 0
    assert wire.note("resync", 0) == 0
    assert wire.note("leftover", 0) == 0
    assert wire.note("gap", 7, length=1) == -1
    assert wire.note("file", None) == -1
    assert wire.connections.doubts_of(0) == {"gap", "weak_sync"}
    assert wire.connections.doubts_of(9) == set()
    capture = wire.capture
    assert (capture.gaps.count, capture.gap_bytes, capture.resyncs, capture.damaged) == (2, 101, 1, True)
    assert capture.packets == 50
