"""The entries in the Java client's captures, decoded and written again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from pcli.codec.capture import CapturedFrame, read_capture
from pcli.codec.payload.batch import split_batch
from pcli.codec.payload.compression import decompress
from pcli.codec.payload.encryption import PrivateKeys
from pcli.codec.proto import pb
from pcli.codec.wire.frame import Frame
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.batch_container import BatchContainer, KeyBasedBatchContainer
from pcli.replay.client.producer.entry_builder import EntryBuilder, chunk_size, cut
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.settings import ProducerSettings

SEND = 6
FIELDS = ("event_time", "ordering_key")

OTHERS = ("old-client", "txn-", "scalable-transaction", "cut-packets")
"""Captures of a different version, of transactions (whose ids pcli does not send), and without payloads."""


def sends(path: Path) -> Iterator[Frame]:
    with path.open("rb") as file:
        for item in read_capture([(path.name, file)]):
            if isinstance(item, CapturedFrame) and item.type == SEND:
                yield item


def outgoing(metadata: Any, payload: bytes) -> OutgoingMessage:
    """Return the application's message from the metadata of a message."""
    given = {name: getattr(metadata, name) for name in FIELDS if metadata.HasField(name)}
    if metadata.HasField("partition_key"):
        given |= {"key": metadata.partition_key, "key_is_bytes": metadata.partition_key_b64_encoded}
    if isinstance(metadata, pb.MessageMetadata) and metadata.HasField("deliver_at_time"):
        given["deliver_at"] = metadata.deliver_at_time
    pairs = {pair.key: pair.value for pair in metadata.properties}
    return OutgoingMessage(
        payload,
        properties=pairs or None,
        null_value=metadata.null_value,
        null_key=metadata.null_partition_key,
        replicate_to=tuple(getattr(metadata, "replicate_to", ())),
        **given,
    )


def container_of(frame: Frame) -> BatchContainer:
    """Return the batch before it was sent as this entry."""
    metadata, payload = frame.metadata, frame.payload
    assert metadata is not None
    assert payload is not None
    payload = decompress(metadata.compression, payload, metadata.uncompressed_size)
    assert isinstance(payload, bytes)
    keyed = metadata.num_messages_in_batch > 1 and metadata.sequence_id == metadata.highest_sequence_id
    container = (KeyBasedBatchContainer if keyed else BatchContainer)(1000, 1 << 20)
    time, version = metadata.publish_time, metadata.schema_version
    if metadata.HasField("num_messages_in_batch"):
        pieces, problem = split_batch(payload, metadata.num_messages_in_batch)
        assert problem is None
        for single, start, end in pieces:
            container.add(outgoing(single, payload[start:end]), single.sequence_id, None, time, version)
    else:
        container.add(outgoing(metadata, payload), metadata.sequence_id, None, time, version)
    return container


def alone(frame: Frame) -> bool:
    """Return whether the entry is neither a chunk nor encrypted; other tests cover these."""
    metadata = frame.metadata
    return metadata is not None and not metadata.HasField("uuid") and not metadata.encryption_keys


def written_again(frame: Frame) -> Frame:
    metadata = frame.metadata
    assert metadata is not None
    # Java compresses payloads larger than compressMinMsgBodySize, so a compressed payload exceeded it.
    least = metadata.uncompressed_size - 1 if metadata.compression else 1 << 20
    kind = pb.CompressionType.Name(metadata.compression)
    settings = ProducerSettings(compressionType=kind, compressMinMsgBodySize=least)  # type: ignore[arg-type]
    one = EntryBuilder(frame.command.send.producer_id, settings, chunks=False)
    one.name, one.largest = metadata.producer_name, 5 << 20
    [batch] = container_of(frame).take()
    op = one.batch(batch, 0)
    assert not isinstance(op, ClientFailure)
    return Frame(op.frame, SEND)


def test_entries_equal_the_java_clients(captures: Path) -> None:
    count = 0
    for path in sorted((captures / "java").glob("*.pcap*")):
        if path.name.startswith(OTHERS):
            continue
        for frame in filter(alone, sends(path)):
            again = written_again(frame)
            assert (again.command, again.metadata) == (frame.command, frame.metadata), path.name
            # Compressed bytes differ between implementations. The decompressed payloads were equal, because the batches
            # are.
            assert frame.metadata is not None
            assert frame.metadata.compression or again.data == frame.data, path.name
            count += 1
    assert count > 1300


def test_chunks_equal_the_java_clients(captures: Path) -> None:
    chunks: dict[str, list[Frame]] = {}
    for frame in sends(captures / "java" / "chunks-interleaved.pcap"):
        if frame.metadata is not None and frame.metadata.HasField("uuid"):
            chunks.setdefault(frame.metadata.uuid, []).append(frame)
    assert len(chunks) > 1
    for frames in chunks.values():
        first = frames[0].metadata
        assert first is not None
        payload = b"".join(frame.payload or b"" for frame in frames)
        writer = EntryBuilder(frames[0].command.send.producer_id, ProducerSettings(chunkingEnabled=True), chunks=True)
        writer.name, writer.largest = first.producer_name, 16384
        # only publish_time depends on the clock
        ops = writer.message(outgoing(first, payload), first.sequence_id, b"", None, first.publish_time)
        assert not isinstance(ops, ClientFailure)
        assert [op.frame for op in ops] == [frame.data for frame in frames]
        assert [op.last for op in ops] == [False] * (len(frames) - 1) + [True]


# -- cases without a capture -----------------------------------------------------------------------------------------


def writer(*, largest: int = 1000, chunks: bool = False, **settings: Any) -> EntryBuilder:
    made = EntryBuilder(3, ProducerSettings(**settings), chunks=chunks)
    made.name, made.largest = "p", largest
    return made


def batch_of(*payloads: bytes) -> Any:
    container = BatchContainer(1000, 1 << 20)
    for number, payload in enumerate(payloads):
        container.add(OutgoingMessage(payload), number, None, 5, b"")
    [batch] = container.take()
    return batch


def test_a_batch_may_be_as_large_as_a_message_without_its_metadata() -> None:
    whole = writer().batch(batch_of(b"a" * 482, b"b" * 482), 0)
    assert not isinstance(whole, ClientFailure)
    size = len(Frame(whole.frame, SEND).payload or b"")
    assert not isinstance(writer(largest=size).batch(batch_of(b"a" * 482, b"b" * 482), 0), ClientFailure)
    refused = writer(largest=size - 1).batch(batch_of(b"a" * 482, b"b" * 482), 0)
    assert isinstance(refused, ClientFailure)
    assert refused.error == "InvalidMessage"


def test_the_size_of_a_single_message_includes_its_metadata() -> None:
    op = writer().batch(batch_of(b"a" * 900), 0)
    assert not isinstance(op, ClientFailure)
    parts = Frame(op.frame, SEND).parts
    size = parts.payload_end - parts.metadata_start
    assert not isinstance(writer(largest=size).batch(batch_of(b"a" * 900), 0), ClientFailure)
    assert isinstance(writer(largest=size - 1).batch(batch_of(b"a" * 900), 0), ClientFailure)


def test_a_message_is_compressed_before_and_encrypted_after_chunking() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    one = writer(largest=400, chunks=True, encryptionKeys={"k": public}, compressionType="ZLIB")
    payload = bytes(range(256)) * 400
    ops = one.message(OutgoingMessage(payload), 7, b"", None, 5)
    assert not isinstance(ops, ClientFailure)
    assert len(ops) > 1
    opened = b""
    for number, op in enumerate(ops):
        frame = Frame(op.frame, SEND)
        metadata = frame.metadata
        assert metadata is not None
        assert (metadata.chunk_id, metadata.uuid, len(metadata.encryption_keys)) == (number, "p-7", 1)
        piece = PrivateKeys([private]).open(metadata, frame.payload or b"")
        assert isinstance(piece, bytes)
        opened += piece
    assert len(opened) == metadata.total_chunk_msg_size
    assert decompress(metadata.compression, opened, metadata.uncompressed_size) == payload


def test_metadata_that_exceeds_the_maximum_size() -> None:
    refused = writer(largest=100, chunks=True).message(
        OutgoingMessage(b"", properties={"a": "b" * 200}), 0, b"", None, 0
    )
    assert isinstance(refused, ClientFailure)


def test_a_message_that_fits_is_not_chunked() -> None:
    [op] = writer(largest=1000, chunks=True).message(OutgoingMessage(b"a" * 900), 0, b"", None, 0)  # type: ignore[misc]
    frame = Frame(op.frame, SEND)
    assert frame.metadata is not None
    assert not frame.command.send.HasField("is_chunk")
    assert not frame.metadata.HasField("uuid")


def test_small_payloads_are_not_compressed() -> None:
    for size, kind in ((4096, pb.NONE), (4097, pb.LZ4)):
        op = writer(largest=1 << 20, compressionType="LZ4").batch(batch_of(b"a" * size), 0)
        assert not isinstance(op, ClientFailure)
        metadata = Frame(op.frame, SEND).metadata
        assert metadata is not None
        assert (metadata.compression, metadata.uncompressed_size) == (kind, size)


@pytest.mark.parametrize("wrong", [{"event_time": -1}, {"key": "\udcff"}, {"properties": {"a": "\udcff"}}])
@pytest.mark.parametrize("count", [1, 2])
def test_values_that_protobuf_cannot_encode_are_refused(wrong: dict[str, Any], count: int) -> None:
    writer = EntryBuilder(0, ProducerSettings(producerName="p"), chunks=False)
    writer.largest = 1000
    batches = BatchContainer(10, 0)
    for sequence_id in range(count):
        batches.add(OutgoingMessage(b"x", **wrong), sequence_id, None, 5, b"")
    [batch] = batches.take()
    for failure in (writer.batch(batch, 5), writer.message(OutgoingMessage(b"x", **wrong), 0, b"", None, 5)):
        assert isinstance(failure, ClientFailure)
        assert (failure.error, failure.retriable) == ("InvalidMessage", False)


def metadata() -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p0", sequence_id=3, publish_time=1)


@pytest.mark.parametrize(("wish", "size"), [(-1, 92), (0, 92), (50, 50), (200, 92)])
def test_the_size_of_a_chunk(wish: int, size: int) -> None:
    assert metadata().ByteSize() == 8
    assert chunk_size(100, metadata(), wish) == size


@pytest.mark.parametrize(("length", "pieces"), [(0, [0]), (10, [10]), (11, [10, 1]), (20, [10, 10]), (21, [10, 10, 1])])
def test_pieces(length: int, pieces: list[int]) -> None:
    head = metadata()
    seen = [(len(piece), head.chunk_id) for piece in cut(head, bytes(length), 10)]
    assert seen == [(size, number) for number, size in enumerate(pieces)]
    assert head.HasField("uuid") == (len(pieces) > 1)
    if len(pieces) > 1:
        assert (head.uuid, head.num_chunks_from_msg, head.total_chunk_msg_size) == ("p0-3", len(pieces), length)
