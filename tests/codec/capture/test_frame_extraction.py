"""Frames across gaps and truncated packets: carried-over boundaries, searches, notes."""

from __future__ import annotations

import pytest


def begun(w, **options):
    """Packets with CONNECT and CONNECTED, and the offset after CONNECT."""
    tape = w.Tape(**options).hello().send(0, w.connect).send(0, w.connected, server=True, ack=len(w.connect))
    return tape, len(w.connect)


def problems(frame):
    return [problem.kind for problem in frame.capture_problems]


def test_a_gap_inside_a_frame_leaves_the_next_one_certain(w, kinds):
    tape, at = begun(w)
    frame, after = w.send(1, bytes(3000)), w.send(2)
    tape.send(at, frame[:1000]).send(at + 2000, frame[2000:] + after)
    frames, notes = w.read(tape)
    assert frames[2].data == frame[:1000]
    assert frames[2].missing == len(frame) - 1000
    assert frames[2].sync == "start"
    assert frames[2].packets == (6, 7)
    assert problems(frames[2]) == ["gap"]
    assert frames[3].data == after
    assert frames[3].sync == "anchored"
    assert problems(frames[3]) == []
    assert kinds(notes) == ["gap"]


def test_a_gap_that_ends_with_the_frame(w):
    tape, at = begun(w)
    frame, after = w.send(1, bytes(3000)), w.send(2)
    tape.send(at, frame[:1000]).send(at + len(frame), after)
    frames, _ = w.read(tape)
    assert [(x.sync, x.missing) for x in frames[2:]] == [("start", len(frame) - 1000), ("anchored", 0)]


def test_two_gaps_in_one_frame(w):
    tape, at = begun(w)
    frame, after = w.send(1, bytes(5000)), w.send(2)
    tape.send(at, frame[:1000]).send(at + 2000, frame[2000:3000]).send(at + 4000, frame[4000:] + after)
    frames, _ = w.read(tape)
    assert frames[2].data == frame[:1000]
    assert problems(frames[2]) == ["gap", "gap"]
    assert frames[3].data == after
    assert frames[3].sync == "anchored"


def test_a_gap_beyond_the_frame_starts_a_search(w, kinds):
    tape, at = begun(w)
    frame, lost, after = w.send(1, bytes(3000)), w.send(2), w.send(3)
    tape.send(at, frame[:1000]).send(at + len(frame) + len(lost), after)
    frames, notes = w.read(tape)
    assert frames[2].data == frame[:1000]
    assert problems(frames[2]) == ["gap"]
    assert frames[3].data == after
    assert frames[3].sync == "resync"
    assert problems(frames[3]) == ["gap"]
    assert kinds(notes) == ["gap", "resync"]


def test_the_search_skips_the_rest_of_a_frame_without_its_start(w):
    tape, at = begun(w)
    frame, after = w.send(1, b"text " * 600), w.send(2)
    tape.send(at + 1000, frame[1000:] + after).send(at + len(frame) + len(after), w.send(3))
    frames, notes = w.read(tape)
    assert [x.data for x in frames[2:]] == [after, w.send(3)]
    assert [x.sync for x in frames[2:]] == ["resync", "resync"]
    assert notes[-1].kind == "resync"
    assert notes[-1].length == len(frame) - 1000


def test_resync_never_becomes_certain_again(w):
    tape, at = begun(w)
    lost, big = w.send(1), w.send(2, bytes(3000))
    at += len(lost)
    tape.send(at, big[:1000]).send(at + 2000, big[2000:] + w.send(3))
    frames, _ = w.read(tape)
    assert [x.sync for x in frames[2:]] == ["resync", "resync"]


def test_a_header_in_two_packets(w):
    tape, at = begun(w)
    both = w.send(1) + w.send(2)
    for cut in range(1, len(both)):
        once = w.Tape()
        once.packets = list(tape.packets)
        once.send(at, both[:cut]).send(at + cut, both[cut:])
        frames, notes = w.read(once)
        assert [x.data for x in frames[2:]] == [w.send(1), w.send(2)]
        assert notes == []


def test_bytes_beyond_the_snap_length_are_a_gap_of_known_size(w, kinds):
    tape, at = begun(w)
    first, second, third = w.send(1, bytes(500)), w.send(2, bytes(500)), w.send(3)
    tape.send(at, first, cut=400)
    tape.send(at + len(first), second, cut=400)
    tape.send(at + len(first) + len(second), third)
    frames, notes = w.read(tape)
    assert [x.data for x in frames[2:]] == [first[:-400], second[:-400], third]
    assert [x.missing for x in frames[2:]] == [400, 400, 0]
    assert [x.sync for x in frames[2:]] == ["start", "anchored", "anchored"]
    assert [problems(x) for x in frames[2:]] == [["cut"], ["cut"], []]
    assert kinds(notes) == ["snaplen"]
    assert frames[2].command.send.sequence_id == 1


def test_a_search_follows_completely_truncated_frames(w):
    tape, at = begun(w)
    two, third = w.send(1, bytes(100)) + w.send(2, bytes(400)), w.send(3)
    tape.send(at, two, cut=len(two) - 50).send(at + len(two), third)
    frames, notes = w.read(tape)
    assert [x.data for x in frames[2:]] == [two[:50], third]
    assert [x.sync for x in frames[2:]] == ["start", "resync"]
    assert [note.kind for note in notes] == ["snaplen"]


def test_a_frame_too_short_for_its_command_type(w, kinds):
    tape, at = begun(w)
    frame = w.send(1, bytes(100))
    tape.send(at, frame, cut=len(frame) - 9).send(at + len(frame), w.send(2))
    frames, notes = w.read(tape)
    assert [x.data for x in frames[2:]] == [w.send(2)]
    assert frames[2].sync == "anchored"
    assert kinds(notes) == ["snaplen", "leftover"]


@pytest.mark.parametrize(
    ("lengths", "word"),
    [
        (b"\x00\x00\x00\x00\x00\x00\x00\x00", "4"),
        (b"\xff\xff\xff\xff\x00\x00\x00\x05", "4294967299"),
        (b"\x80\x00\x00\x00\x00\x00\x00\x05", "2147483652"),
        (b"\x00\x00\x00\x10\x00\x00\x00\x40", "64"),
    ],
)
def test_an_impossible_frame_length(w, lengths, word):
    tape, at = begun(w)
    tape.send(at, w.send(1) + lengths + bytes(20)).send(at + len(w.send(1)) + 28, w.send(2) + w.send(3))
    frames, notes = w.read(tape)
    assert [x.data for x in frames[2:]] == [w.send(1), w.send(2), w.send(3)]
    assert [x.sync for x in frames[2:]] == ["start", "resync", "resync"]
    assert notes[0].kind == "length"
    assert notes[0].offset == at + len(w.send(1))
    assert word in notes[0].text


def test_connected_raises_the_frame_limit(w):
    from pcli.codec.proto import pb
    from pcli.codec.wire import push_frame

    big = w.send(1, bytes(6_000_000))
    for announced, whole in ((0, False), (7_000_000, True)):
        hello = push_frame(pb.CommandConnected(server_version="b", max_message_size=announced))
        tape = w.Tape().hello().send(0, w.connect).send(0, hello, server=True, ack=len(w.connect))
        at = len(w.connect)
        for start in range(0, len(big), 60_000):
            tape.send(at + start, big[start : start + 60_000])
        frames, _ = w.read(tape)
        assert any(x.data == big for x in frames) is whole


def test_unknown_commands_are_kept_at_certain_positions(w):
    tape, at = begun(w)
    unknown = b"\x00\x00\x00\x08\x00\x00\x00\x04\x08\x7a\xd2\x07"
    frames, notes = w.read(tape.send(at, unknown + w.send(1)))
    assert [x.type for x in frames[2:]] == [0x7A, 6]
    assert notes == []


def payload_of_frames(w, count):
    return b"".join(w.send(1000 + number, bytes(number % 50)) + w.ack(number) for number in range(count))


def test_frames_inside_payloads_are_not_extracted(w):
    tape, at = begun(w)
    outer = [w.send(number, payload_of_frames(w, 30)) for number in range(5)]
    stream = b"".join(outer)
    for start in range(0, len(stream), 700):
        tape.send(at + start, stream[start : start + 700])
    frames, notes = w.read(tape)
    assert [x.data for x in frames[2:]] == outer
    assert notes == []


@pytest.mark.parametrize("lost", range(0, 24, 2))
def test_payloads_with_frames_after_a_gap(w, lost):
    """Bytes inside the incomplete frame may be extracted as marked frames. The frames after it must be found."""
    tape, at = begun(w)
    outer = [w.send(number, payload_of_frames(w, 30)[: -3 - number]) for number in range(8)]
    stream = b"".join(outer)
    pieces = range(0, len(stream), 700)
    for number, start in enumerate(pieces):
        if number != lost:
            tape.send(at + start, stream[start : start + 700])
    frames, _ = w.read(tape)
    starts = [len(b"".join(outer[:index])) for index in range(len(outer))]
    whole = [
        frame for frame, start in zip(outer, starts) if start + len(frame) <= lost * 700 or start >= lost * 700 + 700
    ]
    found = [x.data for x in frames]
    assert [frame for frame in whole if frame not in found] == []
    invented = [x for x in frames[2:] if not x.missing and x.data not in outer]
    assert {x.sync for x in invented} <= {"resync"}


def losses(w, packets, base, lost):
    """Read without the lost packets: return the missing frames and the frames that no peer sent."""
    frames, notes = w.read(w.file([packet for packet in packets if packet.number not in lost]))
    sent = [(x.stream.client, x.from_client, x.data) for x in base]
    found = [(x.stream.client, x.from_client, x.data) for x in frames if not x.missing]
    kept = [key for key, x in zip(sent, base) if not lost & set(x.packets)]
    missing = [key for key in set(kept) if found.count(key) < kept.count(key)]
    invented = [key for key in found if key not in set(sent)]
    return missing, invented, notes


@pytest.mark.parametrize(
    "name", ["python/01-exclusive-unbatched.pcapng", "python/10-shared-redelivery.pcap", "go/chunks.pcap"]
)
@pytest.mark.parametrize("step", [3, 7, 23, 90])
def test_real_traffic_with_every_nth_packet_lost(w, small_captures, name, step):
    """Exactly the frames whose packets are all captured are found, in comparison with the lossless capture."""
    packets = w.packets((small_captures / name).read_bytes())
    base, _ = w.read(w.file(packets))
    lost = {packet.number for packet in packets if packet.number % step == step - 1}
    missing, invented, _ = losses(w, packets, base, lost)
    assert missing == []
    assert invented == []
