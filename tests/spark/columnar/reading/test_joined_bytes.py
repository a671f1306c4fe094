"""Frames over many windows, for many connections at the same time."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.codec.wire.build import push_entry
from tests.spark.columnar.read_windows import read_places

ACK, SYN = 16, 2
CONNECTIONS, SIZE, PIECE, WINDOW = 12, 200_000, 1400, 60_000
LATER = 10 * PIECE


@pytest.fixture(scope="module")
def blob(both):
    """Each connection sends a large and a small frame; the connections take turns, segment by segment."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    entry = push_entry(metadata, bytes(SIZE), checksum=False)
    large = push_frame(pb.CommandSend(producer_id=1, sequence_id=1), entry)
    data = push_frame(pb.CommandConnect(client_version="a client")) + large + push_frame(pb.CommandPing())
    segments = []
    for each in range(CONNECTIONS):
        segments += [(each, True, SYN, 99, 0, b""), (each, False, SYN | ACK, 499, 100, b"")]
        segments.append((each, True, ACK, 100, 500, b""))
    for at in range(0, len(data) + CONNECTIONS * LATER, PIECE):
        # Each starts a little later than the previous one, so that not all frames end in the same window.
        for each in range(CONNECTIONS):
            begin = at - each * LATER
            if 0 <= begin < len(data):
                segments.append((each, True, ACK, 100 + begin, 500, data[begin : begin + PIECE]))
    link, packets = both.wrapped(segments, "ethernet")
    return both.pcap(packets, link)


def test_open_frames_go_on_over_windows(both, blob):
    assert len(both.same([blob], WINDOW)) >= CONNECTIONS


def test_a_window_holds_no_more_than_its_own_bytes_and_the_frames_that_end_in_it(both, blob):
    pools, ended = [], 0
    for places, _ in read_places(both.files_of([blob]), both.OPTIONS, WINDOW):
        large = int((places.kept > SIZE).sum())
        pools.append(len(places.data) - large * SIZE)
        ended += large
    assert ended == CONNECTIONS
    assert max(pools) < 2 * WINDOW
