"""Filler has the structure of the payload but none of its content."""

import pytest

from pcli.codec.observe.redaction import Names
from pcli.codec.observe.redaction.payloads import redact_payload
from pcli.codec.payload import open_entry
from pcli.codec.payload.batch import join_batch
from pcli.codec.payload.compression import compress
from pcli.codec.proto import pb

TEXT = b"".join(b"order %d of jane@acme.com; " % number for number in range(400))
COMPRESSIONS = [pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]


def metadata(**fields):
    return pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, **fields)


def a_batch():
    singles = []
    for number in range(20):
        single = pb.SingleMessageMetadata(partition_key=f"customer-{number % 3}", sequence_id=number)
        single.properties.add(key="mail", value="jane@acme.com")
        singles.append((single, TEXT[number * 100 : number * 150 + 100]))
    return singles


def test_a_message_keeps_its_size():
    filler = redact_payload(metadata(), TEXT, Names())
    assert filler == b"x" * len(TEXT)
    assert redact_payload(metadata(), b"", Names()) == b""


def test_a_batch_keeps_its_messages():
    batch = a_batch()
    described = metadata(num_messages_in_batch=20)
    opened = open_entry(described, redact_payload(described, join_batch(batch), Names()))
    assert not opened.problems
    assert [one.size for one in opened.messages] == [len(payload) for _, payload in batch]
    assert [one.sequence_id for one in opened.messages] == list(range(20))
    assert len({one.key for one in opened.messages}) == 3
    assert {one.properties[0] for one in opened.messages} == {("property-1", "value-1")}


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_compressed_payload_becomes_filler_of_similar_size(kind):
    packed = compress(kind, TEXT)
    described = metadata(compression=kind, uncompressed_size=len(TEXT))
    filler = redact_payload(described, packed, Names())
    opened = open_entry(described, filler)
    assert not opened.problems
    assert opened.messages[0].size == len(TEXT)
    assert abs(len(filler) - len(packed)) <= 0.1 * len(packed)
    assert b"jane" not in filler


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_compressed_batch_stays_a_batch(kind):
    plain = join_batch(a_batch())
    described = metadata(compression=kind, uncompressed_size=len(plain), num_messages_in_batch=20)
    opened = open_entry(described, redact_payload(described, compress(kind, plain), Names()))
    assert not opened.problems
    assert len(opened.messages) == 20
    assert {set(one.payload) <= set(range(256)) and b"jane" in one.payload for one in opened.messages} == {False}


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_corrupt_payload_stays_corrupt(kind):
    described = metadata(compression=kind, uncompressed_size=1000)
    damaged = b"no compression at all"
    assert open_entry(described, damaged).problems
    filler = redact_payload(described, damaged, Names())
    assert len(filler) == len(damaged)
    assert [one.kind for one in open_entry(described, filler).problems] == ["compression"]


def test_a_damaged_batch_stays_damaged():
    described = metadata(num_messages_in_batch=20)
    damaged = join_batch(a_batch())[:-40]
    before = open_entry(described, damaged)
    after = open_entry(described, redact_payload(described, damaged, Names()))
    assert len(after.messages) == len(before.messages)
    assert [one.kind for one in after.problems] == [one.kind for one in before.problems] == ["batch"]


def test_a_ciphertext_is_noise_of_its_size():
    described = metadata()
    described.encryption_keys.add(key="k", value=b"wrapped")
    filler = redact_payload(described, TEXT, Names())
    assert len(filler) == len(TEXT)
    assert filler != redact_payload(metadata(), TEXT, Names())
    assert filler == redact_payload(described, TEXT[::-1], Names())


def test_chunks_of_a_compressed_message_lose_the_compression():
    described = metadata(
        compression=pb.LZ4, uncompressed_size=9000, uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=30
    )
    assert len(redact_payload(described, b"part of something", Names())) == 17
    assert not described.HasField("compression")
    assert described.total_chunk_msg_size == 30
