"""Readings that process only some frames have the results of those that process all frames."""

from __future__ import annotations

import pytest

from pcli.cli.common.capture_reading import CaptureReading
from pcli.codec.capture import frame_streams
from pcli.codec.observe import observer
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


FILTERS = (
    "pulsar.type == 'SUBSCRIBE' or pulsar.message.redelivery_count > 0",
    "pulsar.type in {CLOSE_PRODUCER CLOSE_CONSUMER SUCCESS}",
    "pulsar.latency > 0",
    "pulsar.type == 'SEND_RECEIPT' and pulsar.latency > 0.001",
    "pulsar.ackResponse",
    "pulsar.topic contains s and not pulsar.send",
)


@pytest.mark.parametrize("filter_", FILTERS)
def test_frames_that_cannot_match_change_no_other_frame(small_captures, monkeypatch, filter_):
    def results():
        found = []
        for path in sorted(small_captures.glob("*/*.pcap*")):
            reading = CaptureReading([str(path)], filter=filter_, system=True)
            lines = [(*described(facts), facts.latency_ns, facts.system) for facts in reading.facts()]
            unanswered = [request.number for request in reading.unanswered()]
            repeated = [record.stream for record in reading.connections.repeated()]
            found.append((lines, unanswered, repeated, reading.first_ns))
        return found

    with_skipped = results()
    assert any(lines for lines, *_ in with_skipped)
    monkeypatch.setattr(observer, "unneeded_types", lambda _: frozenset())
    assert with_skipped == results()
