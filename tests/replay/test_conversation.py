"""Clients that send single commands, with a mini-broker."""

import pytest

from pcli.replay.conversation import ANY, Conversation, entry, ids

TOPIC = "persistent://public/default/talk"


@pytest.fixture
def talk(broker):
    with Conversation(broker.service_url, broker.http_url, timeout=2) as running:
        yield running


def greet(client):
    client.send("CONNECT", client_version="test", protocol_version=21)
    client.expect("CONNECTED", server_version=ANY, protocol_version=21, max_message_size=ANY, feature_flags=ANY)
    client.send("LOOKUP", topic=TOPIC, request_id=100)
    client.expect(
        "LOOKUP_RESPONSE",
        request_id=100,
        response="Connect",
        brokerServiceUrl=ANY,
        authoritative=True,
        proxy_through_service_url=True,
    )
    return client


def subscribe(client, kind="Exclusive"):
    client.send("SUBSCRIBE", topic=TOPIC, subscription="s", subType=kind, consumer_id=0, request_id=1)


def test_a_conversation(talk):
    (m1,) = ids(1)
    client = greet(talk.connect())
    subscribe(client)
    client.expect("SUCCESS", request_id=1)
    client.send("FLOW", consumer_id=0, messagePermits=10)
    client.send("PRODUCER", topic=TOPIC, producer_id=0, request_id=2, producer_name="p")
    client.expect(
        "PRODUCER_SUCCESS",
        request_id=2,
        producer_name="p",
        last_sequence_id=-1,
        schema_version=b"",
        producer_ready=True,
    )
    hello = entry(b"hello", producer_name="p", sequence_id=0, publish_time=1)
    client.send("SEND", entry=hello, producer_id=0, sequence_id=0)
    client.expect("SEND_RECEIPT", producer_id=0, sequence_id=0, message_id=m1, highest_sequence_id=0)
    client.expect("MESSAGE", entry=hello, consumer_id=0, message_id=m1.at(partition=-1))
    client.send("ACK", consumer_id=0, ack_type="Individual", message_id=[m1])


def test_a_different_response_fails_at_once(talk):
    client = greet(talk.connect())
    client.send("SEEK", consumer_id=5, request_id=3, message_publish_time=1)
    with pytest.raises(AssertionError, match=r"received << ERROR .*'request_id': 3"):
        client.expect("SUCCESS", request_id=3)
    client.expect("ERROR", request_id=3, error="MetadataError", message=ANY)


def test_a_missing_response_fails(talk):
    client = greet(talk.connect())
    with pytest.raises(AssertionError, match=r"expected << MESSAGE .*did not arrive in time"):
        client.expect("MESSAGE", consumer_id=0, message_id=ANY)


def test_an_unexpected_response_fails(broker):
    talk = Conversation(broker.service_url)
    client = greet(talk.connect())
    subscribe(client)
    with pytest.raises(AssertionError, match="sent unexpected responses:\n   received << SUCCESS"), talk:
        pass


def test_all_clients_read_while_one_waits(talk):
    """Before the broker refuses a second consumer, it sends a PING to the holder of the subscription."""
    first, second = greet(talk.connect()), greet(talk.connect())
    subscribe(first)
    first.expect("SUCCESS", request_id=1)
    subscribe(second)
    second.expect("ERROR", request_id=1, error="ConsumerBusy", message=ANY)


def test_close_waits_for_the_broker(broker, talk):
    client = greet(talk.connect())
    subscribe(client)
    client.expect("SUCCESS", request_id=1)
    client.close()
    assert broker.connections == []


def test_the_end_of_a_connection(broker, talk):
    client = greet(talk.connect())
    broker.disconnect()
    client.expect_close()
    with pytest.raises(AssertionError, match="has closed the connection"):
        client.expect("SUCCESS", request_id=1)


def test_rest_calls(talk):
    assert talk.admin("PUT", "persistent/public/default/parts/partitions", body=3) == 204
    client = greet(talk.connect())
    client.send("PARTITIONED_METADATA", topic="persistent://public/default/parts", request_id=1)
    client.expect("PARTITIONED_METADATA_RESPONSE", partitions=3, request_id=1, response="Success")
