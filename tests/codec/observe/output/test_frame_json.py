"""A frame as a flat object: exactly its present fields, in forms that JSON supports, with secrets hidden."""

from __future__ import annotations

import json

import pytest

from pcli.codec.observe import all_fields, find_field, flatten, problems_of, show
from pcli.codec.observe.fields.general_fields import _is_clean, _strange
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.commands import COMMANDS, name_of
from pcli.codec.wire.hot import push_varint
from pcli.codec.wire.problems import Problem

METADATA = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1763726400123)


def frame_of(command):
    packed = command.SerializePartialToString() if not isinstance(command, bytes) else command
    return (len(packed) + 4).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed


def test_a_frame_as_an_object(conversation):
    metadata = pb.MessageMetadata()
    metadata.CopyFrom(METADATA)
    metadata.properties.add(key="a", value="1")
    metadata.schema_version = b"\0\1"
    metadata.replicate_to.append("west")
    entry = push_entry(metadata, b"hello", broker_entry=pb.BrokerEntryMetadata(index=7, broker_timestamp=0))
    place = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**63)
    facts = conversation.broker(pb.CommandMessage(consumer_id=1, message_id=place, ack_set=[-1, 5]), entry)
    assert flatten(facts) == {
        "frame.number": 101,
        "frame.time_epoch": "0.001000000",
        "tcp.stream": 0,
        "ip.src": "10.0.0.2",
        "ip.dst": "10.0.0.1",
        "tcp.srcport": 6650,
        "tcp.dstport": 40000,
        "pulsar.number": 1,
        "pulsar.type": "MESSAGE",
        "pulsar.from": "broker",
        "pulsar.length": len(facts.frame.data),
        "pulsar.sync": "start",
        "pulsar.checksum": "good",
        "pulsar.system": False,
        "pulsar.consumer_id": 1,
        "pulsar.message_id": f"-1:{-(2**63)}",
        "pulsar.producer_name": "p",
        "pulsar.payload_size": 5,
        "pulsar.message.consumer_id": 1,
        "pulsar.message.message_id.ledgerId": -1,
        "pulsar.message.message_id.entryId": 2**63,
        "pulsar.message.ack_set": [-1, 5],
        "pulsar.entry.index": 7,
        "pulsar.entry.broker_timestamp": "0.000000000",
        "pulsar.metadata.producer_name": "p",
        "pulsar.metadata.sequence_id": 0,
        "pulsar.metadata.publish_time": "1763726400.123000000",
        "pulsar.metadata.properties": [{"key": "a", "value": "1"}],
        "pulsar.metadata.schema_version": "0001",
        "pulsar.metadata.replicate_to": ["west"],
        "pulsar.payload": "<hidden: 5 bytes>",
        "pulsar.opened": "<hidden: 5 bytes>",
    }
    assert flatten(facts, payload=True)["pulsar.payload"] == b"hello".hex()


def test_answers_and_latency(conversation):
    conversation.client(pb.CommandPing())
    flat = flatten(conversation.broker(pb.CommandPong()))
    assert (flat["pulsar.answer_to"], flat["pulsar.latency"]) == (1, "0.001000000")
    assert flat["pulsar.pong"] == {}


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (pb.CommandConnect(client_version="c", auth_data=b"token!"), "pulsar.connect.auth_data"),
        (pb.CommandConnect(client_version="c", original_auth_data="token!"), "pulsar.connect.original_auth_data"),
        (
            pb.CommandAuthResponse(response=pb.AuthData(auth_data=b"token!")),
            "pulsar.authResponse.response.auth_data",
        ),
        (
            pb.CommandAuthChallenge(challenge=pb.AuthData(auth_data=b"token!")),
            "pulsar.authChallenge.challenge.auth_data",
        ),
        (
            pb.CommandLookupTopic(topic="t", request_id=1, original_auth_data="token!"),
            "pulsar.lookupTopic.original_auth_data",
        ),
        (
            pb.CommandPartitionedTopicMetadata(topic="t", request_id=1, original_auth_data="token!"),
            "pulsar.partitionMetadata.original_auth_data",
        ),
    ],
)
def test_credentials_are_hidden_unless_requested(conversation, body, key):
    facts = conversation.client(body)
    assert flatten(facts)[key] == "<hidden: 6 bytes>"
    assert flatten(facts, secrets=True)[key] in ("token!", b"token!".hex())
    shown = json.dumps(flatten(facts))
    assert "token!" not in shown
    assert b"token!".hex() not in shown


def test_credentials_in_unknown_fields_are_hidden(conversation):
    """Credentials in a body of another type, and in unknown fields next to credentials."""
    command = pb.BaseCommand(type=18, connect=pb.CommandConnect(client_version="c", auth_data=b"token!"))
    command.ping.SetInParent()
    stray = conversation.client(frame_of(command))
    connect = pb.CommandConnect.FromString(b"\x0a\x01c\xa2\x06\x06token!")
    beside = conversation.client(connect)
    assert flatten(stray)["pulsar.unknown.2"] == ["<hidden: 11 bytes>"]
    assert flatten(beside)["pulsar.connect.unknown.100"] == ["<hidden: 6 bytes>"]
    assert flatten(beside, secrets=True)["pulsar.connect.unknown.100"] == [b"token!".hex()]
    field = find_field("pulsar.connect.unknown.100")
    assert show(field, field.get(beside)) == ["<hidden: 6 bytes>"]
    field = find_field("pulsar.unknown.2")
    assert show(field, field.get(stray)) == ["<hidden: 11 bytes>"]


def test_unknown_commands_are_shown(conversation):
    command = b"\x08\x63\x9a\x06\x02\x08\x05"
    flat = flatten(conversation.client(frame_of(command)))
    assert flat["pulsar.type"] == "UNKNOWN_99"
    assert flat["pulsar.unknown.99"] == ["0805"]
    assert "unknown-command" in flat["pulsar.problem"]


def test_problems_of_the_capture_the_frame_and_the_sender(conversation):
    problem = Problem("gap", "12 bytes before it")
    flat = flatten(conversation.client(pb.CommandSuccess(request_id=1), problems=(problem,)))
    assert flat["pulsar.problem"] == ["gap", "direction"]
    assert flat["pulsar.problem.detail"][0] == "gap: 12 bytes before it"
    bad = push_entry(METADATA, b"hello")[:-1] + b"!"
    flat = flatten(conversation.client(pb.CommandSend(producer_id=1, sequence_id=1), bad))
    assert flat["pulsar.problem"] == ["checksum"]
    assert flat["pulsar.checksum"] == "bad"
    name = pb.MessageMetadata.FromString(b"\x0a\x02\xff\xfe\x10\x01\x18\x01")
    flat = flatten(conversation.client(pb.CommandSend(producer_id=1, sequence_id=2), push_entry(name, b"")))
    assert flat["pulsar.problem"] == ["utf8"]
    assert flat["pulsar.metadata.producer_name"] == "\\xff\\xfe"


def test_missing_required_metadata_fields_are_problems(conversation):
    """A property without a value, and metadata without a producer name."""
    for metadata, missing in (
        (METADATA.SerializeToString() + b"\x22\x03\x0a\x01a", "value"),
        (b"\x10\x01\x18\x01", "producer_name"),
    ):
        flat = flatten(conversation.client(pb.CommandSend(producer_id=1, sequence_id=1), push_entry(metadata, b"")))
        assert flat["pulsar.problem"] == ["required"]
        assert missing in flat["pulsar.problem.detail"][0]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 9}, None),
        ({"uuid": "u", "chunk_id": 3, "num_chunks_from_msg": 2}, "chunk 3 (from 0) of 2 of 'u' has an invalid number"),
        (
            {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": -1},
            "chunk 0 (from 0) of -1 of 'u' has an invalid number",
        ),
        ({"chunk_id": 0, "num_chunks_from_msg": 2}, "has no uuid"),
        ({"num_chunks_from_msg": 2}, "has no uuid"),
        ({"uuid": "u", "chunk_id": 1, "num_chunks_from_msg": 2, "total_chunk_msg_size": 4}, "of 5 bytes belongs to"),
        ({"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2, "total_chunk_msg_size": 0}, "a message of 0 bytes"),
    ],
)
def test_contradictory_chunk_metadata_are_reported_without_opening(conversation, fields, told):
    metadata = pb.MessageMetadata(**fields)
    metadata.MergeFrom(METADATA)
    flat = flatten(conversation.client(pb.CommandSend(producer_id=1, sequence_id=1), push_entry(metadata, b"hello")))
    assert flat.get("pulsar.problem") == (["chunk"] if told else None)
    assert told is None or told in flat["pulsar.problem.detail"][0]


def test_an_encrypted_chunk_may_exceed_its_declared_size(conversation):
    """The difference is the 16 bytes of the authentication tag."""
    key = pb.EncryptionKeys(key="k", value=b"v")
    metadata = pb.MessageMetadata(
        uuid="u", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=10, encryption_keys=[key]
    )
    metadata.MergeFrom(METADATA)
    send = conversation.client(pb.CommandSend(producer_id=1, sequence_id=1), push_entry(metadata, bytes(5 + 16)))
    assert problems_of(send) == []


def test_numbers_without_a_json_form_are_strings(conversation):
    facts = conversation.broker(
        pb.CommandConsumerStatsResponse(request_id=1, msgRateOut=float("inf"), msgThroughputOut=0.5)
    )
    flat = flatten(facts)
    assert flat["pulsar.consumerStatsResponse.msgRateOut"] == "Infinity"
    assert flat["pulsar.consumerStatsResponse.msgThroughputOut"] == 0.5
    assert "Infinity" in json.dumps(flat, allow_nan=False)


def present(facts):
    """Return the values of the field table as JSON has them, without messages and fields inside arrays of objects."""
    names = {field.name for field in all_fields() if field.listed and field.get(facts) is not None}
    arrays = [f"{name}." for name in names if find_field(name).kind == "list of message"]
    nodes = {name for name in names if find_field(name).kind == "message" and find_field(name).get(facts)}
    return {name for name in names - nodes if not name.startswith(tuple(arrays))}


def test_flatten_contains_exactly_the_values_of_the_fields(small):
    """The comparison covers a frame of every type in every committed capture."""
    seen = 0
    for name in small.names():
        kinds = {}
        for facts in small.facts(name):
            kinds.setdefault((facts.frame.type, len(facts.metadata), bool(facts.request_number)), facts)
        for facts in kinds.values():
            flat = flatten(facts)
            assert flat.keys() == present(facts), (name, facts.frame.number)
            for key, value in flat.items():
                field = find_field(key)
                if field.element != "message":
                    assert show(field, field.get(facts)) == value, (name, key)
            json.dumps(flat, allow_nan=False)
            seen += 1
    assert seen > 300


def test_batches_are_opened_only_on_request(small):
    facts = [one for one in small.facts("python/02-batched-keys-properties") if one.batch]
    assert facts
    for one in facts:
        opened, closed = flatten(one), flatten(one, batch=False)
        assert opened.keys() - closed.keys() <= {"pulsar.batch", "pulsar.key"}
        assert "pulsar.batch" in opened
        assert {**opened, **closed} == opened
        assert [message["index"] for message in opened["pulsar.batch"]] == list(range(len(opened["pulsar.batch"])))


def test_the_fast_check_for_problems_agrees_with_the_full_check(small):
    """A frame that passes the fast check has no problems, even if any byte of its header is changed."""
    clean = 0
    for name in small.names():
        for facts in small.facts(name)[:60]:
            if _is_clean(facts):
                clean += 1
                assert facts.frame.problems == [], (name, facts.frame.number)
    assert clean > 500


@pytest.mark.parametrize("number", COMMANDS)
def test_a_command_without_its_body_is_not_clean(conversation, number):
    data = frame_of(b"\x08" + push_varint(number))
    facts = conversation.say(data, b"", 0, from_client=COMMANDS[number].client_may_send)
    assert "required" in [one.kind for one in problems_of(facts)]


@pytest.mark.parametrize(
    "body",
    [
        pb.CommandError(request_id=3, error=pb.TopicNotFound, message="no"),
        pb.CommandError(request_id=300, error=pb.TopicNotFound, message="nö"),
        pb.CommandActiveConsumerChange(consumer_id=300, is_active=True),
        pb.CommandSendReceipt(producer_id=1, sequence_id=300, message_id=pb.MessageIdData(ledgerId=5, entryId=600)),
    ],
)
def test_changed_bytes_of_commands_do_not_pass_the_fast_check(conversation, body):
    whole = conversation.broker(body).frame.data
    clean = 0
    for position in range(4, len(whole)):
        for value in range(256):
            facts = conversation.broker(whole[:position] + bytes([value]) + whole[position + 1 :])
            if _is_clean(facts):
                clean += 1
                assert facts.frame.problems == list(_strange(facts)) == []
    assert clean > 100


@pytest.mark.parametrize("position", range(4, 60))
def test_changed_bytes_do_not_pass_the_fast_check(conversation, position):
    metadata = pb.MessageMetadata()
    metadata.CopyFrom(METADATA)
    metadata.properties.add(key="a", value="1")
    entry = push_entry(metadata, b"hello world, this is long enough", broker_entry=pb.BrokerEntryMetadata(index=7))
    place = pb.MessageIdData(ledgerId=5, entryId=6)
    whole = conversation.broker(pb.CommandMessage(consumer_id=1, message_id=place), entry).frame.data
    for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
        data = whole[:position] + bytes([value]) + whole[position + 1 :]
        facts = conversation.broker(data)
        if _is_clean(facts):
            assert facts.frame.problems == []
        assert {one.kind for one in facts.frame.problems} <= {one.kind for one in problems_of(facts)}
        flat = flatten(facts)
        json.dumps(flat, allow_nan=False)
        assert name_of(facts.frame.type) == flat["pulsar.type"]
