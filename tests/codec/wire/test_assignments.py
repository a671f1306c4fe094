"""Frames from assignments."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.assignments import pull_assignments
from pcli.codec.wire.build import push_entry, push_frame
from pcli.codec.wire.lossless import push_wire_json


def frame(*words):
    return push_wire_json(pull_assignments(list(words)))


def test_simple():
    encoded = frame("flow", "consumer_id=1", "messagePermits=0x0a")
    assert encoded == push_frame(pb.CommandFlow(consumer_id=1, messagePermits=10))


def test_ids_lists_enums_and_booleans():
    ack = frame("ACK", "consumer_id=1", "ack_type=Cumulative", "message_id=5:7:-1:2", "message_id=5:8")
    assert ack == push_frame(
        pb.CommandAck(
            consumer_id=1,
            ack_type=pb.CommandAck.Cumulative,
            message_id=[
                pb.MessageIdData(ledgerId=5, entryId=7, batch_index=2),
                pb.MessageIdData(ledgerId=5, entryId=8),
            ],
        )
    )
    encoded = frame(
        "SUBSCRIBE", "topic=t", "subscription=s", "subType=Key_Shared", "consumer_id=0", "request_id=1",
        "durable=false",
        'keySharedMeta={"keySharedMode": "STICKY", "hashRanges": [{"start": 0, "end": 9}]}', "metadata.color=red",
    )  # fmt: skip
    subscribe = pb.CommandSubscribe(
        topic="t", subscription="s", subType=3, consumer_id=0, request_id=1, durable=False,
        metadata=[pb.KeyValue(key="color", value="red")],
        keySharedMeta=pb.KeySharedMeta(keySharedMode=1, hashRanges=[pb.IntRange(start=0, end=9)]),
    )  # fmt: skip
    assert encoded == push_frame(subscribe)


def test_nested_and_bytes():
    encoded = frame("AUTH_RESPONSE", "response.auth_method_name=token", "response.auth_data=text:abc")
    data = pb.AuthData(auth_method_name="token", auth_data=b"abc")
    assert encoded == push_frame(pb.CommandAuthResponse(response=data))


def test_a_message_with_its_entry():
    encoded = frame(
        "SEND", "producer_id=1", "sequence_id=5", "metadata.producer_name=p", "metadata.sequence_id=5",
        "metadata.publish_time=7", "metadata.properties.color=red", "entry.index=3", "payload=hex:6869",
    )  # fmt: skip
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=5, publish_time=7, properties=[pb.KeyValue(key="color", value="red")]
    )
    entry = push_entry(metadata, b"hi", broker_entry=pb.BrokerEntryMetadata(index=3))
    assert encoded == push_frame(pb.CommandSend(producer_id=1, sequence_id=5), entry)


def test_command_line_bytes_with_invalid_utf8():
    entry = push_entry(b"", b"\xff")
    assert frame("SEND", "producer_id=1", "sequence_id=1", "payload=\udcff")[-len(entry) :] == entry


PATHS = st.sampled_from(
    [
        "message_id",
        "properties",
        "properties.a",
        "message_id.x",
        "response",
        "response.auth_data",
        "schema.properties.a",
    ]
)
TEXTS = st.sampled_from(["[1]", "{}", '{"a": [5]}', '{"properties": 5}', "1:2", "inf", "²"]) | st.text(st.characters())


@given(
    st.sampled_from(["ACK", "AUTH_RESPONSE", "SUBSCRIBE", "SEND"]),
    st.lists(st.builds("{}={}".format, PATHS | st.text(st.characters()), TEXTS), max_size=4),
)
def test_any_words_raise_only_local_errors(name, words):
    with suppress(LocalError):
        assert isinstance(frame(name, *words), bytes)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the command is missing"),
        (["FLOWS"], "unknown command FLOWS; near: FLOW"),
        (["FLOW", "consumer_id"], "write field=value"),
        (["FLOW", "consumer=1"], "near: consumer_id"),
        (["FLOW", "consumer_id=one"], "a number is expected"),
        (["FLOW", "consumer_id.x=1"], "has no parts"),
        (["ACK", "message_id=x"], "is not a message id"),
        (["ACK", "message_id.ledgerId=1"], "give its items as JSON"),
        (["SUBSCRIBE", "durable=perhaps"], "true or false"),
        (["SUBSCRIBE", "schema=x"], "is a message"),
        (["SUBSCRIBE", "schema={x"], "not JSON"),
        (["ACK", "properties.a=²"], "a number is expected"),
        (["ACK", "properties.a=" + "9" * 5000], "a number is expected"),
        (["FLOW", "consumer_id=٣"], "a number is expected"),
        (["FLOW", "consumer_id=0x" + "f" * 5000], "a number is expected"),
        (["CONSUMER_STATS_RESPONSE", "msgRateOut=1.2.3"], "a number is expected"),
        (["ACK", "message_id=" + "[" * 100_000], "not JSON"),
        (["ACK", "message_id=[" + "9" * 5000 + "]"], "not JSON"),
        (["ACK", 'message_id={"ledgerId": 1e999}'], "is not a value"),
        (["ACK", f"message_id={2**31}:1:{2**31}"], "is not a message id"),
        (["SUBSCRIBE", "start_message_id" + ".first_chunk_message_id" * 5000 + "=1:2"], "nested messages"),
        (["AUTH_RESPONSE", "response=[1]", "response.auth_data=00"], "was given before"),
        (["AUTH_RESPONSE", 'response={"auth_data": 5}', "response.auth_data.x=1"], "has no parts"),
        (["SUBSCRIBE", 'schema={"properties": 5}', "schema.properties.a=1"], "was given before"),
        (["SEND", "payload=\ud800"], "half of a surrogate pair"),
        (["FLOW", "\ud800=1"], "has no field"),
    ],
)
def test_invalid_words(words, said):
    with pytest.raises(LocalError) as caught:
        frame(*words)
    assert said in str(caught.value)
