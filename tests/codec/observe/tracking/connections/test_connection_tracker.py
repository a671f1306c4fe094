"""Records of connections and of the capture itself."""

from __future__ import annotations

import io
from typing import Any

import pytest

from pcli.codec.capture import CapturedFrame, ReadOptions, StreamEnd, read_capture
from pcli.codec.observe import Observer
from pcli.codec.observe.tracking.connections import connection_tracker
from pcli.codec.observe.tracking.records.connection_records import CaptureRecord
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.hot import push_message
from pcli.codec.wire.problems import Problem

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)


def heard(data: bytes) -> tuple[connection_tracker.ConnectionTracker, CaptureRecord, list[Any]]:
    """Return a ConnectionTracker after a capture with its notes and ends."""
    capture, ends = CaptureRecord(), []
    links, observer = connection_tracker.ConnectionTracker(capture, on_end=lambda *end: ends.append(end)), Observer()
    for item in read_capture([("", io.BytesIO(data))], ReadOptions(ends=True)):
        if isinstance(item, CapturedFrame):
            links.see(observer.see(item))
        elif isinstance(item, StreamEnd):
            links.ended(item)
        else:
            links.note(item)
    links.finish(capture.last_ns)
    return links, capture, ends


def of(links, group):
    return [one for name, one in links.records() if name == group]


def test_frames_and_times(wire):
    wire.hello()
    wire.client(pb.CommandPing())
    record = wire.connection()
    assert (record.client_frames, record.broker_frames) == (2, 1)
    assert (record.first_frame, record.last_frame, record.first_ns, record.last_ns) == (1, 3, 1_000_000, 3_000_000)
    assert (wire.capture.frames, wire.capture.first_ns, wire.capture.last_ns) == (3, 1_000_000, 3_000_000)
    assert record.doubts == set()


def test_doubts_from_frames(wire):
    wire.hello()
    assert wire.connections.changed_streams == set()
    wire.note("snaplen", 3)
    wire.client(pb.CommandPing(), problems=(Problem("cut", "truncated from packets before this frame"),))
    assert wire.connections.changed_streams == {0}
    assert wire.connections.doubts_of(0) == {"cut"}
    assert wire.capture.cut


def test_a_frame_truncated_by_the_end_is_no_snap_length(wire):
    wire.hello()
    wire.client(pb.CommandPing(), problems=(Problem("cut", "the capture ends 3 bytes before the end of this frame"),))
    assert wire.connections.doubts_of(0) == set()
    assert wire.capture.unfinished == 1


def test_one_side_of_the_handshake(wire):
    wire.open(0, opening=(1,))
    wire.hello(answer=False)
    assert wire.connections.doubts_of(0) == {"one_way"}


def test_one_side_of_a_connection_that_began_before(wire):
    wire.open(0, midstream=True)
    for _ in range(20):
        wire.client(pb.CommandPing())
    wire.open(1, midstream=True)
    wire.client(pb.CommandPing(), on=1)
    wire.finish()
    assert wire.connections.doubts_of(0) == wire.connections.doubts_of(1) == {"start", "one_way", "end"}
    assert (wire.capture.one_way, wire.capture.midstream) == (1, 0)


def test_messages_without_names(wire, say):
    wire.open(0, midstream=True)
    wire.broker(push_message(1, 7, 0, -1, 0, push_entry(METADATA, b"payload")))
    assert wire.capture.midstream == 1
    wire.client(say("LookupTopic", topic="persistent://public/default/__change_events"))
    assert wire.capture.midstream == 0


def test_an_application_peer_makes_a_connection_the_applications(wire, say):
    wire.hello()
    wire.client(say("LookupTopic", topic="persistent://public/default/__change_events"))
    assert wire.connection().system
    wire.client(say("Producer", request_id=2))
    assert not wire.connection().system


def test_a_broker_that_restarts(corpus):
    links, _, ends = heard(corpus.data("python/26a-broker-restart"))
    (host,) = [one for one in of(links, "host") if one.refused.count]
    assert host.refused.count == 9
    assert {end[1] for end in ends} == {"fin_client", "fin_broker"}


def test_refused_logins(corpus):
    links, _, _ = heard(corpus.data("python/20-token-authentication"))
    (host,) = of(links, "host")
    assert host.ends["auth"].count == 16
    assert {name: tally.count for name, tally in host.denied.items()} == {
        "AuthenticationError CONNECT": 16,
        "AuthorizationError PARTITIONED_METADATA": 1,
    }


def test_a_killed_client(corpus):
    _, capture, _ = heard(corpus.data("java/killed-consumer"))
    assert capture.midstream == 0


@pytest.mark.parametrize(
    ("variant", "word"),
    [
        ("only from the client", "one_way"),
        ("only from the broker", "one_way"),
        ("begins late", "start"),
        ("is cut", "cut"),
    ],
)
def test_incomplete_captures_have_doubts(corpus, variants, variant, word):
    links, _, _ = heard(variants(corpus.data("java/permits"))[variant])
    busiest = max(of(links, "connection"), key=lambda one: one.client_frames + one.broker_frames)
    assert word in busiest.doubts
