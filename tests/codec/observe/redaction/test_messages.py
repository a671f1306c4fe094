"""The table defines the treatment of every text and bytes field of the protocol, and redaction applies it."""

import pytest
from google.protobuf.descriptor import FieldDescriptor

from pcli.codec.observe.redaction import Names
from pcli.codec.observe.redaction.messages import FIELDS, redact_message
from pcli.codec.proto import pb

TEXTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def fields_of(descriptor, seen):
    if descriptor.full_name in seen:
        return
    seen.add(descriptor.full_name)
    for field in descriptor.fields:
        if field.message_type is not None:
            yield from fields_of(field.message_type, seen)
        elif field.type in TEXTS:
            yield descriptor.name, field.name


def test_the_table_contains_every_text_field():
    seen = set()
    roots = (pb.BaseCommand, pb.MessageMetadata, pb.SingleMessageMetadata, pb.BrokerEntryMetadata)
    found = {one for root in roots for one in fields_of(root.DESCRIPTOR, seen)}
    found -= {("KeyValue", "key"), ("KeyValue", "value")}  # properties have a separate table
    judged = {(message, name) for message, name in found if name in FIELDS or f"{message}.{name}" in FIELDS}
    assert found - judged == set(), "add these text and bytes fields to _TABLE in codec/observe/redaction/messages.py"


def redacted(message):
    redact_message(message, Names())
    return message


def test_credentials_and_roles_are_redacted():
    connect = redacted(
        pb.CommandConnect(
            client_version="Pulsar-Java-v4.2.4-shop",
            auth_method_name="token",
            auth_data=b"eyJhbGciOi",
            original_principal="jane",
            original_auth_data="secret",
            original_auth_method="acme-sso",
            proxy_to_broker_url="broker.acme:6650",
            protocol_version=21,
        )
    )
    assert connect == pb.CommandConnect(
        client_version="Pulsar-Java-v4.2.4",
        auth_method_name="token",
        auth_data=b"xxxxxxxxxx",
        original_principal="role-1",
        original_auth_data="xxxxxx",
        original_auth_method="method-1",
        proxy_to_broker_url="host-1:6650",
        protocol_version=21,
    )


def test_numbers_stay_and_unknown_fields_are_dropped():
    receipt = pb.CommandSendReceipt(producer_id=3, sequence_id=7, message_id=pb.MessageIdData(ledgerId=5, entryId=6))
    data = receipt.SerializeToString()
    with_more = pb.CommandSendReceipt.FromString(data + b"\xaa\x06\x06secret")
    assert redacted(with_more).SerializeToString() == data


@pytest.mark.parametrize(
    ("name", "value", "becomes"),
    [
        ("colour", "red", ("property-1", "value-1")),
        ("REAL_TOPIC", "persistent://acme/shop/orders", ("REAL_TOPIC", "persistent://tenant-1/namespace-1/topic-1")),
        ("REAL_SUBSCRIPTION", "bill", ("REAL_SUBSCRIPTION", "subscription-1")),
        ("ORIGIN_MESSAGE_ID", "11:6:-1", ("ORIGIN_MESSAGE_ID", "11:6:-1")),
        ("ORIGIN_MESSAGE_ID", "(118,1,-1,-1)", ("ORIGIN_MESSAGE_ID", "(118,1,-1,-1)")),
        ("RECONSUMETIMES", "3", ("RECONSUMETIMES", "3")),
        ("RECONSUMETIMES", "my secret", ("RECONSUMETIMES", "value-1")),
    ],
)
def test_properties(name, value, becomes):
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    metadata.properties.add(key=name, value=value)
    (pair,) = redacted(metadata).properties
    assert (pair.key, pair.value) == becomes


def test_a_schema_keeps_its_kind():
    producer = pb.CommandProducer(topic="persistent://a/b/c", producer_id=1, request_id=2)
    producer.schema.CopyFrom(pb.Schema(name="Order", type=pb.Schema.Avro, schema_data=b'{"type":"record"}'))
    schema = redacted(producer).schema
    assert schema.type == pb.Schema.Avro
    assert (schema.name, schema.schema_data) == ("schema-1", b"schema-2")


def test_texts_with_invalid_utf8():
    subscribe = pb.CommandSubscribe.FromString(
        b"\x0a\x02\xff\xfe\x12\x01s" + pb.CommandSubscribe(consumer_id=1, request_id=2).SerializePartialToString()
    )
    assert redacted(subscribe).topic == "topic-1"
