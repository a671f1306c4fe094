"""TCP reassembly: order, retransmissions, ends. Each test is a conversation, packet by packet."""

from __future__ import annotations

import pytest


def test_both_directions_in_order(w):
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at, w.send(1) + w.send(2))
    frames, notes = w.read(tape)
    assert w.data(frames) == [w.connect, w.connected, w.send(1), w.send(2)]
    assert [frame.from_client for frame in frames] == [True, False, True, True]
    assert [frame.packet for frame in frames] == [4, 5, 6, 6]
    assert [frame.number for frame in frames] == [1, 2, 3, 4]
    assert frames[3].offset == at + len(w.send(1))
    assert {frame.sync for frame in frames} == {"start"}
    assert frames[0].stream.client == ("10.0.0.1", 40000)
    assert frames[0].stream.server == ("10.0.0.2", 6650)
    assert notes == []


def test_a_frame_lists_all_its_packets(w):
    tape = w.Tape()
    at, _ = w.talk(tape)
    frame = w.send(1, bytes(3000))
    for start in (0, 1000, 2000):
        tape.send(at + start, frame[start : start + 1000] if start < 2000 else frame[start:])
    frames, _ = w.read(tape)
    assert frames[2].data == frame
    assert frames[2].packets == (6, 7, 8)
    assert frames[2].packet == 8


def test_segments_out_of_order_are_reordered(w):
    tape = w.Tape()
    at, _ = w.talk(tape)
    one, two, three = w.send(1), w.send(2), w.send(3)
    tape.send(at + len(one) + len(two), three).send(at + len(one), two).send(at, one)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [one, two, three]
    assert {frame.sync for frame in frames} == {"start"}
    assert notes == []


def test_retransmissions_are_dropped(w):
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at, w.send(1)).send(at, w.send(1)).send(at, w.send(1) + w.send(2)).send(at, w.send(1))
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [w.send(1), w.send(2)]
    assert notes == []


def test_the_first_transmission_wins_and_a_difference_is_reported(w, kinds):
    tape = w.Tape()
    at, _ = w.talk(tape)
    true, false = w.send(1, b"true"), w.send(1, b"lies")
    tape.send(at, true).send(at, false)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [true]
    assert kinds(notes) == ["overlap"]
    assert notes[0].offset == at


def test_a_difference_inside_an_open_frame_is_a_problem_of_the_frame(w, kinds):
    tape = w.Tape()
    at, _ = w.talk(tape)
    frame = w.send(1, b"x" * 100)
    tape.send(at, frame[:60]).send(at + 50, b"y" * 10).send(at + 60, frame[60:])
    frames, notes = w.read(tape)
    assert frames[2].data == frame
    assert [problem.kind for problem in frames[2].capture_problems] == ["overlap"]
    assert kinds(notes) == ["overlap"]


def test_overlapping_segments_after_a_gap(w, kinds):
    tape = w.Tape()
    at, _ = w.talk(tape)
    frame = w.send(1, bytes(range(200)))
    tape.send(at + 100, frame[100:150]).send(at + 80, frame[80:120]).send(at + 140, b"z" * 10 + frame[150:])
    tape.send(at, frame[:90])
    frames, notes = w.read(tape)
    assert frames[2].data == frame
    assert kinds(notes) == ["overlap"]


def test_sequence_numbers_wrap(w):
    tape = w.Tape(client_isn=2**32 - 30, server_isn=2**32 - 5)
    at, back = w.talk(tape)
    for number in range(20):
        tape.send(at, w.send(number)).send(back, w.receipt(number), server=True)
        at, back = at + len(w.send(number)), back + len(w.receipt(number))
    frames, notes = w.read(tape)
    assert len(frames) == 42
    assert {frame.sync for frame in frames} == {"start"}
    assert notes == []


def test_sequence_numbers_wrap_inside_a_packet_and_after_a_gap(w):
    tape = w.Tape(client_isn=2**32 - 60)
    at, _ = w.talk(tape)
    one, two = w.send(1), w.send(2)
    tape.send(at + len(one), two).send(at, one)
    assert w.data(w.read(tape)[0])[2:] == [one, two]


def test_a_tcp_keep_alive_byte_is_not_data(w, kinds):
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(at - 1, b"\0").send(back, server=True, ack=at).send(at - 1).send(at, w.send(1))
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [w.send(1)]
    assert kinds(notes) == []


def test_a_zero_window_probe_is_the_next_byte(w):
    tape = w.Tape()
    at, back = w.talk(tape)
    frame = w.send(1)
    tape.send(at, frame[:1]).send(back, server=True, ack=at).send(at, frame)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [frame]
    assert notes == []


def test_a_syn_on_reused_ports_starts_a_new_stream(w):
    first, second = w.Tape(), w.Tape(client_isn=77_000, server_isn=99_000)
    w.talk(first)
    w.talk(second)
    second.packets, tape = [], first
    second.hello().send(0, w.connect)
    tape.packets += second.packets
    frames, notes = w.read(tape)
    assert [frame.stream.number for frame in frames] == [0, 0, 1]
    assert [frame.offset for frame in frames] == [0, 0, 0]
    assert notes == []


def test_a_retransmitted_syn_starts_no_new_stream(w):
    tape = w.Tape()
    tape.send(-1, flags=w.SYN).hello().send(0, w.connect)
    frames, _ = w.read(tape)
    assert [frame.stream.number for frame in frames] == [0]


def test_streams_are_numbered_by_their_first_packets(w):
    tape = w.Tape()
    for port in (40001, 40002, 40003):
        tape.hello(client_port=port)
    tape.send(0, w.connect, client_port=40002)
    frames, _ = w.read(tape)
    assert frames[0].stream.number == 1


def test_a_stream_lists_its_opening_packets(w):
    tape = w.Tape().send(0, client_port=7).hello().send(0, w.connect)
    frames, _ = w.read(tape)
    assert frames[0].stream.opening == (2, 3)
    assert w.read(w.Tape().idle(2).send(9, w.send(1)))[0][0].stream.opening == (3,)


def test_data_with_the_fin_and_late_packets(w):
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(at, w.send(1), flags=w.ACK | w.FIN)
    tape.send(back, w.receipt(1), server=True, flags=w.ACK | w.FIN, ack=at + len(w.send(1)) + 1)
    tape.send(at, w.send(1)).idle(100).send(at, w.send(1))
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [w.send(1), w.receipt(1)]
    assert notes == []


def test_a_reset_in_the_middle_of_a_frame(w):
    tape = w.Tape()
    at, _ = w.talk(tape)
    frame = w.send(1, bytes(500))
    tape.send(at, frame[:300]).send(at + 300, flags=w.RST).idle(100)
    frames, _ = w.read(tape)
    assert frames[2].data == frame[:300]
    assert frames[2].missing == len(frame) - 300
    assert [problem.kind for problem in frames[2].capture_problems] == ["cut"]
    assert "the connection ends" in frames[2].capture_problems[0].detail


def test_the_capture_ends_in_the_middle_of_a_frame(w):
    tape = w.Tape()
    at, _ = w.talk(tape)
    frame = w.send(1, bytes(500))
    frames, _ = w.read(tape.send(at, frame[:300]))
    assert frames[2].data == frame[:300]
    assert "the capture ends" in frames[2].capture_problems[0].detail


def test_a_capture_of_one_direction(w):
    """A capture of one direction has no acknowledgements that confirm a gap."""
    tape = w.Tape().send(-1, flags=w.SYN).send(0, w.connect)
    at = len(w.connect) + len(w.send(0))
    for number in range(1, 200):
        tape.send(at, w.send(number))
        at += len(w.send(number))
    frames, _ = w.read(tape)
    assert w.data(frames)[1:] == [w.send(number) for number in range(1, 200)]
    assert frames[1].packet < 10


def test_a_distant_sequence_number_takes_no_memory(w, kinds):
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at + 900_000_000, w.send(2))
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [w.send(2)]
    assert kinds(notes) == ["gap", "resync"]
    assert notes[0].length == 900_000_000


def test_another_connection_on_the_same_ports_without_syn(w, kinds):
    """Lower sequence numbers: the ports are reused, and the SYN is not in the capture."""
    tape = w.Tape(client_isn=3_000_000_000)
    at, _ = w.talk(tape)
    tape.send(at, w.send(1)).send(-1_500_000_000, w.send(2) + w.send(3))
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [w.send(1), w.send(2), w.send(3)]
    assert [frame.sync for frame in frames[2:]] == ["start", "resync", "resync"]
    assert "gap" in kinds(notes)


def test_a_midstream_start(w):
    tape = w.Tape()
    tape.send(5000, w.send(1) + w.send(2)).send(900, w.receipt(1), server=True)
    frames, _ = w.read(tape)
    assert w.data(frames) == [w.send(1), w.send(2), w.receipt(1)]
    assert {frame.sync for frame in frames} == {"resync"}
    assert frames[0].stream.midstream
    assert frames[0].offset == 0


def test_a_midstream_start_with_a_tcp_keep_alive(w, kinds):
    tape = w.Tape()
    tape.send(4999).send(5000, w.send(1)).send(5000 + len(w.send(1)), w.send(2))
    frames, notes = w.read(tape)
    assert w.data(frames) == [w.send(1), w.send(2)]
    assert "gap" not in kinds(notes)


def test_midstream_commands_identify_the_client(w):
    """The server has the higher port; only clients send SEND."""
    tape = w.Tape(port=50_000)
    tape.send(10, w.send(1), client_port=1234).send(10, w.receipt(1), server=True, client_port=1234)
    frames, _ = w.read(tape)
    assert [frame.from_client for frame in frames] == [True, False]
    assert frames[0].stream.client == ("10.0.0.1", 1234)


def test_a_zero_length_ip_packet_is_as_long_as_on_the_wire(w):
    """Packets with segmentation offload have an IP length of 0."""
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at, w.send(1, bytes(1000)))
    packet = tape.packets[-1]
    tape.packets[-1] = type(packet)(
        packet.number, packet.time_ns, 1, packet.data[:16] + b"\0\0" + packet.data[18:], packet.wire_length
    )
    frames, _ = w.read(tape)
    assert frames[2].data == w.send(1, bytes(1000))


def test_ethernet_padding_is_not_data(w):
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at, padding=bytes(6)).send(at, w.send(1), padding=b"padding")
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [w.send(1)]
    assert notes == []


def test_a_packet_captured_on_several_interfaces_counts_once(w):
    tape = w.Tape()
    at, _ = w.talk(tape)
    tape.send(at, w.send(1)).send(at + len(w.send(1)), w.send(2))
    once, _ = w.read(tape)
    tape.packets = [
        type(packet)(packet.number, packet.time_ns, 1, packet.data, packet.wire_length, interface)
        for packet in tape.packets
        for interface in ("eth0", "docker0", "lo")
    ]
    thrice, notes = w.read(tape)
    assert w.data(thrice) == w.data(once)
    assert {frame.stream.number for frame in thrice} == {0}
    assert notes == []


@pytest.mark.parametrize("count", [300])
def test_closed_connections_are_removed(w, count):
    """Late packets of a closed connection belong to it and do not start a new stream."""
    tape = w.Tape()
    for port in range(20_000, 20_000 + count):
        tape.hello(client_port=port).send(0, w.connect, client_port=port)
        tape.send(len(w.connect), flags=w.RST, client_port=port).send(0, w.connect, client_port=port)
    frames, notes = w.read(tape)
    assert [frame.stream.number for frame in frames] == list(range(count))
    assert notes == []
