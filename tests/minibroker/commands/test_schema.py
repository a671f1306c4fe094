"""Schemas over the binary protocol. The expected responses are those of a real 4.2.4 broker."""

from __future__ import annotations

import json

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.topic_name import TopicName

T = "persistent://public/default/t"


def avro(*fields):
    """Return an Avro record R with fields (name, type[, default])."""
    described = [dict(zip(("name", "type", "default"), field)) for field in fields]
    data = json.dumps({"type": "record", "name": "R", "fields": described}).encode()
    return pb.Schema(name="s", schema_data=data, type=pb.Schema.Avro)


A, B = ("a", "int"), ("b", ["null", "string"], None)
STRING = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
NOTHING = pb.Schema(name="s", schema_data=b"", type=pb.Schema.Type.Value("None"))
FIRST, SECOND = bytes(8), bytes(7) + b"\1"


def get(client, topic=T, **fields):
    return client.one(pb.CommandGetSchema(topic=topic, **fields))


def get_or_create(client, schema, topic=T):
    return client.one(pb.CommandGetOrCreateSchema(topic=topic, schema=schema))


def code(answer):
    """Return the name of the error in a response."""
    assert answer.HasField("error_code"), answer
    return pb.ServerError.Name(answer.error_code)


# -- GET_SCHEMA ------------------------------------------------------------------------------------------------------


def test_a_producers_schema_is_returned_under_its_topics_schema_id(client):
    client.producer(schema=avro(A))
    answer = get(client)
    assert (answer.schema.name, answer.schema_version) == ("public/default/t", FIRST)
    assert (answer.schema.type, answer.schema.schema_data) == (pb.Schema.Avro, avro(A).schema_data)


def test_every_version_is_returned(client):
    client.producer(producer_id=1, schema=avro(A))
    assert client.producer(producer_id=2, schema=avro(A, B)).schema_version == SECOND
    assert client.producer(producer_id=3, schema=avro(A)).schema_version == FIRST
    assert get(client).schema.schema_data == avro(A, B).schema_data
    assert get(client, schema_version=FIRST).schema.schema_data == avro(A).schema_data
    # Only the first eight bytes of a longer version are used.
    assert get(client, schema_version=FIRST + b"\1").schema_version == FIRST


def test_a_deletion_is_a_version_without_a_schema(world):
    client = world.client()
    client.producer(schema=avro(A))
    assert world.broker.schemas.delete("public/default/t") == SECOND
    for version in ({}, {"schema_version": SECOND}):
        answer = get(client, **version)
        assert (answer.schema.name, answer.schema.type, answer.schema_version) == ("public/default/t", 0, SECOND)
    assert code(get(client, schema_version=FIRST)) == "TopicNotFound"
    assert client.producer(producer_id=2, schema=avro(A)).schema_version == bytes(7) + b"\2"


@pytest.mark.parametrize("version", [bytes(7) + b"\5", b"\xff" * 8])
def test_missing_versions(client, version):
    client.producer(schema=avro(A))
    assert code(get(client, schema_version=version)) == "TopicNotFound"


@pytest.mark.parametrize(
    ("topic", "fields", "error"),
    [
        (T, {}, "TopicNotFound"),
        ("persistent://no/such/t", {}, "TopicNotFound"),
        ("a/b", {}, "InvalidTopicName"),
        (T, {"schema_version": b""}, "IncompatibleSchema"),
        ("a/b", {"schema_version": b""}, "IncompatibleSchema"),
    ],
)
def test_a_topic_that_does_not_exist_has_no_schema(client, topic, fields, error):
    assert code(get(client, topic, **fields)) == error


def test_a_topic_without_schema(client):
    client.producer()
    assert code(get(client)) == "TopicNotFound"


def test_a_short_version_closes_the_connection(client):
    client.producer(schema=avro(A))
    assert client(pb.CommandGetSchema(topic=T, schema_version=b"abc")) == []
    assert client.closed


def test_properties_are_returned(client):
    pairs = [pb.KeyValue(key="b", value="2"), pb.KeyValue(key="a", value="1")]
    client.producer(schema=pb.Schema(name="s", schema_data=b"", type=pb.Schema.String, properties=pairs))
    assert {pair.key: pair.value for pair in get(client).schema.properties} == {"a": "1", "b": "2"}


def test_partitions_share_one_schema(client, world):
    world.broker.create_partitioned(TopicName.parse(T), 2)
    client.producer(f"{T}-partition-0", producer_id=1, schema=avro(A))
    assert client.producer(f"{T}-partition-1", producer_id=2, schema=avro(A)).schema_version == FIRST
    assert client.producer(f"{T}-partition-1", producer_id=3, schema=STRING).error == pb.IncompatibleSchema
    assert get(client).schema_version == FIRST
    assert get(client, f"{T}-partition-1").schema.name == "public/default/t"


# -- GET_OR_CREATE_SCHEMA --------------------------------------------------------------------------------------------


def test_a_schema_is_created_found_or_refused(client):
    assert code(get_or_create(client, avro(A))) == "TopicNotFound"
    client.producer()
    assert [get_or_create(client, schema).schema_version for schema in (avro(A), avro(A), avro(A, B))] == [
        FIRST,
        FIRST,
        SECOND,
    ]
    assert code(get_or_create(client, STRING)) == "IncompatibleSchema"
    assert code(get_or_create(client, pb.Schema(name="s", schema_data=b"x", type=pb.Schema.Avro))) == (
        "IncompatibleSchema"
    )


def test_a_topic_that_is_stored_and_not_loaded(client, world):
    world.broker.create_partitioned(TopicName.parse(T), 1)
    assert get_or_create(client, STRING, f"{T}-partition-0").schema_version == FIRST


@pytest.mark.parametrize("topic", ["a/b", "persistent://a/b"])
def test_an_invalid_name_closes_the_connection(client, topic):
    assert client(pb.CommandGetOrCreateSchema(topic=topic, schema=STRING)) == []
    assert client.closed


def test_the_none_type_is_no_schema_here_but_is_for_a_producer(client):
    client.producer(producer_id=1)
    answer = get_or_create(client, NOTHING)
    assert (answer.HasField("error_code"), answer.schema_version) == (False, b"")
    assert client.producer(producer_id=2, schema=NOTHING).schema_version == FIRST
    assert get(client).schema.type == NOTHING.type
    assert get_or_create(client, NOTHING).schema_version == b""


def test_with_validation_enforced_none_is_refused(make_world):
    client = make_world(isSchemaValidationEnforced=True).client()
    client.producer(schema=STRING)
    assert code(get_or_create(client, NOTHING)) == "IncompatibleSchema"


def test_without_auto_update_new_schemas_are_refused(make_world):
    client = make_world(isAllowAutoUpdateSchemaEnabled=False).client()
    client.producer()
    assert code(get_or_create(client, STRING)) == "IncompatibleSchema"


# -- consumers -------------------------------------------------------------------------------------------------------


def test_the_consumer_of_an_idle_topic_stores_its_schema(client):
    assert isinstance(client.subscribe(schema=avro(A)), pb.CommandSuccess)
    assert get(client).schema_version == FIRST


@pytest.mark.parametrize(("schema", "fits"), [(avro(A, B), True), (STRING, False), (avro(A, ("c", "string")), False)])
def test_a_consumer_must_be_compatible(client, schema, fits):
    client.producer(schema=avro(A))
    answer = client.subscribe(schema=schema)
    assert isinstance(answer, pb.CommandSuccess) if fits else answer.error == pb.IncompatibleSchema
    assert get(client).schema_version == FIRST


def test_a_consumer_with_a_schema_is_refused_if_a_producer_sends_bytes(client):
    client.producer()
    assert client.subscribe(schema=avro(A)).error == pb.IncompatibleSchema
    auto = pb.Schema(name="s", schema_data=b"", type=pb.Schema.AutoConsume)
    assert isinstance(client.subscribe(schema=auto), pb.CommandSuccess)


def test_a_consumer_with_a_schema_is_refused_if_bytes_are_stored(client):
    client.producer()
    client.publish()
    client(pb.CommandCloseProducer(producer_id=1))
    assert client.subscribe(schema=avro(A)).error == pb.IncompatibleSchema


# -- system topics ---------------------------------------------------------------------------------------------------


def test_a_system_topic_accepts_any_schema(make_world):
    client = make_world(isAllowAutoUpdateSchemaEnabled=False).client()
    topic = "persistent://public/default/__change_events"
    assert client.producer(topic, producer_id=1, schema=avro(A)).schema_version == FIRST
    assert client.producer(topic, producer_id=2, schema=STRING).schema_version == SECOND
