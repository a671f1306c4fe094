"""TCP reassembly with gaps: waiting times and delivery order. Each test is a conversation, packet by packet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture import streams
from pcli.codec.proto import pb


def test_an_acknowledged_gap(w, kinds):
    tape = w.Tape()
    at, back = w.talk(tape)
    lost, found = w.send(1), w.send(2)
    end = at + len(lost) + len(found)
    tape.send(at + len(lost), found).send(back, server=True, ack=end).idle(40)
    tape.send(back, w.receipt(2), server=True, ack=end)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [found, w.receipt(2)]
    assert [frame.sync for frame in frames[2:]] == ["resync", "start"]
    assert [problem.kind for problem in frames[2].capture_problems] == ["gap"]
    assert kinds(notes) == ["gap", "resync"]
    assert (notes[0].offset, notes[0].length) == (at, len(lost))


def test_no_response_precedes_its_request(w):
    tape = w.Tape()
    at, back = w.talk(tape)
    lost, request = w.send(1), w.send(2)
    end = at + len(lost) + len(request)
    tape.send(at + len(lost), request).send(back, w.receipt(2), server=True, ack=end).idle(60)
    frames, _ = w.read(tape)
    assert w.data(frames)[2:] == [request, w.receipt(2)]


def test_after_a_gap_both_directions_are_in_packet_order(w):
    tape = w.Tape()
    at, back = w.talk(tape)
    lost, first, answer = len(w.receipt(0)), w.receipt(1), w.receipt(2)
    tape.send(back + lost, first, server=True, ack=at)
    tape.send(at, w.send(2), ack=back + lost + len(first))
    tape.send(back + lost + len(first), answer, server=True, ack=at + len(w.send(2)))
    frames, _ = w.read(tape.idle(40).send(at + len(w.send(2)), w.send(3)))
    assert w.data(frames)[2:] == [first, w.send(2), answer, w.send(3)]


def test_a_late_segment_precedes_the_response_to_later_segments(w):
    """The first of two requests is the last packet of the capture; its response must not precede it."""
    tape = w.Tape()
    at, back = w.talk(tape)
    one, two = w.send(1), w.send(2)
    end = at + len(one) + len(two)
    tape.send(at + len(one), two).send(back, w.receipt(1) + w.receipt(2), server=True, ack=end).send(at, one)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [one, two, w.receipt(1), w.receipt(2)]
    assert notes == []


def test_gaps_in_both_directions_become_final_in_packet_order(w, kinds):
    tape = w.Tape()
    at, back = w.talk(tape)
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
    assert w.data(frames)[2:] == story
    assert kinds(notes).count("gap") == 4


def test_an_expired_gap_waits_for_an_earlier_gap(w):
    """The server's gap is first and is confirmed last."""
    tape = w.Tape()
    at, back = w.talk(tape)
    early, late = w.receipt(1), w.send(2)
    tape.send(back + len(w.receipt(0)), early, server=True, ack=at)
    tape.send(at + len(w.send(1)), late, ack=back)
    end, answered = at + len(w.send(1)) + len(late), back + len(w.receipt(0)) + len(early)
    tape.send(answered, server=True, ack=end).idle(10).send(end, ack=answered).idle(50)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [early, late]
    assert {note.packet for note in notes if note.kind == "gap"} == {19 + streams.GRACE}


@given(lost=st.lists(st.booleans(), min_size=4, max_size=150), ask=st.integers(1, 5), pause=st.sampled_from((0, 9, 40)))
def test_remaining_segments_are_in_packet_order(w, lost, ask, pause):
    """Groups of requests are followed by responses; each packet acknowledges all earlier ones."""
    tape = w.Tape()
    ends = list(w.talk(tape))
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
    assert w.data(frames)[2:] == story


def test_a_full_queue_makes_gaps_final(w, monkeypatch):
    """Every second packet of both directions is lost: too many gaps to wait for each one separately."""
    monkeypatch.setattr(streams, "MAX_HELD_SEGMENTS", 20)
    tape = w.Tape()
    at, back = w.talk(tape)
    story = []
    for number in range(300):
        request, answer = w.send(number), w.receipt(number)
        if number % 2:
            story += [request, answer]
            tape.send(at, request, ack=back)
            tape.send(back, answer, server=True, ack=at + len(request))
        at, back = at + len(request), back + len(answer)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == story
    behind = {(frame.from_client, frame.offset): frame.packet for frame in frames}
    gaps = [note for note in notes if note.kind == "gap"]
    assert len(gaps) == 300
    assert max(note.packet - behind[note.from_client, note.offset + note.length] for note in gaps) < 80


def test_the_queue_after_an_unacknowledged_gap_is_limited(w, monkeypatch):
    monkeypatch.setattr(streams, "MAX_HELD_SEGMENTS", 20)
    tape = w.Tape()
    at, _ = w.talk(tape)
    at += len(w.send(0))
    for number in range(1, 60):
        tape.send(at, w.send(number))
        at += len(w.send(number))
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [w.send(number) for number in range(1, 60)]
    assert notes[0].packet < 30


def test_a_full_queue_ends_the_wait_of_the_other_direction(w, monkeypatch):
    monkeypatch.setattr(streams, "MAX_HELD_SEGMENTS", 20)
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(back + len(w.receipt(0)), w.receipt(1), server=True, ack=at)
    story = [w.receipt(1)]
    for number in range(2, 60):
        tape.send(at, w.send(number), ack=back + 2 * len(w.receipt(0)))
        at += len(w.send(number))
        story.append(w.send(number))
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == story
    assert notes[0].packet < 30


def test_only_the_acknowledged_part_of_a_gap_becomes_final(w, kinds):
    tape = w.Tape()
    at, back = w.talk(tape)
    one, two, three = w.send(1), w.send(2), w.send(3)
    tape.send(at + len(one) + len(two), three).send(back, server=True, ack=at + len(one)).idle(60)
    frames, notes = w.read(tape.send(at + len(one), two))
    assert w.data(frames)[2:] == [two, three]
    assert kinds(notes) == ["gap", "resync"]
    assert (notes[0].offset, notes[0].length) == (at, len(one))


def test_an_older_acknowledgement_cancels_the_confirmation(w):
    """The gap then waits for the retransmission and does not delay the other direction."""
    tape = w.Tape()
    at, back = w.talk(tape)
    one, two = w.send(1), w.send(2)
    tape.send(at + len(one), two).send(back, server=True, ack=at + len(one) + len(two))
    tape.send(back, server=True, ack=at).idle(40).send(back, w.receipt(0), server=True, ack=at)
    frames, notes = w.read(tape.send(at, one))
    assert w.data(frames)[2:] == [w.receipt(0), one, two]
    assert notes == []


def test_a_response_waits_for_the_last_request_after_the_fin(w):
    tape = w.Tape()
    at, back = w.talk(tape)
    last = w.send(1)
    tape.send(at + len(last), flags=w.ACK | w.FIN)
    tape.send(back, w.receipt(1), server=True, ack=at + len(last) + 1).send(at, last)
    frames, notes = w.read(tape.idle(50))
    assert w.data(frames)[2:] == [last, w.receipt(1)]
    assert notes == []


def test_queued_segments_survive_the_next_connection(w):
    tape = w.Tape(client_isn=3_000_000_000)
    at, back = w.talk(tape)
    tape.send(back + len(w.receipt(0)), w.receipt(1), server=True, ack=at)
    tape.send(at, w.send(2), ack=back + 2 * len(w.receipt(0))).send(-1_500_000_000, w.send(3) + w.send(4))
    frames, _ = w.read(tape)
    assert w.data(frames)[2:] == [w.receipt(1), w.send(2), w.send(3), w.send(4)]


def test_no_receipt_precedes_its_send_despite_lost_packets(w, captures):
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


def test_a_reordered_acknowledged_packet_is_used(w):
    """Captures from several queues or interfaces may contain an ACK before the packet that it acknowledges."""
    tape = w.Tape()
    at, back = w.talk(tape)
    one, two = w.send(1), w.send(2)
    tape.send(at + len(one), two).send(back, server=True, ack=at + len(one) + len(two)).send(at, one)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [one, two]
    assert {frame.sync for frame in frames} == {"start"}
    assert notes == []


def test_an_unacknowledged_gap_waits_for_the_retransmission(w):
    tape = w.Tape()
    at, back = w.talk(tape)
    one, two = w.send(1), w.send(2)
    tape.send(at + len(one), two).send(back, server=True, ack=at).idle(500).send(at, one)
    frames, notes = w.read(tape)
    assert w.data(frames)[2:] == [one, two]
    assert notes == []


def test_a_gap_at_the_end_is_reported(w, kinds):
    tape = w.Tape()
    at, back = w.talk(tape)
    tape.send(at + 100, flags=w.ACK | w.FIN).send(back, server=True, flags=w.ACK | w.FIN, ack=at + 101)
    _, notes = w.read(tape.idle(100))
    assert kinds(notes) == ["gap"]
    assert (notes[0].offset, notes[0].length) == (at, 100)
