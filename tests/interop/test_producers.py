"""Responses of the broker to producers: duplicates, access modes, schemas."""

import pytest

from pcli.codec.proto import pb

FULL_CLIENTS = pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)
NO_LEDGER = 2**64 - 1


@FULL_CLIENTS
def test_duplicates_are_not_stored(play, client, pulsar_broker, rest):
    rest("POST", "namespaces/public/default/deduplication", True)
    result = play("deduplicate")
    assert result["received"] == [f"message-{n}" for n in range(4)]
    # The Go client counts only the messages that it sent itself.
    assert result["last"] == ([-1, -1] if client == "go" else [-1, 2])
    assert pulsar_broker.topic("orders").payloads == [b"message-%d" % n for n in range(4)]
    last_sequence_ids = [
        frame.command.last_sequence_id for frame in pulsar_broker.frames("pulsar.type == 'PRODUCER_SUCCESS'")
    ]
    assert last_sequence_ids == [-1, 2]
    receipts = [frame.command.message_id.ledgerId for frame in pulsar_broker.frames("pulsar.type == 'SEND_RECEIPT'")]
    assert [ledger == NO_LEDGER for ledger in receipts] == [False, False, False, True, True, False]


def test_an_exclusive_producer_prevents_others(play, client, pulsar_broker):
    result = play("access_modes")
    assert result.pop("refused")
    assert result == {"early": False}
    assert pulsar_broker.topic("orders").payloads == [b"holder", b"heir"]
    [refused] = pulsar_broker.frames("pulsar.type == 'ERROR'")
    assert refused.command.error == pb.ProducerFenced
    if client != "node":
        ready = [frame.command.producer_ready for frame in pulsar_broker.frames("pulsar.type == 'PRODUCER_SUCCESS'")]
        assert ready == [True, False, True]


@pytest.mark.parametrize("client", ["python", "java"], indirect=True)
def test_a_producer_may_fence_another(play, pulsar_broker):
    assert play("fencing")["fenced"]
    assert pulsar_broker.topic("orders").payloads == [b"holder", b"usurper"]
    epochs = [
        frame.command.topic_epoch
        for frame in pulsar_broker.frames("pulsar.type == 'PRODUCER_SUCCESS'")
        if frame.command.producer_ready
    ]
    assert epochs[:2] == [0, 1]


@FULL_CLIENTS
@pytest.mark.parametrize("kind", ["string", "json", "avro"])
def test_schemas(play, pulsar_broker, rest, kind):
    result = play("schema", kind=kind)
    assert result.pop("refused")
    assert result == {"value": "eins" if kind == "string" else {"name": "Ada", "age": 36}}
    assert rest("GET", "schemas/public/default/orders/schema")["type"] == kind.upper()
    [made] = pulsar_broker.frames("pulsar.type == 'PRODUCER_SUCCESS'")
    assert made.command.schema_version == bytes(8)
    refused = {frame.command.error for frame in pulsar_broker.frames("pulsar.type == 'ERROR'")}
    assert refused == {pb.IncompatibleSchema}
