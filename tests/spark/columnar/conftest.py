"""Helpers of the columnar tests: the object path and the columns, row by row, as plain values."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, Packet, ReadOptions, fast_path, read_capture, read_packets
from pcli.codec.capture.frame_extraction import FrameExtractor
from pcli.codec.capture.output import Output
from pcli.codec.capture.reading import opened
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.streams import TcpReassembly
from pcli.codec.proto import pb
from pcli.codec.wire import push_frame
from pcli.codec.wire.hot import push_ack, push_message, push_send, push_send_receipt
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.columnar.reading.packet_records import Records
from tests.spark.columnar.read_windows import read_places, windows


class Sliced:
    """Bytes and positions in them: start and size, or -1 for none."""

    data = "abc, déf \N{EURO SIGN}".encode() + b"\xff\xfe" + bytes(range(64, 100))
    places = st.lists(
        st.one_of(st.just((-1, -1)), st.tuples(st.integers(0, len(data)), st.integers(0, 12))), max_size=20
    )

    def wanted(self, places) -> list[bytes | None]:
        """Return the bytes at the positions, by slicing."""
        return [None if start < 0 else self.data[start : start + size] for start, size in places]

    def run(self, function, places):
        """Return the result of a function of bytes, starts and ends."""
        starts = np.array([start for start, _ in places], np.int64)
        ends = np.array([min(start + size, len(self.data)) for start, size in places], np.int64)
        return function(np.frombuffer(self.data, np.uint8), starts, ends)


@pytest.fixture(scope="session")
def sliced() -> Sliced:
    return Sliced()


OPTIONS = ReadOptions(ends=True)
FIN, SYN, ACK = 1, 2, 16
SYNC = ("start", "anchored", "resync")


def files_of(blobs):
    return [(f"part {number}", io.BytesIO(blob)) for number, blob in enumerate(blobs)]


def note_row(note):
    stream = note.stream
    seen = stream and (
        stream.number,
        stream.client,
        stream.server,
        stream.midstream,
        stream.opening,
        tuple(stream.bases),
    )
    return (type(note).__name__, seen, *(getattr(note, name) for name in note.__slots__ if name != "stream"))


def objects(blobs, options=OPTIONS):
    """Return the results of `read_capture`, one tuple per frame, note or end."""
    rows = []
    for item in read_capture(files_of(blobs), options):
        if isinstance(item, CapturedFrame):
            place = (item.packet, item.packets[0], item.time_ns, item.stream.number, item.from_client, item.offset)
            rows.append((item.data, *place, item.sync, item.capture_problems))
        else:
            rows.append(note_row(item))
    return rows


def places_rows(places, notes):
    """Return the same for places and the notes between them."""
    data = places.data.tobytes()
    rows = []
    waiting = list(notes)
    columns = (places.start, places.kept, places.packet, places.first_packet, places.time_ns, places.stream)
    more = (places.from_client, places.offset, places.sync)
    for row, (start, kept, *told) in enumerate(zip(*(column.tolist() for column in columns + more), strict=True)):
        while waiting and waiting[0][0] == row:
            rows.append(note_row(waiting.pop(0)[1]))
        rows.append((data[start : start + kept], *told[:-1], SYNC[told[-1]], places.trouble.get(row, ())))
    assert all(row == len(places) for row, _ in waiting)
    return rows + [note_row(note) for _, note in waiting]


def columns(blobs, size, options=OPTIONS):
    """Return the results of `read_places`, as `objects` does; turns must never decrease."""
    rows = []
    last = 0
    for places, notes in read_places(files_of(blobs), options, size):
        turns = places.turn.tolist()
        assert turns == sorted(turns)
        assert not turns or turns[0] >= last
        last = turns[-1] if turns else last
        rows += places_rows(places, notes)
    return rows


def same(blobs, size, options=OPTIONS):
    """Assert that both paths give the same results, and that there are any."""
    told = objects(blobs, options)
    assert columns(blobs, size, options) == told
    return told


def direction_state(direction):
    state = {
        name: getattr(direction, name) for name in direction.__slots__ if name not in ("peer", "connection", "stream")
    }
    state["budget"] = direction.budget.spent
    state["mode"] = mode_state(direction.mode)
    return state


def mode_state(mode):
    values = {name: getattr(mode, name) for name in mode.__slots__ if name != "_budget"}
    return type(mode), {name: mode_state(value) if name == "after" else value for name, value in values.items()}


def state_of(tcp):
    """Return the state of open connections without their recent packets."""
    names = ("last", "timer", "closing", "finished", "paused", "oriented")
    return [
        (
            each.stream.number,
            *(getattr(each, name) for name in names),
            each.ended and each.ended[1:],
            direction_state(each.there),
            direction_state(each.back),
        )
        for each in tcp.table.living
    ]


def object_state(blob, options=OPTIONS):
    """Return the state of the object path in the middle of a capture."""
    output, classifier = Output(), StreamClassifier(options.decode_as)
    tcp = TcpReassembly(output, FrameExtractor(output, classifier), classifier, options.max_frame_size)
    output.ends = True
    reader = fast_path.Reader(tcp, output)
    for name, source, _ in opened(files_of([blob])):
        for item in windows(name, source, 1 << 24):
            if isinstance(item, Records):
                reader.packets(item.data, [item.record(index) for index in range(len(item))])
    return state_of(tcp)


def column_state(blob, size, options=OPTIONS, handed_over: Callable[[], bool] = lambda: False):
    """Return the state of a columnar reader that is sometimes pickled and continued by another."""
    reader = WindowReader(options)
    for name, source, _ in opened(files_of([blob])):
        for item in windows(name, source, size):
            if isinstance(item, Records):
                reader.take(item)
                if handed_over():
                    reader = WindowReader(carried=pickle.loads(pickle.dumps(reader.fast)))
    return state_of(reader.tcp)


def pcap(packets, link=1, order="<", nanos=True, extra=0):
    """A pcap file of (time_ns, bytes, bytes on the wire)."""
    magic = 0xA1B2CD34 if extra else 0xA1B23C4D if nanos else 0xA1B2C3D4
    unit = 1 if nanos and not extra else 1000
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for time_ns, data, wire in packets:
        seconds, fraction = divmod(time_ns, 1_000_000_000)
        parts.append(struct.pack(order + "IIII", seconds, fraction // unit, len(data), wire) + bytes(extra) + data)
    return b"".join(parts)


def packets_of(path):
    """Link type and packets of a capture."""
    with path.open("rb") as file:
        found = [each for each in read_packets([("", file)]) if isinstance(each, Packet)]
    return found[0].link, [(each.time_ns, each.data, each.wire_length) for each in found]


def frame_of(dice, number):
    """Create a frame of a client or a broker, of any size."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1).SerializeToString()
    payload = dice.randbytes(dice.choice([0, 1, 10, 200, 200, 3000]))
    match dice.randrange(4):
        case 0:
            return push_send(1, number, 1, 0, metadata, payload), True
        case 1:
            return push_ack(1, 0, [(7, number, -1, -1)]), True
        case 2:
            return push_send_receipt(1, number, 7, number, 0), False
        case _:
            return push_message(1, 7, number, -1, 0, len(metadata).to_bytes(4, "big") + metadata + payload), False


def talk(dice, frames=400, connections=3, mss=1400):
    """Return segments of concurrent connections with random boundaries.

    Each segment is (connection, from client, flags, sequence number, acknowledgement, data). Some sequence numbers
    begin near the end of their range.
    """
    hello = (push_frame(pb.CommandConnect(client_version="a client", protocol_version=21)),
             push_frame(pb.CommandConnected(server_version="a broker", protocol_version=21)))  # fmt: skip
    segments = []
    waiting = {(each, client): b"" for each in range(connections) for client in (True, False)}
    seq = {key: dice.choice([1000, 0xFFFFFFFF, 0xFFFFF000, 1 << 31]) for key in waiting}

    def put(key, data=b"", flags=ACK):
        other = (key[0], not key[1])
        segments.append((*key, flags, seq[key], seq[other] if flags & ACK else 0, data))
        seq[key] = seq[key] + len(data) + bool(flags & (SYN | FIN)) & 0xFFFFFFFF

    for each in range(connections):
        put((each, True), flags=SYN)
        put((each, False), flags=SYN | ACK)
        put((each, True))
        put((each, True), hello[0])
        put((each, False), hello[1])
    for number in range(frames):
        data, client = frame_of(dice, number)
        key = (dice.randrange(connections), client)
        waiting[key] += data
        while waiting[key] and dice.random() < 0.7:
            size = dice.choice([1, 5, 9, 11, 12, 60, mss, mss, mss, mss])
            put(key, waiting[key][:size])
            waiting[key] = waiting[key][size:]
            if dice.random() < 0.5:
                put((key[0], not client))
    for key, data in waiting.items():
        for at in range(0, len(data), mss):
            put(key, data[at : at + mss])
    for each in range(connections - 1):
        put((each, True), flags=FIN | ACK)
        put((each, False), flags=FIN | ACK)
        put((each, True))
    return segments


def tcp_of(segment):
    """Return the TCP header and the data."""
    connection, client, flags, seq, ack, data = segment
    ports = (40000 + connection, 6650) if client else (6650, 40000 + connection)
    return struct.pack(">HHIIBBHHH", *ports, seq, ack, 0x50, flags, 9000, 0, 0) + data


def ip4_of(segment, length=None, fragment=0x4000, options=b"", number=1):
    """Return the packet with an IPv4 header."""
    tcp = tcp_of(segment)
    ends = (b"\x0a\0\0\x01", b"\x0a\0\0\x02") if segment[1] else (b"\x0a\0\0\x02", b"\x0a\0\0\x01")
    first = 0x45 + len(options) // 4
    size = 20 + len(options) + len(tcp) if length is None else length
    return struct.pack(">BBHHHBBH", first, 0, size, number, fragment, 64, 6, 0) + b"".join(ends) + options + tcp


def ip6_of(segment, length=None, extension=b""):
    """Return the packet with an IPv6 header, followed by a hop-by-hop header."""
    tcp = tcp_of(segment)
    ends = (bytes(15) + b"\1", bytes(15) + b"\2") if segment[1] else (bytes(15) + b"\2", bytes(15) + b"\1")
    size = len(extension) + len(tcp) if length is None else length
    return struct.pack(">IHBB", 6 << 28, size, 0 if extension else 6, 64) + b"".join(ends) + extension + tcp


_MACS = b"\2\0\0\0\0\1\2\0\0\0\0\2"
WRAPS = {
    "ethernet": (1, lambda one: _MACS + b"\x08\0" + ip4_of(one)),
    "padded": (1, lambda one: (_MACS + b"\x08\0" + ip4_of(one)).ljust(60, b"\0")),
    "ethernet, IPv6": (1, lambda one: _MACS + b"\x86\xdd" + ip6_of(one)),
    "vlan": (1, lambda one: _MACS + b"\x81\0\0\7\x08\0" + ip4_of(one)),
    "qinq, IPv6": (1, lambda one: _MACS + b"\x88\xa8\0\3\x81\0\0\7\x86\xdd" + ip6_of(one)),
    "three tags": (1, lambda one: _MACS + b"\x88\xa8\0\3\x81\0\0\7\x81\0\0\7\x08\0" + ip4_of(one)),
    "no length": (1, lambda one: _MACS + b"\x08\0" + ip4_of(one, length=0)),
    "no length, IPv6": (1, lambda one: _MACS + b"\x86\xdd" + ip6_of(one, length=0)),
    "IP options": (1, lambda one: _MACS + b"\x08\0" + ip4_of(one, options=b"\1\1\1\0")),
    "IPv6 extension": (1, lambda one: _MACS + b"\x86\xdd" + ip6_of(one, extension=b"\x06\0\1\4\0\0\0\0")),
    "cooked": (113, lambda one: bytes(14) + b"\x08\0" + ip4_of(one)),
    "cooked, vlan": (113, lambda one: bytes(14) + b"\x81\0\0\7\x08\0" + ip4_of(one)),
    "cooked 2": (276, lambda one: b"\x08\0" + bytes(18) + ip4_of(one)),
    "cooked 2, IPv6": (276, lambda one: b"\x86\xdd" + bytes(18) + ip6_of(one)),
    "null": (0, lambda one: b"\2\0\0\0" + ip4_of(one)),
    "null, big": (0, lambda one: b"\0\0\0\x1e" + ip6_of(one)),
    "loop": (108, lambda one: b"\0\0\0\2" + ip4_of(one)),
    "raw": (101, ip4_of),
    "raw, IPv6": (12, ip6_of),
    "IPv4": (228, ip4_of),
    "IPv6": (229, ip6_of),
}
"""By name: the link type, and the function that adds its header to a segment."""

TOGETHER = frozenset(WRAPS) - {"three tags", "IP options", "IPv6 extension"}
"""Link types whose packets are processed together; others are processed one by one."""


def wrapped(segments, name):
    """Return link type and packets of (time, bytes, bytes on the wire)."""
    link, wrap = WRAPS[name]
    datas = [wrap(one) for one in segments]
    return link, [(1_700_000_000_000_000_000 + number * 1000, data, len(data)) for number, data in enumerate(datas)]


def mutated(packets, dice, rate):
    """Return the packets, some of them lost, duplicated, reordered, truncated, changed or delayed."""
    out = []
    for packet in packets:
        time_ns, data, wire = packet
        fate = dice.random() / rate
        if fate < 1:
            continue
        if fate < 2:
            out += [packet, packet]
        elif fate < 3:
            out.insert(max(0, len(out) - dice.randrange(1, 40)), packet)
        elif fate < 4:
            out.append((time_ns, data[: dice.randrange(len(data) + 1)], wire))
        elif fate < 5 and len(data) > 60:
            other = bytearray(data)
            other[dice.randrange(54, len(data))] ^= 1 << dice.randrange(8)
            out.append((time_ns, bytes(other), wire))
        elif fate < 5.5 and out:
            out += [packet, dice.choice(out[-300:])]
        else:
            out.append(packet)
    return out[dice.randrange(len(out) // 2 + 1) :] if dice.random() < 0.3 else out


def reader_of(state):
    """Return the reader to continue with; None for a new one."""
    return WindowReader(OPTIONS) if state is None else WindowReader(carried=pickle.loads(state))


def pickled(reader):
    return pickle.dumps(reader.fast)


def taken(reader, blob):
    """Return the rows of a file."""
    rows = []
    for name, source, _ in opened(files_of([blob])):
        for records in windows(name, source, 1 << 24):
            places = reader.take(records)
            rows += places_rows(places, reader.notes)
    return rows


def fragment(whole, start, more, number):
    """Return a fragment of an IPv4 packet: 64 bytes from ``start`` on."""
    piece = whole[20 + start : 84 + start]
    return (
        struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(piece), number, more | start // 8, 64, 6, 0) + whole[12:20] + piece
    )


@pytest.fixture(scope="session")
def both():
    """The functions of this file."""
    return SimpleNamespace(
        OPTIONS=OPTIONS,
        objects=objects,
        columns=columns,
        same=same,
        places_rows=places_rows,
        object_state=object_state,
        column_state=column_state,
        pcap=pcap,
        packets_of=packets_of,
        files_of=files_of,
        talk=talk,
        reader_of=reader_of,
        pickled=pickled,
        taken=taken,
        fragment=fragment,
        ip4_of=ip4_of,
        ip6_of=ip6_of,
        wrapped=wrapped,
        mutated=mutated,
        WRAPS=WRAPS,
        TOGETHER=TOGETHER,
        ETHERNET=_MACS,
    )
