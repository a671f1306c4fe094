"""The splits of any size contain the packets of the whole file, and wrong boundaries are corrected."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from struct import pack

import pytest

from pcli.codec.capture import Note, Packet, PcapngWriter, read_packets
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.input.read_plan import plan
from pcli.spark.input.splits import Split, SplitEnd, SplitReader, corrected_splits

Plain = tuple[int, int, bytes, int]


def pcap(packets: list[Plain], *, order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    """Return a pcap of packets: time, link type, bytes, wire length."""
    out = pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, 1)
    for time_ns, _, data, wire in packets:
        units = 1 if magic == 0xA1B23C4D else 1000
        out += pack(order + "IIII", time_ns // 10**9, time_ns % 10**9 // units, len(data), wire) + data
    return out


def pcapng(packets: list[Plain]) -> bytes:
    out = io.BytesIO()
    writer = PcapngWriter(out)
    for number, (time_ns, link, data, wire) in enumerate(packets, 1):
        writer.packet(Packet(number, time_ns, link, data, wire))
    return out.getvalue()


def traffic(count: int, seed: int, *, links: tuple[int, ...] = (1,)) -> list[Plain]:
    """Create packets of any length and content, some of which contain captures."""
    chance = random.Random(seed)
    out: list[Plain] = []
    time_ns = 1_700_000_000 * 10**9
    for _ in range(count):
        time_ns += chance.randrange(10**6) * 1000
        data = chance.randbytes(chance.choice((40, 60, 1500, chance.randrange(40, 9000))))
        if chance.random() < 0.1:
            data = b"e" * 50 + pcap(out[-2:]) + b"e" * 9
        out.append((time_ns, chance.choice(links), data, len(data)))
    return out


def packets_of(records: Records) -> list[Plain]:
    rows = (records.record(row) for row in range(len(records)))
    return [(time_ns, face.link, records.data[start:end], wire) for start, end, wire, time_ns, face in rows]


def read(split: Split, window: int = 5000) -> tuple[list[Plain], list[Note], SplitEnd]:
    reader = SplitReader(split, window=window)
    items = list(reader.items())
    notes = [item for item in items if isinstance(item, Note)]
    return [one for item in items if isinstance(item, Records) for one in packets_of(item)], notes, reader.ended


def read_all(splits: list[Split]) -> tuple[list[Plain], list[Note], int]:
    """Read and correct splits until nothing changes, as a job does; return packets, the note and the splits read."""
    done: dict[Split, tuple[list[Plain], list[Note], SplitEnd]] = {}
    while True:
        done.update({split: read(split) for split in splits if split not in done})
        mended = corrected_splits(splits, [done[split][2] for split in splits])
        if mended == splits:
            return [one for split in splits for one in done[split][0]], done[splits[-1]][1], len(done)
        splits = mended


def whole(path: Path) -> list[Plain]:
    with path.open("rb") as file:
        items = [item for item in read_packets([(str(path), file)]) if isinstance(item, Packet)]
    return [(item.time_ns, item.link, item.data, item.wire_length) for item in items]


FORMATS: dict[str, Callable[[list[Plain]], bytes]] = {
    "pcap": pcap,
    "pcap-big": lambda packets: pcap(packets, order=">"),
    "pcap-nanos": lambda packets: pcap(packets, magic=0xA1B23C4D),
    "pcapng": pcapng,
}


@pytest.mark.parametrize("form", FORMATS)
def test_any_size_gives_the_same_packets(tmp_path: Path, form: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(FORMATS[form](traffic(400, 1)))
    expected, chance = whole(path), random.Random(2)
    assert len(expected) == 400
    for size in [chance.randrange(500, 400_000) for _ in range(30)]:
        (recording,) = plan([str(path)], split=size).recordings
        splits = list(recording.splits)
        assert [split.end for split in splits[:-1]] == [split.start for split in splits[1:]]
        assert splits[-1].end == -1
        packets, notes, count = read_all(splits)
        assert packets == expected
        assert not notes
        assert count == len(splits), "a cut was wrong in ordinary traffic"
    assert len(plan([str(path)], split=20_000).recordings[0].splits) > 20


def test_a_wrong_boundary_is_detected_and_corrected(tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    path.write_bytes(pcap(traffic(300, 3)))
    splits = list(plan([str(path)], split=50_000).recordings[0].splits)
    assert len(splits) > 6
    for wrong in (range(1, 2), range(2, 4), range(1, len(splits))):
        moved = list(splits)
        for index in wrong:
            moved[index] = replace(moved[index], start=moved[index].start + 5)
            moved[index - 1] = replace(moved[index - 1], end=moved[index].start)
        packets, notes, _ = read_all(moved)
        assert packets == whole(path)
        assert not notes


@pytest.mark.parametrize("damage", [b"\xff" * 16, b""])
def test_splits_after_damage_are_removed(tmp_path: Path, damage: bytes) -> None:
    whole_file = pcap(traffic(300, 4))
    path, half = tmp_path / "file.pcap", len(pcap(traffic(150, 4)))
    path.write_bytes(whole_file[:half] + damage + (whole_file[half:] if damage else whole_file[half : half + 30]))
    splits = list(plan([str(path)], split=50_000).recordings[0].splits)
    packets, (note,), _ = read_all(splits)
    assert packets == whole(path)
    assert len(packets) == 150
    assert note.kind == "file"
    assert note.offset == half
    assert note.source == str(path)


def test_later_interfaces_and_sections_reach_the_next_splits(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    links = traffic(100, 5) + traffic(100, 6, links=(1, 113))
    path.write_bytes(pcapng(links) + pcapng(traffic(100, 7, links=(276, 1))) + pcapng(traffic(100, 8, links=(101,))))
    expected, chance = whole(path), random.Random(9)
    assert {link for _, link, _, _ in expected} == {1, 113, 276, 101}
    for size in [chance.randrange(500, 300_000) for _ in range(20)]:
        packets, notes, _ = read_all(list(plan([str(path)], split=size).recordings[0].splits))
        assert packets == expected
        assert not notes
