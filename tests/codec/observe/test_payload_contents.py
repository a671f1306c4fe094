"""Payload contents as fields: bytes compared with the applications' hashes, values with other decoders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest

from pcli.codec.observe import Observer, column, compile_filter, find_field, flatten, problems_of
from pcli.codec.observe.payload_contents import Contents
from pcli.codec.payload import join_batch
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry

TOPIC = "persistent://public/default/t"


def observed(corpus, name, keys=None):
    """Return the facts of a capture with opened payloads, in order."""
    contents = Contents(keys or {})
    observer = Observer(opener=contents.open)
    for frame in corpus.frames(name):
        facts = observer.see(frame)
        contents.see(facts)
        yield facts


def place(message_id):
    """Return an id without the partition, which clients add themselves."""
    return tuple(message_id.split(":")[:2])


def received(corpus, name):
    """Return the hashes of messages outside batches that the application received, by ledger and entry."""
    return {
        place(event["message_id"]): event["sha1"]
        for event in corpus.truth(name)["events"]
        if event["type"] == "received" and event["message_id"].endswith(":-1")
    }


@pytest.mark.parametrize(
    "name", ["python/03-compression-lz4", "python/04-compression-zlib", "go/chunks", "java/schemas"]
)
def test_the_opened_payload_equals_the_applications(small, name):
    truth = received(small, name)
    found = {}
    for facts in observed(small, name):
        flat = flatten(facts, payload=True)
        if flat["pulsar.type"] == "MESSAGE" and "pulsar.opened" in flat:
            digest = hashlib.sha1(bytes.fromhex(flat["pulsar.opened"])).hexdigest()
            found[place(flat["pulsar.message_id"])] = digest[:12]
    assert truth
    assert {one: found.get(one) for one in truth} == truth


def test_an_encrypted_payload_opens_with_its_key(small):
    name = "python/08-encrypted"
    key = (small.folder / "python/08-encrypted.test-private-key.pem").read_bytes()
    produced = {event["sha1"] for event in small.truth(name)["events"] if event["type"] == "produced"}
    sealed, opened = ([one for one in observed(small, name, keys) if one.metadata] for keys in (None, {"key": key}))
    field = find_field("pulsar.opened")
    closed = [one for one in sealed if "pulsar.metadata.encryption_keys" in one.metadata]
    assert len(closed) > 10
    assert all(field.get(one) is None for one in closed)
    single = [field.get(one) for one in opened if "pulsar.metadata.num_messages_in_batch" not in one.metadata]
    assert {hashlib.sha1(data).hexdigest()[:12] for data in single} <= produced
    assert len(single) > 10


def test_values_are_decoded_with_the_schemas_of_the_capture(small):
    values = {}
    for facts in observed(small, "java/schemas"):
        flat = flatten(facts, payload=True)
        if "pulsar.value" in flat and flat["pulsar.type"] == "MESSAGE":
            topic = flat["pulsar.topic"].rpartition("/")[2]
            values.setdefault(topic, []).append(
                (json.loads(flat["pulsar.value"]), bytes.fromhex(flat["pulsar.opened"]))
            )
    readers = {
        "schemas-json": json.loads,
        "schemas-string": bytes.decode,
        "schemas-int64": lambda data: int.from_bytes(data, "big", signed=True),
        "schemas-boolean": lambda data: data != b"\0",
    }
    for topic, read in readers.items():
        assert values[topic]
        assert all(value == read(payload) for value, payload in values[topic])
    assert all(value.keys() == {"symbol", "price", "volume"} for value, _ in values["schemas-avro"])


@pytest.fixture
def produce(talk_to) -> Callable[..., tuple]:
    """A producer with a schema that sends these entries; return the facts of each SEND."""

    def run(schema: pb.Schema, *entries: bytes):
        contents = Contents()
        conversation = talk_to(Observer(opener=contents.open))
        contents.see(conversation.client(pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1, schema=schema)))
        version = pb.CommandProducerSuccess(request_id=1, producer_name="p", schema_version=b"\1")
        contents.see(conversation.broker(version))
        found = []
        for entry in entries:
            facts = conversation.client(pb.CommandSend(producer_id=1, sequence_id=len(found)), entry)
            contents.see(facts)
            found.append(facts)
        return found

    return run


def metadata(**fields):
    return pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, schema_version=b"\1", **fields)


JSON = pb.Schema(name="s", type=pb.Schema.Json, schema_data=b"")


def test_a_batch_has_a_value_for_each_of_its_messages(produce):
    single = pb.SingleMessageMetadata
    batch = join_batch([
        (single(payload_size=0), b'{"a": "\xc3\xbc"}'),
        (single(payload_size=0, null_value=True), b""),
        (single(payload_size=0, compacted_out=True), b""),
        (single(payload_size=0), b"[1]"),
    ])  # fmt: skip
    (facts,) = produce(JSON, push_entry(metadata(num_messages_in_batch=4), batch))
    flat = flatten(facts, payload=True)
    assert [json.loads(value) for value in flat["pulsar.value"]] == [{"a": "ü"}, None, None, [1]]
    assert "ü" in flat["pulsar.value"][0]
    assert "pulsar.opened" not in flat
    assert "pulsar.value" not in flatten(facts, payload=True, batch=False)
    assert compile_filter('pulsar.value contains "ü"').match(facts)


def test_a_value_that_does_not_decode_is_a_problem_of_the_frame(produce):
    good = push_entry(metadata(), b'{"a": 1}')
    bad = push_entry(metadata(), b'{"a": ')
    batch = join_batch([(pb.SingleMessageMetadata(payload_size=0), data) for data in (b"1", b"{")])
    first, second, third = produce(JSON, good, bad, push_entry(metadata(num_messages_in_batch=2), batch))
    assert problems_of(first) == []
    assert [problem.kind for problem in problems_of(second)] == ["schema"]
    assert flatten(second, payload=True)["pulsar.problem"] == ["schema"]
    assert "pulsar.value" not in flatten(second, payload=True)
    assert [problem.kind for problem in problems_of(third)] == ["schema"]
    assert "message 1" in problems_of(third)[0].detail
    assert flatten(third, payload=True)["pulsar.value"] == ["1", "null"]


def test_a_schema_without_an_encoding_is_no_problem(produce):
    (facts,) = produce(pb.Schema(name="s", type=pb.Schema.Protobuf, schema_data=b"{}"), push_entry(metadata(), b"\1"))
    assert problems_of(facts) == []
    assert "pulsar.value" not in flatten(facts, payload=True)


def test_chunks_that_contradict_each_other(produce):
    chunks = [(0, 3, 6), (1, 3, 7), (1, 2, 6)]
    sent = produce(
        JSON,
        *(
            push_entry(
                metadata(uuid="u", chunk_id=number, num_chunks_from_msg=count, total_chunk_msg_size=total), b"[1"
            )
            for number, count, total in chunks
        ),
    )
    told = [[str(problem) for problem in problems_of(facts)] for facts in sent]
    assert told == [
        [],
        ["chunk: chunk 1 (from 0) of 3 of 'u' belongs to a message of 7 bytes; chunk 0 specifies 6"],
        ["chunk: chunk 1 (from 0) of 2 of 'u' belongs to a message of 3 chunks: the message is discarded"],
    ]


def test_one_problem_is_reported_once(produce):
    (facts,) = produce(JSON, push_entry(metadata(uuid="u", chunk_id=3, num_chunks_from_msg=2), b"x"))
    assert len(problems_of(facts)) == 1


def test_values_are_hidden_like_payloads(produce):
    (facts,) = produce(JSON, push_entry(metadata(), b'{"a": "secret"}'))
    flat = flatten(facts, secrets=True)
    assert flat["pulsar.opened"] == "<hidden: 15 bytes>"
    assert flat["pulsar.value"] == "<hidden: 15 bytes>"
    assert "secret" not in json.dumps(flat)
    for name, shown in (("pulsar.value", '{"a": "secret"}'), ("pulsar.opened", b'{"a": "secret"}'.hex())):
        field = find_field(name)
        assert column(field)(facts) == "<hidden: 15 bytes>"
        assert column(field, payload=True)(facts) == shown


def test_unopened_entries_have_no_opened_payload(conversation):
    """Payloads without their keys or chunks, of a truncated frame, and with malformed metadata."""
    key = pb.EncryptionKeys(key="k", value=b"v")
    chunk = {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 9}
    for entry in (
        push_entry(metadata(encryption_keys=[key]), b"x"),
        push_entry(metadata(**chunk), b"x"),
        push_entry(metadata(compression=pb.ZLIB, uncompressed_size=5), b"x"),
    ):
        facts = conversation.client(pb.CommandSend(producer_id=1, sequence_id=1), entry)
        assert "pulsar.opened" not in flatten(facts)
    whole = conversation.client(pb.CommandSend(producer_id=1, sequence_id=1), push_entry(metadata(), b"hello"))
    assert flatten(whole, payload=True)["pulsar.opened"] == b"hello".hex()
    assert "pulsar.opened" not in flatten(conversation.client(whole.frame.data[:-1]))
    broken = bytearray(whole.frame.data)
    broken[broken.index(b"\x0a\x01p")] = 0x0B
    assert "pulsar.opened" not in flatten(conversation.client(bytes(broken)))
