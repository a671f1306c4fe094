"""Columns of frames compared with the object path and protobuf: real captures, and random commands."""

from __future__ import annotations

import dataclasses
import io
import random
from struct import Struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, Stream, read_capture
from pcli.codec.errors import CaptureError
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.frame import Frame
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.frame_columns import Frames
from pcli.spark.columnar.string_arrays import keys_of

U64 = (1 << 64) - 1
_lengths = Struct(">II").pack
STREAM = Stream(0, ("10.0.0.1", 40000), ("10.0.0.2", 6650), midstream=False)


def captured(data: bytes, number: int = 1) -> CapturedFrame:
    return CapturedFrame(data, Frame.of(data).type, number, number, 10**18 + number, STREAM, True, 0, "start")


def frames_of(path) -> list[CapturedFrame]:
    try:
        with path.open("rb") as file:
            items = list(read_capture([(path.name, file)]))
    except CaptureError:
        return []
    return [item for item in items if isinstance(item, CapturedFrame)]


# -- real captures


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["captures", "small_captures"])
def test_columns_equal_the_frames_of_the_corpus(check_columns, folder, request):
    seen = complete = 0
    for path in sorted(request.getfixturevalue(folder).rglob("*.pcap*")):
        frames = check_columns(frames_of(path), all_complete=True)
        seen, complete = seen + len(frames), complete + int(frames.complete.sum())
    assert complete > seen // 2 > 1000


def test_metadata_is_complete_in_nearly_all_frames_of_the_corpus(captures):
    found = frames_of(captures / "java" / "batching.pcap")
    frames = read_fields(places_of(found))
    assert frames.metadata_complete[frames.metadata_start >= 0].all()


def test_without_checksums_there_are_none(captures):
    found = frames_of(captures / "java" / "batching.pcap")
    assert read_fields(places_of(found)).crc.any()
    assert not read_fields(places_of(found), checksums=False).crc.any()


def test_no_frames_give_empty_columns():
    frames = read_fields(places_of([]))
    assert len(frames) == len(frames.acks.row) == len(frames.words) == 0


# -- random commands

EDGES = [0, 1, 5, 127, 128, 300, 2**14 - 1, 2**14, 2**21, 2**28 - 1, 2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**35,
         2**49, 2**56 - 1, 2**56, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]  # fmt: skip
NAMES = ["SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW", "ACK_RESPONSE", "PING", "SEND_ERROR", "SUCCESS", "SEEK"]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field_bytes(draw: random.Random, descriptor, depth: int = 0) -> bytes:
    """Return a field with a valid or nearly valid value."""
    tag = descriptor.number << 3
    if descriptor.message_type is not None:
        inner = message_bytes(draw, descriptor.message_type, depth + 1) if depth < 3 else b""
        return varint(tag | 2) + varint(len(inner)) + inner
    if descriptor.type in (9, 12):
        text = draw.choice([b"", b"p", b"standalone-0-12", b"\xff\xfe", b"x REAL_TOPIC y", bytes(200)])
        return varint(tag | 2) + varint(len(text)) + text
    if descriptor.type == 1:
        return varint(tag | 1) + bytes(8)
    if descriptor.is_repeated and draw.random() < 0.2:
        packed = b"".join(varint(draw.choice(EDGES)) for _ in range(3))
        return varint(tag | 2) + varint(len(packed)) + packed
    few = EDGES[:6] if draw.random() < 0.6 else EDGES
    return varint(tag) + varint(draw.choice(few))


def invalid_bytes(draw: random.Random) -> bytes:
    number = draw.choice([1, 2, 7, 15, 16, 40, 2047, 2048, 10**6])
    return draw.choice([
        varint(number << 3) + varint(draw.choice(EDGES)),
        varint(number << 3 | 2) + b"\x03abc",
        varint(number << 3 | 5) + b"abcd",
        varint(number << 3 | 1) + b"abcdefgh",
        b"\x80" * 11,
        varint(number << 3) + b"\xff" * 9 + b"\x02",
        varint(number << 3) + b"\x81\x80\x00",
        b"\x00\x01",
    ])  # fmt: skip


def message_bytes(draw: random.Random, descriptor, depth: int = 0) -> bytes:
    """Return mostly required fields, in any order, some repeated, some unknown."""
    parts = []
    for one in descriptor.fields:
        likely = 0.97 if one.is_required else 0.5 if one.name in ("message_id", "ack_set") else 0.25
        if draw.random() < likely:
            parts += [field_bytes(draw, one, depth) for _ in range(draw.choice([1, 1, 3]) if one.is_repeated else 1)]
    if parts and draw.random() < 0.05:
        parts.append(draw.choice(parts))
    if draw.random() < 0.06:
        parts.append(invalid_bytes(draw))
    if draw.random() < 0.15:
        draw.shuffle(parts)
    return b"".join(parts)


def command_bytes(draw: random.Random) -> bytes:
    known = BY_NAME[draw.choice(NAMES)]
    descriptor = pb.BaseCommand.DESCRIPTOR.fields_by_name[known.field]
    body = message_bytes(draw, descriptor.message_type)
    parts = [varint(8) + varint(known.number), varint(known.number << 3 | 2) + varint(len(body)) + body]
    if draw.random() < 0.05:
        parts.append(invalid_bytes(draw))
    if draw.random() < 0.04:
        parts.append(draw.choice(parts))
    if draw.random() < 0.04:
        draw.shuffle(parts)
    return b"".join(parts[: draw.choice([9] * 30 + [1])])


def entry_bytes(draw: random.Random) -> bytes:
    """Return the sections after a command: headers, metadata, payload, valid or not."""
    metadata = message_bytes(draw, pb.MessageMetadata.DESCRIPTOR)
    entry = len(metadata).to_bytes(4) + metadata + draw.randbytes(draw.choice([0, 3, 40]))
    out = b""
    if draw.random() < 0.2:
        inner = message_bytes(draw, pb.BrokerEntryMetadata.DESCRIPTOR)
        out += b"\x0e\x02" + (len(inner) + (draw.random() < 0.1) * 5000).to_bytes(4) + inner
    if draw.random() < 0.8:
        import google_crc32c

        out += b"\x0e\x01" + (google_crc32c.value(entry) ^ (draw.random() < 0.1)).to_bytes(4)
    return (out + entry)[: draw.choice([5, 9, 30] + [10**6] * 12)]


def frame_bytes(draw: random.Random) -> bytes:
    command = command_bytes(draw)
    if draw.random() < 0.05:
        command = draw.randbytes(draw.randrange(12))
    rest = entry_bytes(draw) if command[1:2] in (b"\x06", b"\x09") or draw.random() < 0.05 else b""
    claimed = len(command) + (draw.choice([-3, 1, 900]) if draw.random() < 0.04 else 0)
    data = _lengths(4 + len(command) + len(rest), max(claimed, 0)) + command + rest
    return data if draw.random() < 0.9 else data[: max(8, draw.randrange(len(data) + 1))]


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_random_frames_are_never_decoded_wrongly(check_columns, seed):
    draw = random.Random(seed)
    one = [frame_bytes(draw) for _ in range(draw.choice([1, 12, 30]))]
    check_columns([captured(data) for data in one], all_complete=False)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([10, 70]))
def test_equal_frames_are_decoded_as_single_ones(check_columns, put_acked_ids, seed, times):
    """Decoding by layout and by scan requires many rows; the result must not depend on the method."""
    draw = random.Random(seed)
    one = [captured(frame_bytes(draw)) for _ in range(draw.choice([1, 3, 9]))]
    alone, many = check_columns(one, all_complete=False), read_fields(places_of(one * times))
    for column in dataclasses.fields(Frames):
        if column.name in ("places", "acks", "words", "set_start", "set_end"):
            continue
        first, second = getattr(alone, column.name), getattr(many, column.name)
        first = np.tile(first, times)
        if column.name.endswith(("_start", "_end")):
            first = np.where(first < 0, -1, first - np.tile(alone.places.start, times))
            second = np.where(second < 0, -1, second - many.places.start)
        if column.name == "complete":
            assert np.array_equal(first, second)
        assert np.array_equal(first, second), column.name
    assert np.array_equal(
        [sets(many, row, put_acked_ids) for row in range(len(many))],
        np.tile([sets(alone, row, put_acked_ids) for row in range(len(alone))], times),
    )


def sets(frames: Frames, row: int, put_ids) -> str:
    """Return all words and ids of a row."""
    body = pb.CommandAck()
    put_ids(body, frames, row)
    return f"{frames.words[frames.set_start[row] : frames.set_end[row]].tolist()} {body}"


# -- usual commands


def ordinary(draw: random.Random, number: int) -> bytes:
    """Return a command as clients send it, with values of all sizes."""
    small = [0, 1, 100, 200, 20000, 3_000_000]
    command = pb.BaseCommand(type=number)
    if number == 6:
        command.send.producer_id, command.send.sequence_id = draw.choice(small), draw.choice(small)
        if draw.random() < 0.5:
            command.send.num_messages, command.send.highest_sequence_id = 20, draw.choice(small)
        if draw.random() < 0.2:
            command.send.txnid_least_bits, command.send.txnid_most_bits = draw.choice(small), 1
    elif number == 7:
        command.send_receipt.producer_id, command.send_receipt.sequence_id = 1, draw.choice(small)
        place = command.send_receipt.message_id
        place.ledgerId, place.entryId = draw.choice([(U64, U64), (7, draw.choice(small))])
        command.send_receipt.highest_sequence_id = draw.choice([U64, 3])
    elif number == 9:
        command.message.consumer_id, command.message.redelivery_count = 1, draw.choice([0, 1, 300])
        place = command.message.message_id
        place.ledgerId, place.entryId, place.partition = 300, draw.choice(small), draw.choice([-1, 0, 4])
        command.message.ack_set.extend(draw.choice([[], [-2], [1, -(2**63)]]))
        if draw.random() < 0.3:
            command.message.consumer_epoch = draw.choice(small)
    else:
        command.ack.consumer_id, command.ack.ack_type = 3, draw.choice([0, 1])
        for _ in range(draw.choice([1, 1, 2, 5, 40])):
            place = command.ack.message_id.add(ledgerId=draw.choice([3, 300]), entryId=draw.choice(small))
            if draw.random() < 0.3:
                place.partition, place.batch_index = draw.choice([-1, 3]), draw.choice([-1, 3])
            place.ack_set.extend(draw.choice([[], [], [5, -1]]))
        if draw.random() < 0.3:
            command.ack.request_id = draw.choice(small)
    data = command.SerializeToString()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=draw.choice(small), publish_time=10**12)
    if draw.random() < 0.5:
        metadata.partition_key = draw.choice(["k", "key", "a longer key"])
    for _ in range(draw.choice([0, 0, 2, 7])):
        metadata.properties.add(key="name", value="v" * draw.randrange(20))
    entry = metadata.SerializeToString()
    rest = len(entry).to_bytes(4) + entry + b"payload" if number in (6, 9) else b""
    return _lengths(4 + len(data) + len(rest), len(data)) + data + rest


@pytest.mark.parametrize("number", [6, 7, 9, 10])
@pytest.mark.parametrize("rows", [1, 12, 900])
def test_usual_frames_are_complete(check_columns, number, rows):
    draw = random.Random(number)
    found = [captured(ordinary(draw, number)) for _ in range(rows)]
    frames = check_columns(found, all_complete=True)
    assert frames.complete.all()
    assert frames.metadata_complete.all() or number in (7, 10)


@pytest.mark.parametrize("kept", [8, 9, 10, 12, 20, 30, 41, 60])
def test_truncated_frames(check_columns, kept):
    draw = random.Random(kept)
    check_columns(
        [captured(ordinary(draw, number)[:kept]) for number in (6, 7, 9, 10) for _ in range(20)], all_complete=False
    )


def test_the_head_ends_where_the_payload_begins():
    frames = read_fields(places_of([captured(ordinary(random.Random(1), 6))] * 2))
    assert frames.head(1) + b"payload" == frames.places.data[frames.places.start[1] :].tobytes()


def test_bytes_between_frames_are_ignored():
    """Positions are in any order and need not be adjacent."""
    draw = random.Random(3)
    found = [captured(ordinary(draw, number)) for number in (6, 9, 10, 7) * 30]
    tight = read_fields(places_of(found))
    places = places_of(found)
    gaps = np.arange(len(found), dtype=np.int64)[::-1].copy()
    buffer = io.BytesIO()
    starts = []
    for row in gaps.tolist():
        buffer.write(b"\x55" * (row % 5))
        starts.append(buffer.tell())
        buffer.write(found[row].data)
    order = np.argsort(gaps)
    places.data = np.frombuffer(buffer.getvalue(), np.uint8)
    places.start = np.array(starts, np.int64)[order]
    loose = read_fields(places)
    for name in (
        "type",
        "complete",
        "owner",
        "sequence",
        "ledger",
        "entry",
        "crc",
        "metadata_complete",
        "payload_size",
    ):
        assert np.array_equal(getattr(loose, name), getattr(tight, name)), name
    assert keys_of(loose).equals(keys_of(tight))


@pytest.mark.parametrize("times", [1, 12])
@pytest.mark.parametrize(
    ("number", "path"),
    [
        (6, "send.highest_sequence_id"),
        (9, "message.consumer_epoch"),
        (10, "ack.request_id"),
        (10, "ack.txnid_most_bits"),
        (38, "ackResponse.request_id"),
    ],
)
def test_minus_one_is_not_complete(number, path, times):
    command = pb.BaseCommand(type=number)
    field, name = path.split(".")
    body = getattr(command, field)
    for one in ("producer_id", "consumer_id", "sequence_id", "ack_type", "txnid_least_bits", "txnid_most_bits"):
        if one in body.DESCRIPTOR.fields_by_name and (one[:3] != "txn" or name[:3] == "txn"):
            setattr(body, one, 0)
    if number == 9:
        body.message_id.ledgerId = body.message_id.entryId = 1
    for value, complete in ((5, True), (U64, False)):
        setattr(body, name, value)
        data = command.SerializeToString()
        frame = captured(_lengths(4 + len(data), len(data)) + data)
        assert (read_fields(places_of([frame] * times)).complete == complete).all()


@pytest.mark.parametrize("number", [81, 127, 128, 300, 2**31, 2**40, 2**63, 2**64 - 1])
def test_types_of_no_known_version(check_columns, number):
    command = varint(8) + varint(number)
    frame = captured(_lengths(4 + len(command), len(command)) + command)
    frames = check_columns([frame] * 3, all_complete=True)
    assert not frames.complete.any()
    assert int(frames.type[2]) & U64 == number


def test_empty_columns_take_no_memory():
    frames = read_fields(places_of([captured(ordinary(random.Random(2), 7))] * 5))
    assert frames.chunk.tolist() == [-1] * 5
    assert frames.chunk.strides == (0,)
    assert frames.key_kind.tolist() == [0] * 5
