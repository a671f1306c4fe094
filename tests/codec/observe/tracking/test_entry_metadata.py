"""The fast metadata decoder compared with the decode plans, on real and on malformed metadata."""

import pytest

from pcli.codec.observe.tracking.entry_metadata import FIELD, key_of, number_of, pull_fields, text_of
from pcli.codec.proto import pb

NUMBERS = ("sequence_id", "num_messages_in_batch", "txnid_most_bits", "num_chunks_from_msg", "chunk_id", "marker_type")


@pytest.mark.parametrize(
    "name", ["java/message-shapes", "java/chunks-interleaved", "java/txn-commit", "go/dead-letter"]
)
def test_fields_equal_those_of_the_decode_plan(corpus, name):
    seen = 0
    for facts in corpus.facts(name):
        parts = facts.frame.parts
        if parts.metadata_start < 0:
            continue
        seen += 1
        fields = pull_fields(facts.frame.data, parts.metadata_start, parts.metadata_end)
        walked = facts.metadata
        assert text_of(fields, FIELD["producer_name"]) == walked["pulsar.metadata.producer_name"]
        assert text_of(fields, FIELD["partition_key"]) == walked.get("pulsar.metadata.partition_key", "")
        assert number_of(fields, FIELD["publish_time"]) * 1_000_000 == walked["pulsar.metadata.publish_time"]
        for number in NUMBERS:
            assert number_of(fields, FIELD[number], -1) == walked.get(f"pulsar.metadata.{number}", -1)
    assert seen


def test_truncated_metadata():
    whole = pb.MessageMetadata(producer_name="p", sequence_id=300, publish_time=5, partition_key="k" * 200)
    data = whole.SerializeToString()
    for end in range(len(data)):
        fields = pull_fields(data, 0, end)
        assert number_of(fields, FIELD["sequence_id"], 300) == 300
        assert key_of(fields) in ("", "k" * 200)


@pytest.mark.parametrize("data", [b"\xff" * 30, b"\x0b\x01", b"\x12\x7f\x00", b"\x19\x01"])
def test_invalid_protobuf(data):
    assert number_of(pull_fields(data, 0, len(data)), FIELD["publish_time"]) >= 0


def test_a_number_where_a_text_should_be():
    fields = pull_fields(b"\x08\x05\x12\x01a\x30\x07", 0, 7)
    assert (text_of(fields, FIELD["producer_name"]), number_of(fields, FIELD["sequence_id"]), key_of(fields)) == (
        "",
        0,
        "",
    )
