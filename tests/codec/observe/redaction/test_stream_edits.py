"""Edits of one direction."""

from pcli.codec.observe.redaction.stream_edits import Edits


def one(edits, start, old, filler=b"."):
    ((new_offset, data),) = edits.cut(start, old, filler)
    return new_offset, data


def test_a_replacement_shifts_later_bytes():
    edits = Edits()
    edits.put(0, 4, b"longer!")
    edits.put(4, 6, b"abc")
    assert one(edits, 0, b"aaaabbbbbb") == (0, b"longer!abc")
    assert one(edits, 10, b"secret") == (10, b"......")
    assert edits.new_offset(16) == 16


def test_a_frame_ends_in_the_same_packet():
    edits = Edits()
    edits.put(0, 100, b"short")
    assert one(edits, 0, b"-" * 60) == (0, b"shor")
    assert one(edits, 60, b"-" * 39) == (4, b"")
    assert one(edits, 99, b"-") == (4, b"t")
    grown = Edits()
    grown.put(0, 3, b"much longer")
    assert one(grown, 0, b"--") == (0, b"mu")
    assert one(grown, 2, b"-") == (2, b"ch longer")


def test_bytes_outside_frames_become_filler_of_the_same_size():
    edits = Edits()
    edits.put(10, 5, b"frame")
    assert one(edits, 0, b"s" * 20, b"\0") == (0, bytes(10) + b"frame" + bytes(5))


def test_kept_bytes_are_unchanged():
    edits = Edits()
    edits.put(0, 4, None)
    assert one(edits, 0, b"HTTP/1.1 200 OK") == (0, b"HTTP...........")
    assert one(edits, 2, b"TP") == (2, b"TP")


def test_an_omitted_range_is_a_gap_of_one_byte():
    edits = Edits()
    edits.put(0, 3, b"abc")
    edits.leave_out(3, 50)
    edits.leave_out(53, 7)
    edits.put(60, 3, b"xyz")
    assert edits.cut(0, b"-" * 63, b".") == [(0, b"abc"), (4, b"xyz")]
    assert edits.cut(60, b"---", b".") == [(4, b"xyz")]
    assert edits.cut(10, b"-" * 20, b".") == [(3, b"")]
    assert edits.resumes == {4}


def test_an_omitted_range_at_an_end_leaves_no_gap():
    edits = Edits()
    edits.leave_out(0, 50)
    edits.put(50, 3, b"abc")
    edits.leave_out(53, 40)
    edits.end_left_out()
    assert edits.cut(0, b"-" * 93, b".") == [(0, b"abc")]
    assert edits.new_offset(93) == 3
