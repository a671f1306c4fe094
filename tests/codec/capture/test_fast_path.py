"""The fast path gives the same frames as the slow path and handles all ordinary packets."""

from __future__ import annotations

import pytest

from pcli.codec.capture import streams
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame


@pytest.fixture
def slow_calls(monkeypatch):
    """Counts the packets that took the slow path."""
    calls = []
    original = streams.TcpReassembly.segment

    def counted(self, segment, packet, time_ns):
        calls.append(packet)
        original(self, segment, packet, time_ns)

    monkeypatch.setattr(streams.TcpReassembly, "segment", counted)
    return calls


def test_ordinary_packets_take_the_fast_path(w, slow_calls):
    tape = w.Tape().hello().send(0, w.connect).send(0, w.connected, server=True, ack=len(w.connect))
    at, back = len(w.connect), len(w.connected)
    for number in range(200):
        frame = w.send(number, bytes(number * 10))
        tape.send(at, frame[:500], ack=back)
        if frame[500:]:
            tape.send(at + 500, frame[500:], ack=back)
        at += len(frame)
        tape.send(back, server=True, ack=at)
    frames, _ = w.once(tape)
    assert len(frames) == 202
    assert len(slow_calls) == 5


@pytest.mark.parametrize("name", ["07-chunked.pcap", "34-any-device.pcap", "29-big-batches.pcap.gz"])
def test_most_packets_of_real_captures_take_the_fast_path(w, captures, slow_calls, name):
    data = (captures / "python" / name).read_bytes()
    w.once(data)
    assert len(slow_calls) < len(w.packets(data)) / 4


def test_non_pulsar_streams_are_ignored_on_the_fast_path(w, slow_calls):
    tape = w.Tape().hello().send(0, b"SSH-2.0-OpenSSH_9.2p1")
    for number in range(100):
        tape.send(21 + number * 10, bytes(10))
    w.once(tape)
    assert len(slow_calls) == 4


@pytest.mark.parametrize(
    "change",
    [
        (14, b"\x46"),  # a longer IP header
        (14, b"\x65"),  # not IP version 4
        (20, b"\x20\x00"),  # a fragment
        (23, b"\x11"),  # UDP
        (46, b"\x40"),  # a TCP header of 16 bytes
        (46, b"\xf0"),  # a TCP header longer than the packet
        (16, b"\x00\x20"),  # an IP length within the headers
        (16, b"\xff\xff"),  # an IP length beyond the packet
        (12, b"\x08\x06"),  # ARP
    ],
)
def test_unusual_headers_leave_the_fast_path(w, change):
    """The fast path must recognize these packets as unusual; `read` compares both paths."""
    tape = w.Tape().hello().send(0, w.connect)
    tape.send(len(w.connect), w.send(1)).send(len(w.connect) + len(w.send(1)), w.send(2))
    place, value = change
    for number in (4, 5):
        packet = tape.packets[number]
        data = packet.data[:place] + value + packet.data[place + len(value) :]
        tape.packets[number] = type(packet)(packet.number, packet.time_ns, 1, data, packet.wire_length)
        w.read(tape)


def test_packets_truncated_within_their_headers(w):
    for cut in range(1, 60):
        tape = w.Tape().hello().send(0, w.connect).send(len(w.connect), w.ping, cut=cut)
        tape.send(len(w.connect) + len(w.ping), w.send(1))
        frames, _ = w.read(tape)
        assert frames[0].data == w.connect
        assert frames[-1].data == w.send(1)


def test_a_raised_frame_limit_applies_to_the_fast_path(w):
    """CONNECTED follows an AUTH_CHALLENGE, when its direction is already on the fast path."""
    challenge = push_frame(pb.CommandAuthChallenge(server_version="a broker"))
    connected = push_frame(pb.CommandConnected(server_version="a broker", max_message_size=20 << 20))
    tape = w.Tape().hello().send(0, w.connect).send(0, challenge, server=True, ack=len(w.connect))
    tape.send(len(challenge), connected, server=True, ack=len(w.connect))
    large = w.send(1, bytes(6 << 20))
    for at in range(0, len(large), 60_000):
        tape.send(len(w.connect) + at, large[at : at + 60_000])
    frames, notes = w.read(tape)
    assert [frame.type for frame in frames] == [2, 36, 3, 6]
    assert notes == []
