"""Whole files: real captures compared with their truth files, other file formats, damaged files."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pcli.codec.capture import (
    CapturedFrame,
    Note,
    Packet,
    Part,
    order_parts,
    pull_first_time,
    read_capture,
    read_packets,
)
from pcli.codec.errors import CaptureError
from pcli.codec.wire import name_of

DAMAGED = {"30-snaplen-96", "cut-packets", "36-ends-mid-frame", "36b-ends-mid-record", "37-packets-lost"}


def files_of(truth: Path) -> list[io.BytesIO]:
    """Return the capture next to a truth file, its parts in order."""
    name = truth.name.removesuffix(".truth.json")
    folder = truth.parent / name
    paths = list(folder.iterdir()) if folder.is_dir() else list(truth.parent.glob(name + ".pcap*"))
    parts = {path.name: path.read_bytes() for path in paths}
    order = order_parts(Part(name, pull_first_time(io.BytesIO(data))) for name, data in parts.items())
    return [io.BytesIO(parts[part.name]) for part in order]


def counted(frames: list[CapturedFrame]) -> dict[str, Counter[str]]:
    """Count the complete frames per side and type."""
    found: dict[str, Counter[str]] = {"client": Counter(), "broker": Counter()}
    for frame in frames:
        if not frame.missing:
            found["client" if frame.from_client else "broker"][name_of(frame.type)] += 1
    return found


def truth_of(folder: Path) -> list[tuple[Path, dict]]:
    return [(path, json.loads(path.read_text())) for path in sorted(folder.glob("*.truth.json"))]


def held(truth: dict, key: str = "frames_by_type") -> dict[str, Counter[str]] | None:
    sides = truth.get(key)
    return {side: Counter(sides.get(side, {})) for side in ("client", "broker")} if sides else None


def check_folder(w, folder: Path) -> int:
    checked = 0
    for path, truth in truth_of(folder):
        name = path.name.removesuffix(".truth.json")
        expected = held(truth) or held(truth, "frames_by_type_undamaged")
        if name in DAMAGED or expected is None:
            continue
        frames, notes = w.read(*files_of(path))
        assert counted(frames) == expected, name
        assert not [note for note in notes if note.kind in ("gap", "overlap", "length", "file")], name
        checked += 1
    return checked


@pytest.mark.parametrize("folder", ["flex", "go", "java", "python", "rust"])
def test_every_capture_has_the_frames_of_its_truth_file(w, captures, folder):
    assert check_folder(w, captures / folder) > 4


@pytest.mark.parametrize("folder", ["flex", "go", "java", "python", "rust"])
def test_the_committed_captures_have_the_frames_of_their_truth_files(w, small_captures, folder):
    assert check_folder(w, small_captures / folder) > 0


def test_repeated_and_reordered_packets_give_certain_frames(w, captures):
    frames, notes = w.read(*files_of(captures / "python/38-repeated-reordered.truth.json"))
    assert {frame.sync for frame in frames if not frame.stream.midstream} == {"start"}
    assert notes == []


@pytest.mark.parametrize("name", ["python/36-ends-mid-frame", "python/36b-ends-mid-record", "python/37-packets-lost"])
def test_damaged_captures_give_no_false_frames(w, captures, name):
    path = captures / f"{name}.truth.json"
    frames, _ = w.read(*files_of(path))
    whole = held(json.loads(path.read_text()), "frames_by_type_undamaged")
    assert whole is not None
    found = counted(frames)
    assert all(not found[side] - whole[side] for side in whole)
    assert all(not frame.problems for frame in frames if not frame.missing)


def test_a_capture_that_ends_inside_a_frame_gives_its_start(w, captures):
    frames, notes = w.read(*files_of(captures / "python/36-ends-mid-frame.truth.json"))
    cut = [frame for frame in frames if frame.missing]
    assert [frame.capture_problems[0].kind for frame in cut] == ["cut"]
    assert notes == []


def test_a_file_that_ends_inside_a_record_reports_the_position(w, captures):
    path = captures / "python/36b-ends-mid-record.pcap"
    frames, notes = w.read(path.read_bytes())
    truth = json.loads(path.with_name("36b-ends-mid-record.truth.json").read_text())
    assert [note.kind for note in notes] == ["file"]
    assert notes[0].packet == truth["damage"][0]["whole_packets"]
    assert 0 < notes[0].offset < path.stat().st_size
    assert len(frames) > 200


def test_lost_packets_are_reported_and_later_frames_are_found(w, captures):
    """Ten packets with complete frames are deleted: only their frames are missing, with one gap for each."""
    path = captures / "python/37-packets-lost.truth.json"
    truth = json.loads(path.read_text())
    frames, notes = w.read(*files_of(path))
    gaps = [note for note in notes if note.kind == "gap"]
    assert len(gaps) == len(truth["damage"][0]["deleted_packets"])
    behind = Counter((frame.stream.number, frame.from_client, frame.offset) for frame in frames)
    assert all(behind[note.stream.number, note.from_client, note.offset + note.length] for note in gaps)
    whole = held(truth, "frames_by_type_undamaged")
    missing = sum((whole[side] - counted(frames)[side]).total() for side in whole)
    assert len(gaps) <= missing <= 2 * len(gaps)


def test_packets_truncated_at_96_bytes_give_frame_headers(w, captures):
    frames, notes = w.read((captures / "python/30-snaplen-96.pcap").read_bytes())
    assert [note.kind for note in notes].count("snaplen") == 1
    # The truth file lists what the application sent. The metadata of a batch contain its number of messages.
    events = json.loads((captures / "python/30-snaplen-96.truth.json").read_text())["events"]
    sent = [frame.command.send.num_messages for frame in frames if name_of(frame.type) == "SEND"]
    assert sum(sent) == sum(event["type"] == "produced" for event in events)
    assert all(frame.capture_problems for frame in frames if frame.missing)


def test_packets_truncated_at_120_bytes(w, captures):
    path = captures / "java/cut-packets.truth.json"
    frames, notes = w.read(*files_of(path))
    least = held(json.loads(path.read_text()))
    assert least is not None
    assert all(not least[side] - counted(frames)[side] for side in least)
    assert "snaplen" in [note.kind for note in notes]
    assert all(not frame.problems for frame in frames if not frame.missing)


def test_tls_is_reported_once(w, captures):
    frames, notes = w.read((captures / "python/21-tls.pcapng").read_bytes())
    assert frames == []
    assert [note.kind for note in notes] == ["tls"]
    assert notes[0].stream.kind == "tls"


def test_other_protocols_are_reported_once_per_stream(w, captures):
    _, notes = w.read((captures / "python/28-busy-system.pcapng").read_bytes())
    http = [note.stream.number for note in notes if note.kind == "http"]
    assert len(http) == len(set(http)) > 10
    assert {note.stream.server[1] for note in notes if note.kind == "http"} == {8080}
    assert 7007 in {note.stream.server[1] for note in notes if note.kind == "not-pulsar"}


def test_decode_as_overrides_the_bytes(w, small_captures):
    data = (small_captures / "python/01-exclusive-unbatched.pcapng").read_bytes()
    frames, notes = w.read(data, decode_as={6650: "other"})
    assert frames == []
    assert {note.kind for note in notes} == {"not-pulsar"}
    frames, _ = w.read(data, decode_as={6650: "pulsar"})
    assert len(frames) == len(w.read(data)[0])


class Dribble:
    """A file that returns one byte per read and has no other method."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.file.read(min(size, 1))


@pytest.mark.parametrize(
    "name",
    ["python/01-exclusive-unbatched.pcapng", "python/37-packets-lost.pcap", "python/03-compression-lz4.pcap.gz",
     "python/04-compression-zlib.pcapng.zst", "java/cut-packets.pcap"],
)  # fmt: skip
def test_a_file_read_in_single_bytes_gives_the_same_frames(w, small_captures, name):
    data = (small_captures / name).read_bytes()
    items = list(read_capture([("file0", Dribble(data))]))
    frames = [item for item in items if isinstance(item, CapturedFrame)]
    assert w.story((frames, [item for item in items if isinstance(item, Note)])) == w.story(w.once(data))


def resegmented(packets: list[Packet], size: int) -> list[Packet]:
    """Split every IPv4 TCP packet into segments of that size."""
    out = []
    for packet in packets:
        data = packet.data
        tcp = 14 + (data[14] & 15) * 4
        start = tcp + (data[tcp + 12] >> 4) * 4
        payload = data[start : 14 + int.from_bytes(data[16:18], "big")]
        seq = int.from_bytes(data[tcp + 4 : tcp + 8], "big")
        for at in range(0, max(len(payload), 1), size):
            piece = payload[at : at + size]
            fin = data[tcp + 13] if at + size >= len(payload) else data[tcp + 13] & ~1
            head = bytearray(data[:start])
            head[16:18] = (start - 14 + len(piece)).to_bytes(2, "big")
            head[tcp + 4 : tcp + 8] = (seq + at & 0xFFFFFFFF).to_bytes(4, "big")
            head[tcp + 13] = fin
            whole = bytes(head) + piece
            out.append(Packet(packet.number, packet.time_ns, 1, whole, len(whole)))
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["python/01-exclusive-unbatched.pcapng", "python/37-packets-lost.pcap", "java/late-capture.pcap"]
)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_segments_of_any_size_give_the_same_frames(w, small_captures, name, size):
    packets = w.packets((small_captures / name).read_bytes())[:150]
    whole, _ = w.read(w.file(packets))
    pieces, _ = w.read(w.file(resegmented(packets, size)))
    place = [(x.stream.number, x.from_client, x.offset, x.data, x.time_ns) for x in whole]
    assert sorted((x.stream.number, x.from_client, x.offset, x.data, x.time_ns) for x in pieces) == sorted(place)


def test_parts_of_a_capture_are_one_capture(w, small_captures):
    packets = w.packets((small_captures / "python/02-batched-keys-properties.pcap").read_bytes())
    whole = w.read(w.pcap(packets))
    for cut in (1, 20, 41, len(packets) - 1):
        parts = [w.pcap(packets[:cut]), w.pcap([]), w.pcap(packets[cut:], order=">")]
        assert w.story(w.read(*parts)) == w.story(whole)


def test_raw_packets_are_numbered_like_frames(w, small_captures):
    data = (small_captures / "python/02-batched-keys-properties.pcap").read_bytes()
    packets = {packet.number: packet for packet in w.packets(data)}
    frames, _ = w.read(data)
    for frame in frames:
        assert frame.time_ns == packets[frame.packet].time_ns
        last = packets[frame.packet].data
        assert frame.data[-min(len(frame.data), 8) :] in last


def test_no_input_is_an_error():
    with pytest.raises(CaptureError, match="no capture was given"):
        list(read_capture([]))


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"abc", "too short"),
        (b"this is no capture at all", "neither pcap nor pcapng"),
        (gzip.compress(b"nor is this, unpacked", mtime=0), "neither pcap nor pcapng"),
        (b"\x1f\x8b\x08\x00damaged", "gzip"),
        (b"\x28\xb5\x2f\xfd\xff", "zstd"),
    ],
)
def test_a_file_that_is_not_a_capture(data, word):
    with pytest.raises(CaptureError, match=word) as caught:
        list(read_capture([("some.pcap", io.BytesIO(data))]))
    assert "some.pcap" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(CaptureError, match=word):
        list(read_packets([("some.pcap", io.BytesIO(data))]))


def test_an_invalid_file_among_captures_is_a_note(w):
    good = w.pcap(w.Tape().hello().send(0, w.connect))
    for files in ([b"", good], [good, b"no capture"], [b"", good, b""]):
        frames, notes = w.read(*files)
        assert [frame.data for frame in frames] == [w.connect]
        assert [note.kind for note in notes] == ["file"] * (len(files) - 1)
        assert {note.source for note in notes} == {f"file{index}" for index, file in enumerate(files) if file != good}


def test_packets_that_cannot_be_decoded_are_counted(w):
    packets = [*w.Tape().hello().send(0, w.connect).packets]
    packets += [Packet(0, 9, 127, bytes(80), 80)] * 3 + [Packet(0, 9, 1, bytes(13), 13), Packet(0, 9, 5000, b"", 0)]
    packets.append(Packet(0, 9, 1, packets[3].data[:30], 100))
    frames, notes = w.read(w.file(packets), w.file(packets[:5]))
    assert len(frames) == 1
    assert [(note.kind, note.source, note.text) for note in notes] == [
        ("unread", "file0", "2 packets not decoded: truncated or damaged headers (link type ETHERNET (1))"),
        ("unread", "file0", "3 packets not decoded: the link type IEEE802_11_RADIOTAP (127) is not supported"),
        ("unread", "file0", "1 packet not decoded: the link type unknown (5000) is not supported"),
        ("unread", "file1", "1 packet not decoded: the link type IEEE802_11_RADIOTAP (127) is not supported"),
    ]


def test_a_thousand_interfaces(w):
    tape = w.Tape().hello()
    at = 0
    for number in range(1000):
        tape.send(at, w.send(number))
        at += len(w.send(number))
    packets = [replace(one, interface=f"eth{number}") for number, one in enumerate(tape.packets)]
    frames, notes = w.read(w.file(packets))
    assert len(frames) == 1000
    assert notes == []


def test_a_capture_without_packets_is_a_capture(w):
    assert w.read(w.pcap([])) == ([], [])


def test_progress_can_be_read_from_the_file(w):
    tape = w.Tape().hello()
    for number in range(30):
        tape.send(number * 60_000, bytes(60_000))
    file = io.BytesIO(w.pcap(tape))
    seen = {file.tell() for _ in read_packets([("", file)])}
    assert len(seen) > 4
    assert file.tell() == len(file.getvalue())


def test_memory_does_not_grow_with_the_file(w):
    import tracemalloc

    tape = w.Tape().hello().send(0, w.connect)
    at = len(w.connect)
    for number in range(2000):
        frame = w.send(number, bytes(1000))
        tape.send(at, frame)
        at += len(frame)
    file = w.file(tape)
    del tape
    peaks = []
    for packets in (500, 2000):
        tracemalloc.start()
        for count, _ in enumerate(read_capture([("", w.opened(file))])):
            if count == packets:
                break
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.5
