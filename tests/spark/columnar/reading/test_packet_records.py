"""Records of pcap files as columns equal the packets of the object path, for windows of all sizes."""

from __future__ import annotations

import io
import random

import pytest

from pcli.codec.capture import pcap
from pcli.codec.capture.files import open_source
from pcli.codec.capture.packets import Interface
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.reading.packet_records import pcap_records, pcap_windows, records_of


def plain(windows):
    """Return the packets of windows from the object path, and the error at their end."""
    rows = []
    try:
        for data, records in windows:
            rows += [(data[start:end], wire, time_ns, face.link) for start, end, wire, time_ns, face in records]
    except CaptureError as error:
        return rows, (error.text, error.offset)
    return rows, None


def together(windows):
    return plain((one.data, [one.record(index) for index in range(len(one))]) for one in windows)


def packets(count):
    dice = random.Random(count)
    sizes = [dice.choice([0, 1, 60, 1500]) for _ in range(count)]
    return [
        (number * 1_000_000_000 + 7000, dice.randbytes(size), size + number % 3) for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("nanos", "extra"), [(True, 0), (False, 0), (False, 8)])
@pytest.mark.parametrize("size", [1, 100, 5000, 1 << 20])
def test_every_kind_of_pcap(both, order, nanos, extra, size):
    blob = both.pcap(packets(200), 113, order, nanos, extra)
    results = plain(pcap.pcap_windows(open_source(io.BytesIO(blob))))
    assert together(pcap_windows(open_source(io.BytesIO(blob)), size)) == results
    assert len(results[0]) == 200


@pytest.mark.parametrize("seed", range(60))
def test_cut_and_damaged_files_end_at_the_same_place(both, seed):
    dice = random.Random(seed)
    blob = bytearray(both.pcap(packets(30)))
    if seed % 2:
        at = dice.randrange(24, len(blob) - 4)
        blob[at : at + 4] = dice.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\2\0"])
    blob = bytes(blob[: dice.randrange(10, len(blob))])
    results = plain(pcap.pcap_windows(open_source(io.BytesIO(blob))))
    for size in (1, 300, 1 << 20):
        assert together(pcap_windows(open_source(io.BytesIO(blob)), size)) == results


def test_complete_records_from_an_offset(both):
    blob = both.pcap([(1, b"first", 5), (2, b"second", 6), (3, b"", 9)])
    form = pcap.PcapFormat(blob[:24])
    for end, count, position in ((len(blob), 3, len(blob)), (len(blob) - 1, 2, 24 + 21 + 22), (60, 1, 45), (40, 0, 24)):
        records, after = pcap_records(blob[:end], 24, form)
        assert (len(records), after) == (count, position)
    records, _ = pcap_records(blob, 45, form)
    assert [records.record(index)[:4] for index in range(2)] == [(61, 67, 6, 2), (83, 83, 9, 3)]


def test_times_that_are_too_late_are_the_last_there_is():
    face = Interface(1)
    records = records_of((b"ab", [(0, 1, 1, 1 << 70, face), (1, 2, 5, 3, face.after_left_out())]))
    assert records.time_ns.tolist() == [(1 << 63) - 1, 3]
    assert records.record(1) == (1, 2, 5, 3, face.left_out)


def test_times_that_are_too_early_are_the_first_there_is():
    face = Interface(1)
    face.offset_ns = -(1 << 63) * 1_000_000_000  # the minimum of if_tsoffset
    records = records_of((b"ab", [(0, 1, 1, face.time(5), face), (1, 2, 5, -3, face)]))
    assert records.time_ns.tolist() == [1 - (1 << 63), -3]
