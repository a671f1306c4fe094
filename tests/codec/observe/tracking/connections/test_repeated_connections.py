"""Connections that a capture contains twice are counted once."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.capture import Packet, PcapngWriter, ReadOptions, read_capture, read_packets
from pcli.codec.capture.frames import Stream
from pcli.codec.observe.tracking.connections import repeated_connections
from pcli.codec.observe.tracking.connections.repeated_connections import RepeatDetector, may_be_copies, possible_copies
from pcli.codec.observe.tracking.tracker import Tracker, process_events
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.codec.wire.hot import push_send, push_send_receipt

SYN, ACK = 2, 16
BEFORE, AFTER = (("10.0.0.1", 40_000), ("10.9.9.9", 6650)), (("10.0.0.1", 40_000), ("10.0.0.2", 6650))


def tracked(packets: list[Packet]) -> Tracker:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for packet in packets:
        writer.packet(packet)
    file.seek(0)
    tracker = Tracker()
    process_events(read_capture([("", file)], ReadOptions(ends=True)), tracker)
    return tracker


def sent(tracker: Tracker) -> int:
    return sum(topic.record.messages.sent for topic in tracker.subscriptions.lifecycles.topics.values())


def legs(tracker: Tracker) -> list[tuple[int, int]]:
    return [(record.stream, record.leg_of) for record in tracker.connections.repeated()]


def packets_of(path: Any) -> list[Packet]:
    with path.open("rb") as file:
        return [one for one in read_packets([("", file)]) if isinstance(one, Packet)]


@pytest.mark.parametrize("name", ["dnat", "snat", "userland-proxy"])
def test_real_connections(small_captures: Any, name: str) -> None:
    tracker = tracked(packets_of(small_captures / f"translated/{name}.pcap"))
    assert (legs(tracker), sent(tracker)) == ([(1, 0)], 8)


@pytest.mark.parametrize("name", ["dnat", "snat"])
def test_connections_that_began_before_the_capture(small_captures: Any, name: str) -> None:
    packets = packets_of(small_captures / f"translated/{name}.pcap")
    for first in range(1, len(packets) - 20, 5):
        assert len(legs(tracked(packets[first:]))) == 1


# -- generated pairs ---------------------------------------------------------------------------------------------------

FRAMES = [
    (True, push_frame(pb.CommandConnect(client_version="a client", protocol_version=21))),
    (False, push_frame(pb.CommandConnected(server_version="a broker", protocol_version=21))),
    (True, push_frame(pb.CommandProducer(topic="persistent://public/default/t", producer_id=1, request_id=1))),
    (False, push_frame(pb.CommandProducerSuccess(request_id=1, producer_name="p"))),
]
for _number in range(5):
    _metadata = pb.MessageMetadata(producer_name="p", sequence_id=_number, publish_time=1).SerializeToString()
    FRAMES += [
        (True, push_send(1, _number, 1, 0, _metadata, b"payload")),
        (False, push_send_receipt(1, _number, 7, _number, 0)),
    ]


def captured(ends: Any, isns: tuple[int, int], frames: Any = FRAMES, *, delay_ns: int = 0) -> list[Packet]:
    """Return the packets of a connection: a handshake, and a packet for each frame, one per millisecond."""
    seq, packets = list(isns), []

    def put(side: int, flags: int, data: bytes = b"") -> None:
        (source, sport), (target, dport) = ends if not side else ends[::-1]
        numbers = (seq[side] & 0xFFFFFFFF, seq[1 - side] & 0xFFFFFFFF)
        tcp = struct.pack(">HHIIBBHHH", sport, dport, *numbers, 0x50, flags, 9000, 0, 0) + data
        addresses = bytes(map(int, f"{source}.{target}".split(".")))
        whole = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0x4000, 64, 6, 0) + addresses + tcp
        time_ns = 1_000_000_000 + len(packets) * 1_000_000 + delay_ns
        packets.append(Packet(0, time_ns, 101, whole, len(whole)))
        seq[side] += len(data) + bool(flags & SYN)

    put(0, SYN)
    put(1, SYN | ACK)
    for client, data in frames:
        put(0 if client else 1, ACK, data)
    return packets


def merged(*captures: list[Packet]) -> list[Packet]:
    return sorted((packet for packets in captures for packet in packets), key=lambda packet: packet.time_ns)


ISN = st.integers(0, 0xFFFFFFFF)


@settings(max_examples=30)
@given(st.tuples(ISN, ISN), st.sampled_from([100, 900_000, 30_000_000, -700_000]), st.integers(0, 8), st.booleans())
def test_equal_sequence_numbers_and_payloads_are_one_connection(
    isns: Any, delay_ns: int, lost: int, one_way: bool
) -> None:
    copy = captured(AFTER, isns, delay_ns=delay_ns)
    if one_way:
        copy, lost = [packet for packet in copy if packet.data[12:16] == b"\x0a\0\0\1"], 0
    tracker = tracked(merged(captured(BEFORE, isns)[lost:], copy[lost:]))
    assert len(legs(tracker)) == 1
    assert sent(tracker) <= 5


@settings(max_examples=30)
@given(st.tuples(ISN, ISN), st.tuples(ISN, ISN), st.sampled_from([100, 900_000]), st.integers(0, 8))
def test_clients_that_send_equal_bytes_are_not_one_connection(isns: Any, others: Any, delay_ns: int, lost: int) -> None:
    far = any(abs(one - other) % 0xFFF00000 > 1 << 20 for one, other in zip(isns, others))
    ends = (("10.0.0.3", 40_001), BEFORE[1])
    tracker = tracked(merged(captured(BEFORE, isns)[lost:], captured(ends, others, delay_ns=delay_ns)[lost:]))
    if far:
        assert legs(tracker) == []
    if far and lost < 4:
        assert sent(tracker) == 10


def test_equal_sequence_numbers_with_other_payloads_are_not_one_connection() -> None:
    other = [(True, push_frame(pb.CommandConnect(client_version="another", protocol_version=21))), *FRAMES[1:]]
    tracker = tracked(merged(captured(BEFORE, (5, 9)), captured(AFTER, (5, 9), other, delay_ns=100)))
    assert (legs(tracker), sent(tracker)) == ([], 10)


def test_a_connection_that_repeats_another_later_is_not_a_copy() -> None:
    tracker = tracked(merged(captured(BEFORE, (5, 9)), captured(AFTER, (5, 9), delay_ns=2_000_000_000)))
    assert legs(tracker) == []


def test_copies_are_not_counted_in_findings_and_hosts() -> None:
    tracker = tracked(merged(captured(BEFORE, (5, 9)), captured(AFTER, (5, 9), delay_ns=100)))
    assert [host.server for group, host in tracker.records() if group == "host"] == [BEFORE[1]]
    assert [one.translated for group, one in tracker.records() if group == "connection"] == [False, True]


def stream(number: int, bases: tuple[int, int], *, midstream: bool = False) -> Stream:
    one = Stream(number, ("10.0.0.1", 40_000 + number), ("10.0.0.2", 6650), midstream=midstream)
    one.bases = list(bases)
    return one


def joined(pairs: set[tuple[int, int]], count: int) -> list[int]:
    """Return the lowest number of the set to which each number is joined."""
    least = list(range(count))
    for _ in least:
        for one, other in pairs:
            least[one] = least[other] = min(least[one], least[other])
    return least


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-1, 5, 70_000, 300_000, 0xFFFFFFF0]),
            st.sampled_from([-1, 7, 262_144, 0xFFFFFFE0]),
            st.booleans(),
        ),
        max_size=6,
    )
)
def test_possible_copies_join_all_connections_whose_numbers_agree(values: Any) -> None:
    streams = [stream(number, (one, two), midstream=late) for number, (one, two, late) in enumerate(values)]
    pairs = {(a.number, b.number) for a in streams for b in streams if a.number < b.number and may_be_copies(a, b)}
    found = set(possible_copies(streams))
    assert found <= pairs
    assert joined(found, len(values)) == joined(pairs, len(values))


def test_equal_connections_are_few_pairs() -> None:
    streams = [stream(number, (5, 7)) for number in range(100)]
    assert set(possible_copies(streams)) == {(0, number) for number in range(1, 100)}


def test_a_url_of_a_proxied_broker_that_is_not_text(conversation: Any) -> None:
    """protobuf returns the URL as bytes."""
    detector = RepeatDetector()
    connect = pb.CommandConnect(client_version="a client", proxy_to_broker_url="pulsar://10.0.0.7:6650")
    data = push_frame(connect).replace(b"10.0.0.7", b"10.0.0.\xff")
    detector.see(conversation.say(data, b"", 0, from_client=True))
    other = pb.CommandConnect(client_version="another client")
    facts = conversation.say(other, b"", 1, from_client=True)
    facts.frame.stream.server = ("10.0.0.3", 6650)
    detector.see(facts)
    assert not detector.repeats


def test_the_legs_of_a_detector_are_bounded(conversation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_connections, "MAX_CONNECTIONS", 10)
    detector = RepeatDetector()
    for stream in range(50):
        detector.see(conversation.say(pb.CommandPing(), b"", stream, from_client=True))
    assert len(detector._legs) == 10
