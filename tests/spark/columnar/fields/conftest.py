"""The comparison of columns with the object path and protobuf, as a fixture."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from pcli.codec.capture import CapturedFrame
from pcli.codec.observe import Facts
from pcli.codec.observe.observer_state import open_frame
from pcli.codec.observe.tracking.entry_metadata import FIELD, fields_of, key_of, text_of
from pcli.codec.observe.tracking.subscriptions.dead_letters import MARK
from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.spark.columnar.fields.field_columns import read_fields
from pcli.spark.columnar.fields.from_captured_frames import places_of
from pcli.spark.columnar.frame_columns import CRC_BAD, CRC_GOOD, CRC_NONE, Frames
from pcli.spark.columnar.string_arrays import keys_of, texts_of

COVERED_TYPES = {
    BY_NAME[name].number for name in ("SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "FLOW", "ACK_RESPONSE", "PING", "PONG")
}
U64 = (1 << 64) - 1


# -- columns as protobuf


def put(body, **fields) -> None:
    """Set the present fields; unsigned fields get their original bits."""
    for name, value in fields.items():
        if value != -1 or name in ("producer_id", "consumer_id", "sequence_id", "ledgerId", "entryId"):
            kind = body.DESCRIPTOR.fields_by_name[name]
            setattr(body, name, int(value) & U64 if kind.type == kind.TYPE_UINT64 else int(value))


def put_id(target, ledger, entry, partition, batch_index=-1) -> None:
    put(target, ledgerId=ledger, entryId=entry, partition=partition, batch_index=batch_index)


def rebuilt(frames: Frames, row: int) -> pb.BaseCommand:
    """Return the command of a row, rebuilt from its columns."""
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
    """Return a command without fields that equal absence."""
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
    """Return the command as protobuf reads it; None if it is incomplete or invalid."""
    end = 8 + int.from_bytes(frame.data[4:8])
    if end > len(frame.data):
        return None
    try:
        return pb.BaseCommand.FromString(frame.data[8:end])
    except DecodeError:
        return None


def unknown(values: dict) -> list[str]:
    """The unknown fields that the object path records, in the command and in the ids of an ACK."""
    return [key for one in [values, *values.get("pulsar.ack.message_id", [])] for key in one if "unknown." in key]


# -- checks


def _check_command(frames: Frames, row: int, frame: CapturedFrame, *, all_complete: bool) -> None:
    assert int(frames.type[row]) & U64 == frame.type & U64
    command = parsed(frame)
    if frames.complete[row]:
        assert frame.type in COVERED_TYPES
        assert command is not None
        assert not unknown(Facts(frame, open_frame).command)
        # The other unknown fields are values of an enum that occurs twice; no reader uses them.
        command.DiscardUnknownFields()
        assert rebuilt(frames, row).SerializePartialToString(deterministic=True) == meant(command)
    elif all_complete and command is not None and frame.type in COVERED_TYPES:
        assert rebuilt(frames, row).SerializePartialToString(deterministic=True) != meant(command)
    _check_ids(frames, row, frame)


def _check_ids(frames: Frames, row: int, frame: CapturedFrame) -> None:
    """Check the ids that any command may have, complete or not."""
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


def _check_places(frames: Frames, row: int, frame: CapturedFrame) -> None:
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


def _check_metadata(frames: Frames, row: int, frame: CapturedFrame, texts, *, all_complete: bool) -> None:
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
        _check_complete_metadata(frames, row, data)
    elif all_complete:
        assert parts.payload_start < 0 or MARK in data


def _check_complete_metadata(frames: Frames, row: int, data: bytes) -> None:
    """Check that complete metadata equals the metadata that protobuf reads, if it is valid."""
    try:
        message = pb.MessageMetadata.FromString(data)
    except DecodeError:
        return  # field number 0, which pull_fields skips
    for column, name in NUMBERS.items():
        value = int(getattr(frames, column)[row])
        if message.HasField(name) and message.DESCRIPTOR.fields_by_name[name].type == 4:
            assert value & U64 == getattr(message, name)
        assert (value != -1) == message.HasField(name)


def _check_columns(found: list[CapturedFrame], *, all_complete: bool) -> Frames:
    frames = read_fields(places_of(found))
    data = frames.places.data
    texts = [
        texts_of(data, frames.name_start, frames.name_end).to_pylist(),
        texts_of(data, frames.uuid_start, frames.uuid_end).to_pylist(),
        keys_of(frames).to_pylist(),
    ]
    for row, frame in enumerate(found):
        _check_command(frames, row, frame, all_complete=all_complete)
        _check_places(frames, row, frame)
        _check_metadata(frames, row, frame, texts, all_complete=all_complete)
    return frames


@pytest.fixture(scope="session")
def check_columns():
    """A function that reads frames into columns, checks every row, and returns the columns.

    - A complete command is rebuilt from its columns and must equal the one that protobuf reads. With ``all_complete``,
      every command that can be rebuilt must be complete.
    - For other commands, the ids are compared with Facts, metadata with tracking.metadata, and the rest with
      Frame.parts.
    """
    return _check_columns


@pytest.fixture(scope="session")
def put_acked_ids():
    """A function that adds the message ids of a row to an ACK."""
    return put_ids
