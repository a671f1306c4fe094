"""The columnar reader compared with the object path, for windows of all sizes."""

from __future__ import annotations

import gzip
import io
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pcli.codec.capture import NOTE_KINDS, PcapngWriter, ReadOptions, connections, streams
from pcli.codec.capture.packets import LEFT_OUT, Packet
from pcli.codec.errors import CaptureError
from pcli.spark.columnar.reading import capture_reader, tcp_segments, window_decoder
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.columnar.reading.window_frames import WindowFrames
from tests.codec.capture.foreign_traffic import BOTH_GAPS, CONNECTIONS, Foreign
from tests.spark.columnar.odd_captures import CAPTURES
from tests.spark.columnar.read_windows import read_places
from tests.step_budget import step_budget

WHOLE = 1 << 24


def paths(folder):
    kinds = (".pcap", ".pcapng", ".gz", ".zst")
    found = sorted(path for path in folder.rglob("*") if path.suffix in kinds)
    assert found
    return found


@pytest.fixture
def eager(monkeypatch):
    """Process even few packets together; otherwise most packets of small captures are processed one by one."""
    monkeypatch.setattr(window_decoder, "FIRST", 1)
    monkeypatch.setattr(window_decoder, "LATER", 2)
    monkeypatch.setattr(capture_reader, "SMALL", 2)


@pytest.fixture
def slow(monkeypatch):
    """Counts the packets that `TcpReassembly.segment` processes."""
    calls = Counter()
    original = streams.TcpReassembly.segment

    def counted(self, segment, packet, time_ns):
        calls["segment"] += 1
        original(self, segment, packet, time_ns)

    monkeypatch.setattr(streams.TcpReassembly, "segment", counted)
    return calls


# -- real captures -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_corpus(both, captures):
    for path in paths(captures):
        blob = path.read_bytes()
        results = both.objects([blob])
        for size in (WHOLE, 5000):
            assert both.columns([blob], size) == results, path


@pytest.mark.slow
def test_the_corpus_in_stretches_of_any_length(both, captures, eager):
    for path in paths(captures):
        both.same([path.read_bytes()], 30_000)


def test_windows_of_one_packet(both, small_captures, eager):
    for path in paths(small_captures)[::3]:
        both.same([path.read_bytes()], 1)


def test_a_rotated_recording(both, small_captures):
    blobs = [path.read_bytes() for path in paths(small_captures)[:6]]
    whole = both.same(blobs, 20_000)
    assert len(whole) > sum(len(both.objects([blob])) for blob in blobs) // 2


@pytest.mark.parametrize("seed", range(8))
def test_real_captures_mutated(both, small_captures, eager, seed):
    dice = random.Random(seed)
    for path in dice.sample([path for path in paths(small_captures) if path.stat().st_size < 200_000], 6):
        link, packets = both.packets_of(path)
        blob = both.pcap(both.mutated(packets, dice, dice.choice([0.002, 0.01, 0.05])), link)
        both.same([blob], dice.choice([1, 3000, 30_000, WHOLE]))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_files(both, small_captures, seed):
    dice = random.Random(seed)
    name = dice.choice(["python/01-exclusive-unbatched.pcapng", "python/37-packets-lost.pcap", "java/cut-packets.pcap",
                        "python/03-compression-lz4.pcap.gz", "python/04-compression-zlib.pcapng.zst"])  # fmt: skip
    data = bytearray((small_captures / name).read_bytes())
    for _ in range(dice.choice([0, 1, 5])):
        at = dice.randrange(len(data))
        data[at : at + dice.randrange(5)] = dice.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"", dice.randbytes(7)])
    if dice.random() < 0.4:
        del data[dice.randrange(len(data)) :]
    blobs = [bytes(data)]
    results = ended(both.objects, blobs)
    for size in (1, 4000, WHOLE):
        assert ended(lambda size=size: both.columns(blobs, size)) == results


def ended(read, *what):
    """Return the results, or the error at the end."""
    try:
        return read(*what)
    except CaptureError as error:
        return str(error), error.offset


# -- made-up traffic -----------------------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(BOTH_GAPS, 1)
@given(CONNECTIONS, st.sampled_from([1, 500, WHOLE]))
def test_the_work_for_each_packet_of_foreign_traffic_is_limited(both, eager, talks, size):
    packets = Foreign(talks).packets
    with step_budget(3000 * (len(packets) + 10)):
        both.same([both.pcap([(one.time_ns, one.data, one.wire_length) for one in packets])], size)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CAPTURES, st.sampled_from([1, 500, WHOLE]))
def test_captures_with_few_packets_or_none_of_pulsar(both, eager, blobs, size):
    both.same(blobs, size)


def test_packets_of_unknown_link_types_and_cut_headers_are_counted(both, eager):
    _, packets = both.wrapped(both.talk(random.Random(5), 100), "ethernet")
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for number, (time_ns, data, wire) in enumerate(packets):
        link, data = [(1, data), (127, data), (1, data[: number % 40]), (258, data)][number % 4]
        writer.packet(Packet(number, time_ns, link, data, wire))
    for size in (1, 5000, WHOLE):
        notes = [row for row in both.same([file.getvalue()] * 2, size) if row[0] == "Note" and "unread" in row]
        assert len(notes) == 6


def test_packets_without_tcp(both):
    assert both.same([both.pcap([(number, bytes(60), 60) for number in range(100)])], WHOLE) == []


@pytest.mark.parametrize("seed", range(40))
def test_traffic_mutated(both, eager, seed):
    dice = random.Random(seed)
    link, packets = both.wrapped(both.talk(dice, dice.choice([100, 600])), dice.choice(sorted(both.WRAPS)))
    packets = both.mutated(packets, dice, dice.choice([1e-9, 0.002, 0.02]))
    options = ReadOptions(ends=True, max_frame_size=dice.choice([5 << 20, 5 << 20, 4000, 2000]))
    results = both.same([both.pcap(packets, link)], dice.choice([3000, 30_000, WHOLE]), options)
    assert len(results) > 10


@pytest.mark.parametrize("seed", range(40))
def test_connections_are_left_as_the_object_path_leaves_them(both, eager, seed):
    """Every field of every connection is equal, even if the reader is pickled and continued between windows."""
    dice = random.Random(seed)
    link, packets = both.wrapped(both.talk(dice, 400), "ethernet" if seed % 2 else dice.choice(sorted(both.WRAPS)))
    packets = both.mutated(packets, dice, dice.choice([1e-9, 0.01]))
    blob = both.pcap(packets[: dice.randrange(len(packets))], link)
    options = ReadOptions(ends=True, max_frame_size=dice.choice([5 << 20, 10_000]))
    state = both.object_state(blob, options)
    assert both.column_state(blob, dice.choice([2000, 20_000, WHOLE]), options, lambda: dice.random() < 0.3) == state


def test_a_reader_continues_from_the_state_of_another(both):
    dice = random.Random(1)
    link, packets = both.wrapped(both.talk(dice, 600), "ethernet")
    packets = both.mutated(packets, dice, 0.005)
    results = both.objects([both.pcap(packets, link)])
    rows = []
    state = None
    for at in range(0, len(packets), 150):
        carried = both.reader_of(state)
        rows += both.taken(carried, both.pcap(packets[at : at + 150], link))
        state = both.pickled(carried)
    last = both.reader_of(state)
    rows += both.places_rows(WindowFrames().places()[0], [(0, note) for note in last.unread("part 0")])
    assert rows + both.places_rows(last.end(), last.notes) == results


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ethernet", "ethernet, IPv6", "vlan", "qinq, IPv6", "no length", "no length, IPv6",
                                  "cooked", "cooked 2, IPv6", "null", "null, big", "loop", "raw", "raw, IPv6", "IPv4",
                                  "IPv6", "padded"])  # fmt: skip
def test_ordinary_traffic_is_processed_together(both, slow, name):
    """Both paths give the same results; this test asserts that the fast one is used."""
    link, packets = both.wrapped(both.talk(random.Random(3), 3000, mss=1400), name)
    blob = both.pcap(packets, link)
    for _ in read_places(both.files_of([blob])):
        pass
    assert slow["segment"] < len(packets) // 20
    both.same([blob], WHOLE)


def test_a_resynchronized_direction_is_processed_together(both, slow):
    _, packets = both.wrapped(both.talk(random.Random(4), 3000), "ethernet")
    blob = both.pcap(packets[500:])
    for _ in read_places(both.files_of([blob])):
        pass
    assert slow["segment"] < len(packets) // 3
    results = both.same([blob], WHOLE)
    assert any(row[-2] == "resync" for row in results)
    # The same beyond the number of bytes after which such a direction is trusted.
    both.same([blob], 40_000, ReadOptions(ends=True, max_frame_size=6000))


def test_a_frame_that_is_none_costs_its_own_packets_only(both, slow):
    segments = both.talk(random.Random(5), 3000, connections=2)
    half = len(segments) // 2
    at = next(index for index, one in enumerate(segments) if index > half and len(one[-1]) > 1000)
    torn = bytearray(segments[at][-1])
    for place in range(0, len(torn) - 4, 7):
        torn[place : place + 4] = b"\xff\xff\xff\xff"
    segments[at] = (*segments[at][:-1], bytes(torn))
    _, packets = both.wrapped(segments, "ethernet")
    for _ in read_places(both.files_of([both.pcap(packets)])):
        pass
    assert slow["segment"] < len(packets) // 3
    assert {"length", "resync"} <= {row[2] for row in both.same([both.pcap(packets)], WHOLE) if row[0] == "Note"}


def test_several_interfaces_fragments_and_left_out(both, eager):
    """Return a pcapng with two link types, a fragmented packet, and a packet with the comment of excerpts."""
    dice = random.Random(6)
    segments = both.talk(dice, 300)
    large = [index for index, one in enumerate(segments) if len(one[-1]) == 1400 and index % 50]
    gap = large[len(large) // 2]
    side = [index for index, one in enumerate(segments) if index > gap and one[-1] and one[:2] == segments[gap][:2]]
    behind = side[0]
    file = io.BytesIO()
    writer = PcapngWriter(file)
    for index, one in enumerate(segments):
        name = ("ethernet", "cooked 2")[index % 2]
        link, ((time_ns, data, wire),) = both.wrapped([one], name)
        if index == gap:
            continue
        if index % 50 == 0 and len(one[-1]) > 100 and index != behind:
            whole = both.ip4_of(one)
            for start in range(0, len(whole) - 20, 64):
                more = 0x2000 if start + 64 < len(whole) - 20 else 0
                piece = both.fragment(whole, start, more, index)
                writer.packet(Packet(0, time_ns, 1, both.ETHERNET + b"\x08\0" + piece, 34 + 64))
        else:
            writer.packet(Packet(0, time_ns, link, data, wire, left_out=index == behind))
    blob = file.getvalue()
    assert LEFT_OUT in blob
    for size in (2000, WHOLE):
        results = both.same([blob], size)
    assert any("were omitted from this excerpt" in str(row) for row in results)


# -- bounds --------------------------------------------------------------------------------------------------------


def test_more_connections_than_are_remembered(both, eager, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(window_decoder, "MAX_CONNECTIONS", 8)
    link, packets = both.wrapped(both.talk(random.Random(7), 600, connections=30), "ethernet")
    results = both.same([both.pcap(packets, link)], WHOLE)
    assert any("evicted" in str(row) for row in results)


def test_colliding_hashes_of_keys(both, monkeypatch):
    monkeypatch.setattr(tcp_segments, "FACTORS", tcp_segments.FACTORS * 0)
    both.same([both.pcap(both.wrapped(both.talk(random.Random(8)), "ethernet")[1])], WHOLE)


def test_no_capture_at_all(both):
    for blobs in ([], [b""], [b"nothing"], [b"nothing", b""]):
        results = ended(both.objects, blobs)
        assert isinstance(results[0], str)
        assert ended(both.columns, blobs, WHOLE) == results


def test_packed_parts_and_one_that_is_none(both):
    dice = random.Random(9)
    link, packets = both.wrapped(both.talk(dice, 300), "ethernet")
    first, second = both.pcap(packets[:300], link), both.pcap(packets[300:], link)
    results = both.same([b"none", gzip.compress(first), b"", second[:-7]], 9000)
    assert [row[2] for row in results if row[0] == "Note"].count("file") == 3
    assert {row[2] for row in results if row[0] == "Note"} <= set(NOTE_KINDS)


def test_counters_of_a_reader(both):
    _, packets = both.wrapped(both.talk(random.Random(10), 300, connections=4), "ethernet")
    reader = WindowReader()
    both.taken(reader, both.pcap(packets))
    assert sorted(reader.streams) == [0, 1, 2, 3]
    assert {stream.server[1] for stream in reader.streams.values()} == {6650}
    assert reader.packet == len(packets)
    assert reader.fed == sum(1 for one in packets if len(one[1]) > 54)
    # A connection is closed only when both sides have ended it.
    assert reader.note_turns == [note.packet + 1 for _, note in reader.notes]
    assert len(reader.notes) == 3
    reader.end()
    assert reader.note_turns == [len(packets)] * len(reader.notes)
