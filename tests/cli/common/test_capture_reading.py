"""A further pass over captures that reads only some frames."""

from __future__ import annotations

import pytest

from pcli.cli.common.capture_reading import CaptureReading
from pcli.codec.capture import frame_streams
from pcli.codec.observe.output.frame_summary import describe

FILES = ("python/10-shared-redelivery.pcap", "python/01-exclusive-unbatched.pcapng", "go/compressions.pcapng")


def described(facts):
    frame = facts.frame
    return frame.number, frame.packet, frame.stream.number, facts.request_number, describe(facts)


@pytest.mark.parametrize("runs", [frame_streams.MAX_RUNS, 10])
def test_some_frames_again(small_captures, monkeypatch, runs):
    """The frames have the facts of the first pass, also if the connections of later frames are unknown."""
    monkeypatch.setattr(frame_streams, "MAX_RUNS", runs)
    reading = CaptureReading([str(small_captures / name) for name in FILES], system=True, rewindable=True)
    first = [described(facts) for facts in reading.facts()]
    for wanted in ({1}, {2, 40, len(first)}, set(range(5, len(first), 7)), set()):
        assert [described(facts) for facts in reading.facts_of(wanted)] == [first[one - 1] for one in sorted(wanted)]
    reading.finish()
