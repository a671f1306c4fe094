"""TCP: order, repetition, holes, ends. Each test is a conversation, packet by packet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture import streams
from pcli.codec.proto import pb


def talk(w, tape):
    """A connection with CONNECT and CONNECTED; gives the offsets behind them."""
    tape.hello().send(0, w.connect).send(0, w.connected, server=True, ack=len(w.connect))
    return len(w.connect), len(w.connected)


def data(frames):
    return [frame.data for frame in frames]


def test_both_directions_in_order(w):
    tape = w.Tape()
    at, _ = talk(w, tape)
    tape.send(at, w.send(1) + w.send(2))
    frames, notes = w.read(tape)
    assert data(frames) == [w.connect, w.connected, w.send(1), w.send(2)]
    assert [frame.from_client for frame in frames] == [True, False, True, True]
    assert [frame.packet for frame in frames] == [4, 5, 6, 6]
    assert [frame.number for frame in frames] == [1, 2, 3, 4]
    assert frames[3].offset == at + len(w.send(1))
    assert {frame.sync for frame in frames} == {"start"}
    assert frames[0].stream.client == ("10.0.0.1", 40000)
    assert frames[0].stream.server == ("10.0.0.2", 6650)
    assert notes == []


def test_a_frame_over_three_packets_knows_them(w):
    tape = w.Tape()
    at, _ = talk(w, tape)
    frame = w.send(1, bytes(3000))
    for start in (0, 1000, 2000):
        tape.send(at + start, frame[start : start + 1000] if start < 2000 else frame[start:])
    frames, _ = w.read(tape)
    assert frames[2].data == frame
    assert frames[2].packets == (6, 7, 8)
    assert frames[2].packet == 8


def test_out_of_order_is_put_in_order(w):
    tape = w.Tape()
    at, _ = talk(w, tape)
    one, two, three = w.send(1), w.send(2), w.send(3)
    tape.send(at + len(one) + len(two), three).send(at + len(one), two).send(at, one)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [one, two, three]
    assert {frame.sync for frame in frames} == {"start"}
    assert notes == []


def test_what_comes_again_is_dropped(w):
    tape = w.Tape()
    at, _ = talk(w, tape)
    tape.send(at, w.send(1)).send(at, w.send(1)).send(at, w.send(1) + w.send(2)).send(at, w.send(1))
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [w.send(1), w.send(2)]
    assert notes == []


def test_the_first_bytes_win_and_the_difference_is_told(w, kinds):
    tape = w.Tape()
    at, _ = talk(w, tape)
    true, false = w.send(1, b"true"), w.send(1, b"lies")
    tape.send(at, true).send(at, false)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [true]
    assert kinds(notes) == ["overlap"]
    assert notes[0].offset == at


def test_a_difference_inside_an_open_frame_is_its_problem(w, kinds):
    tape = w.Tape()
    at, _ = talk(w, tape)
    frame = w.send(1, b"x" * 100)
    tape.send(at, frame[:60]).send(at + 50, b"y" * 10).send(at + 60, frame[60:])
    frames, notes = w.read(tape)
    assert frames[2].data == frame
    assert [problem.kind for problem in frames[2].capture_problems] == ["overlap"]
    assert kinds(notes) == ["overlap"]


def test_overlapping_pieces_behind_a_hole(w, kinds):
    tape = w.Tape()
    at, _ = talk(w, tape)
    frame = w.send(1, bytes(range(200)))
    tape.send(at + 100, frame[100:150]).send(at + 80, frame[80:120]).send(at + 140, b"z" * 10 + frame[150:])
    tape.send(at, frame[:90])
    frames, notes = w.read(tape)
    assert frames[2].data == frame
    assert kinds(notes) == ["overlap"]


def test_sequence_numbers_wrap(w):
    tape = w.Tape(client_isn=2**32 - 30, server_isn=2**32 - 5)
    at, back = talk(w, tape)
    for number in range(20):
        tape.send(at, w.send(number)).send(back, w.receipt(number), server=True)
        at, back = at + len(w.send(number)), back + len(w.receipt(number))
    frames, notes = w.read(tape)
    assert len(frames) == 42
    assert {frame.sync for frame in frames} == {"start"}
    assert notes == []


def test_wrap_inside_one_packet_and_behind_a_hole(w):
    tape = w.Tape(client_isn=2**32 - 60)
    at, _ = talk(w, tape)
    one, two = w.send(1), w.send(2)
    tape.send(at + len(one), two).send(at, one)
    assert data(w.read(tape)[0])[2:] == [one, two]


def test_keep_alive_byte_is_no_data(w, kinds):
    tape = w.Tape()
    at, back = talk(w, tape)
    tape.send(at - 1, b"\0").send(back, server=True, ack=at).send(at - 1).send(at, w.send(1))
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [w.send(1)]
    assert kinds(notes) == []


def test_zero_window_probe_is_the_next_byte(w):
    tape = w.Tape()
    at, back = talk(w, tape)
    frame = w.send(1)
    tape.send(at, frame[:1]).send(back, server=True, ack=at).send(at, frame)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [frame]
    assert notes == []


def test_port_reuse_is_a_new_stream(w):
    first, second = w.Tape(), w.Tape(client_isn=77_000, server_isn=99_000)
    talk(w, first)
    talk(w, second)
    second.packets, tape = [], first
    second.hello().send(0, w.connect)
    tape.packets += second.packets
    frames, notes = w.read(tape)
    assert [frame.stream.number for frame in frames] == [0, 0, 1]
    assert [frame.offset for frame in frames] == [0, 0, 0]
    assert notes == []


def test_a_syn_that_comes_again_is_no_new_stream(w):
    tape = w.Tape()
    tape.send(-1, flags=w.SYN).hello().send(0, w.connect)
    frames, _ = w.read(tape)
    assert [frame.stream.number for frame in frames] == [0]


def test_streams_are_counted_in_order_of_their_first_packets(w):
    tape = w.Tape()
    for port in (40001, 40002, 40003):
        tape.hello(client_port=port)
    tape.send(0, w.connect, client_port=40002)
    frames, _ = w.read(tape)
    assert frames[0].stream.number == 1


def test_a_stream_knows_the_packets_that_opened_it(w):
    tape = w.Tape().send(0, client_port=7).hello().send(0, w.connect)
    frames, _ = w.read(tape)
    assert frames[0].stream.opening == (2, 3)
    assert w.read(w.Tape().idle(2).send(9, w.send(1)))[0][0].stream.opening == (3,)


def test_data_with_the_fin_and_late_packets(w):
    tape = w.Tape()
    at, back = talk(w, tape)
    tape.send(at, w.send(1), flags=w.ACK | w.FIN)
    tape.send(back, w.receipt(1), server=True, flags=w.ACK | w.FIN, ack=at + len(w.send(1)) + 1)
    tape.send(at, w.send(1)).idle(100).send(at, w.send(1))
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [w.send(1), w.receipt(1)]
    assert notes == []


def test_a_reset_in_the_middle_of_a_frame(w):
    tape = w.Tape()
    at, _ = talk(w, tape)
    frame = w.send(1, bytes(500))
    tape.send(at, frame[:300]).send(at + 300, flags=w.RST).idle(100)
    frames, _ = w.read(tape)
    assert frames[2].data == frame[:300]
    assert frames[2].missing == len(frame) - 300
    assert [problem.kind for problem in frames[2].capture_problems] == ["cut"]
    assert "the connection ends" in frames[2].capture_problems[0].detail


def test_the_capture_ends_in_the_middle_of_a_frame(w):
    tape = w.Tape()
    at, _ = talk(w, tape)
    frame = w.send(1, bytes(500))
    frames, _ = w.read(tape.send(at, frame[:300]))
    assert frames[2].data == frame[:300]
    assert "the capture ends" in frames[2].capture_problems[0].detail


def test_a_hole_that_the_other_side_acknowledged(w, kinds):
    tape = w.Tape()
    at, back = talk(w, tape)
    lost, found = w.send(1), w.send(2)
    end = at + len(lost) + len(found)
    tape.send(at + len(lost), found).send(back, server=True, ack=end).idle(40)
    tape.send(back, w.receipt(2), server=True, ack=end)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [found, w.receipt(2)]
    assert [frame.sync for frame in frames[2:]] == ["resync", "start"]
    assert [problem.kind for problem in frames[2].capture_problems] == ["gap"]
    assert kinds(notes) == ["gap", "resync"]
    assert (notes[0].offset, notes[0].length) == (at, len(lost))


def test_an_answer_never_comes_before_its_request(w):
    tape = w.Tape()
    at, back = talk(w, tape)
    lost, request = w.send(1), w.send(2)
    end = at + len(lost) + len(request)
    tape.send(at + len(lost), request).send(back, w.receipt(2), server=True, ack=end).idle(60)
    frames, _ = w.read(tape)
    assert data(frames)[2:] == [request, w.receipt(2)]


def test_behind_a_hole_both_directions_come_in_the_order_of_their_packets(w):
    tape = w.Tape()
    at, back = talk(w, tape)
    lost, first, answer = len(w.receipt(0)), w.receipt(1), w.receipt(2)
    tape.send(back + lost, first, server=True, ack=at)
    tape.send(at, w.send(2), ack=back + lost + len(first))
    tape.send(back + lost + len(first), answer, server=True, ack=at + len(w.send(2)))
    frames, _ = w.read(tape.idle(40).send(at + len(w.send(2)), w.send(3)))
    assert data(frames)[2:] == [first, w.send(2), answer, w.send(3)]


def test_what_fills_a_hole_comes_before_the_answer_to_what_is_behind(w):
    """The first of two requests is the last packet in the capture; its answer must not come before it."""
    tape = w.Tape()
    at, back = talk(w, tape)
    one, two = w.send(1), w.send(2)
    end = at + len(one) + len(two)
    tape.send(at + len(one), two).send(back, w.receipt(1) + w.receipt(2), server=True, ack=end).send(at, one)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [one, two, w.receipt(1), w.receipt(2)]
    assert notes == []


def test_holes_in_both_directions_are_given_up_in_the_order_of_their_packets(w, kinds):
    tape = w.Tape()
    at, back = talk(w, tape)
    for number in range(1, 7):
        request, answer = w.send(number), w.receipt(number)
        if number not in (1, 4):
            tape.send(at, request, ack=back)
        at += len(request)
        if number not in (2, 4, 5):
            tape.send(back, answer, server=True, ack=at)
        back += len(answer)
    frames, notes = w.read(tape)
    story = [w.receipt(1), w.send(2), w.send(3), w.receipt(3), w.send(5), w.send(6), w.receipt(6)]
    assert data(frames)[2:] == story
    assert kinds(notes).count("gap") == 4


def test_a_hole_whose_time_is_up_waits_for_one_before_it(w):
    """The server's hole comes first and is proven last."""
    tape = w.Tape()
    at, back = talk(w, tape)
    early, late = w.receipt(1), w.send(2)
    tape.send(back + len(w.receipt(0)), early, server=True, ack=at)
    tape.send(at + len(w.send(1)), late, ack=back)
    end, answered = at + len(w.send(1)) + len(late), back + len(w.receipt(0)) + len(early)
    tape.send(answered, server=True, ack=end).idle(10).send(end, ack=answered).idle(50)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [early, late]
    assert {note.packet for note in notes if note.kind == "gap"} == {19 + streams.GRACE}


@given(lost=st.lists(st.booleans(), min_size=4, max_size=150), ask=st.integers(1, 5), pause=st.sampled_from((0, 9, 40)))
def test_whatever_is_lost_the_rest_comes_in_the_order_of_its_packets(w, lost, ask, pause):
    """Requests in groups, then their answers; each packet acknowledges all before it."""
    tape = w.Tape()
    ends = list(talk(w, tape))
    story = []
    for turn, gone in enumerate(lost):
        server = turn // ask % 2 == 1
        frame = w.receipt(turn - ask) if server else w.send(turn)
        if not gone:
            tape.send(ends[server], frame, server=server, ack=ends[not server])
            story.append(frame)
        elif pause:
            tape.idle(pause)
        ends[server] += len(frame)
    frames, _ = w.read(tape)
    assert data(frames)[2:] == story


def test_when_too_much_waits_holes_are_given_up_at_once(w, monkeypatch):
    """Every second packet of both directions is lost: more holes than can each be waited for."""
    monkeypatch.setattr(streams, "HELD_PIECES", 20)
    tape = w.Tape()
    at, back = talk(w, tape)
    story = []
    for number in range(300):
        request, answer = w.send(number), w.receipt(number)
        if number % 2:
            story += [request, answer]
            tape.send(at, request, ack=back)
            tape.send(back, answer, server=True, ack=at + len(request))
        at, back = at + len(request), back + len(answer)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == story
    behind = {(frame.from_client, frame.offset): frame.packet for frame in frames}
    gaps = [note for note in notes if note.kind == "gap"]
    assert len(gaps) == 300
    assert max(note.packet - behind[note.from_client, note.offset + note.length] for note in gaps) < 80


def test_behind_a_hole_that_nobody_acknowledged_not_everything_is_kept(w, monkeypatch):
    monkeypatch.setattr(streams, "HELD_PIECES", 20)
    tape = w.Tape()
    at, _ = talk(w, tape)
    at += len(w.send(0))
    for number in range(1, 60):
        tape.send(at, w.send(number))
        at += len(w.send(number))
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [w.send(number) for number in range(1, 60)]
    assert notes[0].packet < 30


def test_a_proven_hole_waits_no_longer_when_too_much_waits_in_the_other_direction(w, monkeypatch):
    monkeypatch.setattr(streams, "HELD_PIECES", 20)
    tape = w.Tape()
    at, back = talk(w, tape)
    tape.send(back + len(w.receipt(0)), w.receipt(1), server=True, ack=at)
    story = [w.receipt(1)]
    for number in range(2, 60):
        tape.send(at, w.send(number), ack=back + 2 * len(w.receipt(0)))
        at += len(w.send(number))
        story.append(w.send(number))
    frames, notes = w.read(tape)
    assert data(frames)[2:] == story
    assert notes[0].packet < 30


def test_of_a_hole_only_what_was_acknowledged_is_given_up(w, kinds):
    tape = w.Tape()
    at, back = talk(w, tape)
    one, two, three = w.send(1), w.send(2), w.send(3)
    tape.send(at + len(one) + len(two), three).send(back, server=True, ack=at + len(one)).idle(60)
    frames, notes = w.read(tape.send(at + len(one), two))
    assert data(frames)[2:] == [two, three]
    assert kinds(notes) == ["gap", "resync"]
    assert (notes[0].offset, notes[0].length) == (at, len(one))


def test_an_older_acknowledgement_takes_the_proof_back(w):
    """Then the hole waits for the retransmission, and stops nobody."""
    tape = w.Tape()
    at, back = talk(w, tape)
    one, two = w.send(1), w.send(2)
    tape.send(at + len(one), two).send(back, server=True, ack=at + len(one) + len(two))
    tape.send(back, server=True, ack=at).idle(40).send(back, w.receipt(0), server=True, ack=at)
    frames, notes = w.read(tape.send(at, one))
    assert data(frames)[2:] == [w.receipt(0), one, two]
    assert notes == []


def test_the_answer_waits_for_the_last_request_even_behind_the_fin(w):
    tape = w.Tape()
    at, back = talk(w, tape)
    last = w.send(1)
    tape.send(at + len(last), flags=w.ACK | w.FIN)
    tape.send(back, w.receipt(1), server=True, ack=at + len(last) + 1).send(at, last)
    frames, notes = w.read(tape.idle(50))
    assert data(frames)[2:] == [last, w.receipt(1)]
    assert notes == []


def test_what_waits_for_the_other_direction_is_not_lost_when_the_connection_is_another(w):
    tape = w.Tape(client_isn=3_000_000_000)
    at, back = talk(w, tape)
    tape.send(back + len(w.receipt(0)), w.receipt(1), server=True, ack=at)
    tape.send(at, w.send(2), ack=back + 2 * len(w.receipt(0))).send(-1_500_000_000, w.send(3) + w.send(4))
    frames, _ = w.read(tape)
    assert data(frames)[2:] == [w.receipt(1), w.send(2), w.send(3), w.send(4)]


def test_no_receipt_comes_before_its_send_in_a_capture_with_lost_packets(w, captures):
    with (captures / "python" / "37-packets-lost.pcap").open("rb") as file:
        frames, _ = w.read(file)
    receipts, overtaken = set(), []
    for frame in frames:
        if frame.type == pb.BaseCommand.SEND_RECEIPT:
            answer = frame.command.send_receipt
            receipts.add((frame.stream.number, answer.producer_id, answer.sequence_id))
        elif frame.type == pb.BaseCommand.SEND:
            send = frame.command.send
            overtaken += receipts & {(frame.stream.number, send.producer_id, send.sequence_id)}
    assert len(receipts) > 60
    assert overtaken == []


def test_an_acknowledged_packet_may_still_come_a_little_later(w):
    """Captures of several queues or interfaces put an ACK before the packet it acknowledges."""
    tape = w.Tape()
    at, back = talk(w, tape)
    one, two = w.send(1), w.send(2)
    tape.send(at + len(one), two).send(back, server=True, ack=at + len(one) + len(two)).send(at, one)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [one, two]
    assert {frame.sync for frame in frames} == {"start"}
    assert notes == []


def test_a_hole_that_nobody_acknowledged_waits_for_the_retransmission(w):
    tape = w.Tape()
    at, back = talk(w, tape)
    one, two = w.send(1), w.send(2)
    tape.send(at + len(one), two).send(back, server=True, ack=at).idle(500).send(at, one)
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [one, two]
    assert notes == []


def test_a_hole_at_the_end_is_told(w, kinds):
    tape = w.Tape()
    at, back = talk(w, tape)
    tape.send(at + 100, flags=w.ACK | w.FIN).send(back, server=True, flags=w.ACK | w.FIN, ack=at + 101)
    _, notes = w.read(tape.idle(100))
    assert kinds(notes) == ["gap"]
    assert (notes[0].offset, notes[0].length) == (at, 100)


def test_one_side_only(w):
    """A capture of one direction has no acknowledgements that would prove a hole."""
    tape = w.Tape().send(-1, flags=w.SYN).send(0, w.connect)
    at = len(w.connect) + len(w.send(0))
    for number in range(1, 200):
        tape.send(at, w.send(number))
        at += len(w.send(number))
    frames, _ = w.read(tape)
    assert data(frames)[1:] == [w.send(number) for number in range(1, 200)]
    assert frames[1].packet < 10


def test_far_ahead_takes_no_memory(w, kinds):
    tape = w.Tape()
    at, _ = talk(w, tape)
    tape.send(at + 900_000_000, w.send(2))
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [w.send(2)]
    assert kinds(notes) == ["gap", "resync"]
    assert notes[0].length == 900_000_000


def test_another_connection_without_its_syn(w, kinds):
    """Sequence numbers far behind: the ports are used again, and the SYN is not in the capture."""
    tape = w.Tape(client_isn=3_000_000_000)
    at, _ = talk(w, tape)
    tape.send(at, w.send(1)).send(-1_500_000_000, w.send(2) + w.send(3))
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [w.send(1), w.send(2), w.send(3)]
    assert [frame.sync for frame in frames[2:]] == ["start", "resync", "resync"]
    assert "gap" in kinds(notes)


def test_mid_stream_start(w):
    tape = w.Tape()
    tape.send(5000, w.send(1) + w.send(2)).send(900, w.receipt(1), server=True)
    frames, _ = w.read(tape)
    assert data(frames) == [w.send(1), w.send(2), w.receipt(1)]
    assert {frame.sync for frame in frames} == {"resync"}
    assert frames[0].stream.midstream
    assert frames[0].offset == 0


def test_mid_stream_start_with_a_keep_alive(w, kinds):
    tape = w.Tape()
    tape.send(4999).send(5000, w.send(1)).send(5000 + len(w.send(1)), w.send(2))
    frames, notes = w.read(tape)
    assert data(frames) == [w.send(1), w.send(2)]
    assert "gap" not in kinds(notes)


def test_mid_stream_commands_tell_who_the_client_is(w):
    """The server's port is the higher one; SEND comes from clients only."""
    tape = w.Tape(port=50_000)
    tape.send(10, w.send(1), client_port=1234).send(10, w.receipt(1), server=True, client_port=1234)
    frames, _ = w.read(tape)
    assert [frame.from_client for frame in frames] == [True, False]
    assert frames[0].stream.client == ("10.0.0.1", 1234)


def test_a_zero_length_ip_packet_is_as_long_as_on_the_wire(w):
    """Offloaded packets carry an IP length of 0."""
    tape = w.Tape()
    at, _ = talk(w, tape)
    tape.send(at, w.send(1, bytes(1000)))
    packet = tape.packets[-1]
    tape.packets[-1] = type(packet)(
        packet.number, packet.time_ns, 1, packet.data[:16] + b"\0\0" + packet.data[18:], packet.wire_length
    )
    frames, _ = w.read(tape)
    assert frames[2].data == w.send(1, bytes(1000))


def test_ethernet_padding_is_no_data(w):
    tape = w.Tape()
    at, _ = talk(w, tape)
    tape.send(at, padding=bytes(6)).send(at, w.send(1), padding=b"padding")
    frames, notes = w.read(tape)
    assert data(frames)[2:] == [w.send(1)]
    assert notes == []


def test_the_same_packet_on_several_interfaces_is_one(w):
    tape = w.Tape()
    at, _ = talk(w, tape)
    tape.send(at, w.send(1)).send(at + len(w.send(1)), w.send(2))
    once, _ = w.read(tape)
    tape.packets = [
        type(packet)(packet.number, packet.time_ns, 1, packet.data, packet.wire_length, interface)
        for packet in tape.packets
        for interface in ("eth0", "docker0", "lo")
    ]
    thrice, notes = w.read(tape)
    assert data(thrice) == data(once)
    assert {frame.stream.number for frame in thrice} == {0}
    assert notes == []


@pytest.mark.parametrize("count", [300])
def test_many_connections_are_forgotten_when_they_are_over(w, count):
    """Late packets of a connection that is over belong to it, and open no new stream."""
    tape = w.Tape()
    for port in range(20_000, 20_000 + count):
        tape.hello(client_port=port).send(0, w.connect, client_port=port)
        tape.send(len(w.connect), flags=w.RST, client_port=port).send(0, w.connect, client_port=port)
    frames, notes = w.read(tape)
    assert [frame.stream.number for frame in frames] == list(range(count))
    assert notes == []
