"""Columns of frames against the object path and protobuf: real captures, and commands that nobody would send.

How they are judged
- told: the command is made again from nothing but the columns, and must be the one that protobuf read. In the corpus
  whatever can be made again must be told, too.
- Of what is not told the ids are compared with Facts; metadata with tracking.metadata; the rest with Frame.parts.
"""

from __future__ import annotations

import dataclasses
import io
import random
from struct import Struct

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from pcli.codec.capture import CapturedFrame, Stream, read_capture
from pcli.codec.errors import CaptureError
from pcli.codec.observe import Facts
from pcli.codec.observe.observer_state import open_frame
from pcli.codec.observe.tracking.entry_metadata import FIELD, fields_of, key_of, text_of
from pcli.codec.observe.tracking.subscriptions.dead_letters import MARK
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.frame import Frame
from pcli.spark.columnar.fields import places_of, read_fields
from pcli.spark.columnar.frame_columns import CRC_BAD, CRC_GOOD, CRC_NONE, Frames
from pcli.spark.columnar.string_arrays import keys_of, texts_of

COVERED_TYPES = {
    BY_NAME[name].number for name in ("SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW", "ACK_RESPONSE", "PING", "PONG")
}
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


# -- what the columns say, as protobuf


def put(body, **fields) -> None:
    """Set those that are there; unsigned fields get their bits back."""
    for name, value in fields.items():
        if value != -1 or name in ("producer_id", "consumer_id", "sequence_id", "ledgerId", "entryId"):
            kind = body.DESCRIPTOR.fields_by_name[name]
            setattr(body, name, int(value) & U64 if kind.type == kind.TYPE_UINT64 else int(value))


def put_id(target, ledger, entry, partition, batch_index=-1) -> None:
    put(target, ledgerId=ledger, entryId=entry, partition=partition, batch_index=batch_index)


def rebuilt(frames: Frames, row: int) -> pb.BaseCommand:
    """The command of a row, made of its columns."""
    number = int(frames.type[row])
    name = COMMANDS[number].name
    command = pb.BaseCommand(type=number)
    body = getattr(command, COMMANDS[number].field)
    body.SetInParent()
    one = {field.name: getattr(frames, field.name)[row] for field in dataclasses.fields(frames) if field.name not in (
        "places", "words", "acks")}  # fmt: skip
    place = (one["ledger"], one["entry"], one["partition"])
    txn = {"txnid_most_bits": one["txn_most"], "txnid_least_bits": one["txn_least"]}
    if name == "SEND":
        put(body, producer_id=one["owner"], sequence_id=one["sequence"], num_messages=one["messages"], **txn)
        put(body, highest_sequence_id=one["highest"])
    elif name == "SEND_RECEIPT":
        put(body, producer_id=one["owner"], sequence_id=one["sequence"], highest_sequence_id=one["highest"])
        put_id(body.message_id, *place)
    elif name == "MESSAGE":
        put(body, consumer_id=one["owner"], redelivery_count=one["redelivery"], consumer_epoch=one["epoch"])
        put_id(body.message_id, *place)
        body.ack_set.extend(frames.words[one["set_start"] : one["set_end"]].tolist())
    elif name == "ACK":
        put(body, consumer_id=one["owner"], ack_type=one["ack_type"], request_id=one["request"], **txn)
        put_ids(body, frames, row)
    elif name == "FLOW":
        put(body, consumer_id=one["owner"], messagePermits=one["messages"])
    elif name == "ACK_RESPONSE":
        put(body, consumer_id=one["owner"], request_id=one["request"], **txn)
    return command


def put_ids(body, frames: Frames, row: int) -> None:
    acks = frames.acks
    for at in np.flatnonzero(acks.row == row).tolist():
        target = body.message_id.add()
        put_id(target, acks.ledger[at], acks.entry[at], acks.partition[at], acks.batch_index[at])
        target.ack_set.extend(acks.words[acks.set_start[at] : acks.set_end[at]].tolist())


def meant(command: pb.BaseCommand) -> bytes:
    """A command without the ways of saying that there is nothing."""
    plain = pb.BaseCommand()
    plain.CopyFrom(command)
    ids = [*plain.ack.message_id]
    ids += [body.message_id for body in (plain.send_receipt, plain.message) if body.HasField("message_id")]
    for one in ids:
        for name in ("partition", "batch_index"):
            if one.HasField(name) and getattr(one, name) == -1:
                one.ClearField(name)
    if plain.send_receipt.highest_sequence_id == U64:
        plain.send_receipt.ClearField("highest_sequence_id")
    return plain.SerializePartialToString(deterministic=True)


def parsed(frame: CapturedFrame) -> pb.BaseCommand | None:
    """What protobuf reads of a command; None: it is not whole, or no protobuf."""
    end = 8 + int.from_bytes(frame.data[4:8])
    if end > len(frame.data):
        return None
    try:
        return pb.BaseCommand.FromString(frame.data[8:end])
    except DecodeError:
        return None


def unknown(values: dict) -> list[str]:
    """The unknown fields that the object path knows of, in the command and in the ids of an ACK."""
    return [key for one in [values, *values.get("pulsar.ack.message_id", [])] for key in one if "unknown." in key]


# -- the judges


def judge_command(frames: Frames, row: int, frame: CapturedFrame, *, all_told: bool) -> None:
    assert int(frames.type[row]) & U64 == frame.type & U64
    command = parsed(frame)
    if frames.complete[row]:
        assert frame.type in COVERED_TYPES
        assert command is not None
        assert not unknown(Facts(frame, open_frame).command)
        # What is left of the unknown are other values of an enum that was given twice: no reader looks at them.
        command.DiscardUnknownFields()
        assert rebuilt(frames, row).SerializePartialToString(deterministic=True) == meant(command)
    elif all_told and command is not None and frame.type in COVERED_TYPES:
        assert rebuilt(frames, row).SerializePartialToString(deterministic=True) != meant(command)
    judge_ids(frames, row, frame)


def judge_ids(frames: Frames, row: int, frame: CapturedFrame) -> None:
    """The ids that every command may have, told or not."""
    known = COMMANDS.get(frame.type)
    if known is None:
        assert frames.owner[row] == frames.request[row] == -1
        return
    values = Facts(frame, open_frame).command
    owner = next((known.ids[name] for name in ("producer_id", "consumer_id") if name in known.ids), None)
    for path, found in ((owner, frames.owner[row]), (known.ids.get("request_id"), frames.request[row])):
        wanted = values.get(f"pulsar.{known.field}.{path}", -1)
        assert int(found) & U64 == wanted & U64
    if frame.type == BY_NAME["SEND_ERROR"].number:
        assert int(frames.sequence[row]) & U64 == values.get("pulsar.send_error.sequence_id", -1) & U64


def judge_places(frames: Frames, row: int, frame: CapturedFrame) -> None:
    start, parts = int(frames.places.start[row]), frame.parts
    assert frames.size[row] == frame.length
    assert frames.command_end[row] - start == parts.command_end
    for name in ("metadata_start", "metadata_end"):
        wanted = getattr(parts, name)
        assert getattr(frames, name)[row] == (wanted if wanted < 0 else start + wanted)
    assert frames.payload_size[row] == (frame.length - parts.payload_start if parts.payload_start >= 0 else -1)
    assert frames.crc[row] == {"good": CRC_GOOD, "bad": CRC_BAD}.get(frame.checksum or "", CRC_NONE)


NUMBERS = {
    "batch": "num_messages_in_batch", "publish_ms": "publish_time", "metadata_sequence": "sequence_id",
    "metadata_highest": "highest_sequence_id", "deliver_at_ms": "deliver_at_time", "chunk": "chunk_id",
    "chunks": "num_chunks_from_msg", "marker": "marker_type", "metadata_most": "txnid_most_bits",
    "metadata_least": "txnid_least_bits",
}  # fmt: skip


def judge_metadata(frames: Frames, row: int, frame: CapturedFrame, texts, *, all_told: bool) -> None:
    fields = fields_of(frame)
    for column, name in NUMBERS.items():
        wanted = fields.get(FIELD[name], -1)
        wanted = wanted if isinstance(wanted, int) else -1
        assert int(getattr(frames, column)[row]) & U64 == wanted & U64, column
    names, uuids, keys = texts
    assert (names[row] or "") == text_of(fields, FIELD["producer_name"])
    assert (uuids[row] or "") == text_of(fields, FIELD["uuid"])
    assert (keys[row] or "") == key_of(fields)
    if frames.key_kind[row] == 3:
        assert fields.get(FIELD["partition_key_b64_encoded"])
    parts = frame.parts
    data = frame.data[parts.metadata_start : parts.metadata_end] if parts.metadata_start >= 0 else b""
    if frames.metadata_complete[row]:
        assert parts.payload_start >= 0
        assert MARK not in data
        judge_told_metadata(frames, row, data)
    elif all_told:
        assert parts.payload_start < 0 or MARK in data


def judge_told_metadata(frames: Frames, row: int, data: bytes) -> None:
    """What is told is what protobuf reads, if it reads it at all."""
    try:
        message = pb.MessageMetadata.FromString(data)
    except DecodeError:
        return  # field number 0, which pull_fields passes over
    for column, name in NUMBERS.items():
        value = int(getattr(frames, column)[row])
        if message.HasField(name) and message.DESCRIPTOR.fields_by_name[name].type == 4:
            assert value & U64 == getattr(message, name)
        assert (value != -1) == message.HasField(name)


def judge(found: list[CapturedFrame], *, all_told: bool) -> Frames:
    frames = read_fields(places_of(found))
    data = frames.places.data
    texts = [
        texts_of(data, frames.name_start, frames.name_end).to_pylist(),
        texts_of(data, frames.uuid_start, frames.uuid_end).to_pylist(),
        keys_of(frames).to_pylist(),
    ]
    for row, frame in enumerate(found):
        judge_command(frames, row, frame, all_told=all_told)
        judge_places(frames, row, frame)
        judge_metadata(frames, row, frame, texts, all_told=all_told)
    return frames


# -- real captures


@pytest.mark.parametrize("folder", ["captures", "small_captures"])
def test_columns_equal_the_frames_of_the_corpus(folder, request):
    seen = told = 0
    for path in sorted(request.getfixturevalue(folder).rglob("*.pcap*")):
        frames = judge(frames_of(path), all_told=True)
        seen, told = seen + len(frames), told + int(frames.complete.sum())
    assert told > seen // 2 > 1000


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


# -- commands that nobody would send

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
    """A field with a value that is allowed for its type, or nearly."""
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


def strange_bytes(draw: random.Random) -> bytes:
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
    """Needed fields mostly, others at times, in any order, some twice, some unknown."""
    pieces = []
    for one in descriptor.fields:
        likely = 0.97 if one.is_required else 0.5 if one.name in ("message_id", "ack_set") else 0.25
        if draw.random() < likely:
            pieces += [field_bytes(draw, one, depth) for _ in range(draw.choice([1, 1, 3]) if one.is_repeated else 1)]
    if pieces and draw.random() < 0.05:
        pieces.append(draw.choice(pieces))
    if draw.random() < 0.06:
        pieces.append(strange_bytes(draw))
    if draw.random() < 0.15:
        draw.shuffle(pieces)
    return b"".join(pieces)


def command_bytes(draw: random.Random) -> bytes:
    known = BY_NAME[draw.choice(NAMES)]
    descriptor = pb.BaseCommand.DESCRIPTOR.fields_by_name[known.field]
    body = message_bytes(draw, descriptor.message_type)
    pieces = [varint(8) + varint(known.number), varint(known.number << 3 | 2) + varint(len(body)) + body]
    if draw.random() < 0.05:
        pieces.append(strange_bytes(draw))
    if draw.random() < 0.04:
        pieces.append(draw.choice(pieces))
    if draw.random() < 0.04:
        draw.shuffle(pieces)
    return b"".join(pieces[: draw.choice([9] * 30 + [1])])


def entry_bytes(draw: random.Random) -> bytes:
    """What may follow a command: headers, metadata, payload; good, bad, or something else."""
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
def test_random_frames_are_never_decoded_wrongly(seed):
    draw = random.Random(seed)
    one = [frame_bytes(draw) for _ in range(draw.choice([1, 12, 30]))]
    judge([captured(data) for data in one], all_told=False)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([10, 70]))
def test_equal_frames_are_decoded_as_single_ones(seed, times):
    """The ways by shape and by scan need many rows; which way it was must not be seen."""
    draw = random.Random(seed)
    one = [captured(frame_bytes(draw)) for _ in range(draw.choice([1, 3, 9]))]
    alone, many = judge(one, all_told=False), read_fields(places_of(one * times))
    for column in dataclasses.fields(Frames):
        if column.name in ("places", "acks", "words", "set_start", "set_end"):
            continue
        first, second = getattr(alone, column.name), getattr(many, column.name)
        first = np.tile(first, times)
        if column.name.endswith(("_start", "_end")):
            first = np.where(first < 0, -1, first - np.tile(alone.places.start, times))
            second = np.where(second < 0, -1, second - many.places.start)
        if column.name == "complete":
            # Single rows may be told where shapes are not asked, never the other way round.
            assert np.array_equal(first, second)
        assert np.array_equal(first, second), column.name
    assert np.array_equal(
        [sets(many, row) for row in range(len(many))], np.tile([sets(alone, row) for row in range(len(alone))], times)
    )


def sets(frames: Frames, row: int) -> str:
    """All words and ids of a row."""
    body = pb.CommandAck()
    put_ids(body, frames, row)
    return f"{frames.words[frames.set_start[row] : frames.set_end[row]].tolist()} {body}"


# -- what is ordinary must be told, by every way


def ordinary(draw: random.Random, number: int) -> bytes:
    """Commands as the clients send them, with values of all sizes."""
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
def test_usual_frames_are_complete(number, rows):
    draw = random.Random(number)
    found = [captured(ordinary(draw, number)) for _ in range(rows)]
    frames = judge(found, all_told=True)
    assert frames.complete.all()
    assert frames.metadata_complete.all() or number in (7, 10)


@pytest.mark.parametrize("kept", [8, 9, 10, 12, 20, 30, 41, 60])
def test_frames_that_the_capture_cut(kept):
    draw = random.Random(kept)
    judge([captured(ordinary(draw, number)[:kept]) for number in (6, 7, 9, 10) for _ in range(20)], all_told=False)


def test_the_head_ends_where_the_payload_begins():
    frames = read_fields(places_of([captured(ordinary(random.Random(1), 6))] * 2))
    assert frames.head(1) + b"payload" == frames.places.data[frames.places.start[1] :].tobytes()


def test_bytes_between_frames_are_ignored():
    """Places come in any order of bytes, and need not touch."""
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
    for value, told in ((5, True), (U64, False)):
        setattr(body, name, value)
        data = command.SerializeToString()
        frame = captured(_lengths(4 + len(data), len(data)) + data)
        assert (read_fields(places_of([frame] * times)).complete == told).all()


@pytest.mark.parametrize("number", [81, 127, 128, 300, 2**31, 2**40, 2**63, 2**64 - 1])
def test_types_of_no_known_version(number):
    command = varint(8) + varint(number)
    frame = captured(_lengths(4 + len(command), len(command)) + command)
    frames = judge([frame] * 3, all_told=True)
    assert not frames.complete.any()
    assert int(frames.type[2]) & U64 == number


def test_empty_columns_take_no_memory():
    frames = read_fields(places_of([captured(ordinary(random.Random(2), 7))] * 5))
    assert frames.chunk.tolist() == [-1] * 5
    assert frames.chunk.strides == (0,)
    assert frames.key_kind.tolist() == [0] * 5
