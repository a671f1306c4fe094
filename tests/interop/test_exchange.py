"""Clients receive what they sent: subscription types, batches, compression, chunks, other topics, lookup over HTTP."""

import itertools

import pytest

from pcli.codec.proto import pb

FULL_CLIENTS = pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)
"""Clients with keys, compression and chunks, which pulsar-flex lacks."""


def expected(count, client):
    records = [
        {
            "data": f"message-{n}",
            "properties": {"n": str(n)},
            "key": f"k{n % 5}",
            "ordering_key": f"o{n % 5}",
            "event_time": 1000 + n,
        }
        for n in range(count)
    ]
    return [{name: one[name] for name in ("data", "properties")} for one in records] if client == "node" else records


def number(record):
    return int(record["properties"]["n"])


@pytest.mark.parametrize("batching", ["none", "default"])
@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "Key_Shared"])
def test_every_subscription_type_receives_every_message(play, client, pulsar_broker, kind, batching):
    received = play("exchange", type=kind, batching=batching)["received"]
    if kind in ("Shared", "Key_Shared"):
        received.sort(key=number)
    assert received == expected(20, client)
    orders = pulsar_broker.wait_until(lambda b: (t := b.topic("orders")).backlog == 0 and t)
    assert orders.payloads == [b"message-%d" % n for n in range(20)]
    assert orders.subscriptions["work"].type == kind
    sends = pulsar_broker.frames("pulsar.type == 'SEND'")
    assert sum(frame.command.num_messages for frame in sends) == 20
    assert len(sends) == 20 if batching == "none" else len(sends) < 20


@FULL_CLIENTS
def test_the_broker_has_the_values_of_the_client(play, pulsar_broker):
    play("exchange")
    first = pulsar_broker.topic("orders").messages[7]
    assert (first.key, first.ordering_key, first.properties, first.event_time) == ("k2", b"o2", {"n": "7"}, 1007)


@FULL_CLIENTS
def test_a_batch_by_key_contains_one_key(play, client, pulsar_broker):
    received = play("exchange", type="Key_Shared", batching="key")["received"]
    assert sorted(received, key=number) == expected(20, client)
    for key in range(5):
        assert [number(one) for one in received if one["key"] == f"k{key}"] == [key, key + 5, key + 10, key + 15]
    stored = pulsar_broker.topic("orders").messages
    for _, batch in itertools.groupby(stored, key=lambda message: message.offset):
        # A library may form batches by the ordering key.
        assert len({message.ordering_key or message.key for message in batch}) == 1
    assert len({message.offset for message in stored}) < 20


@FULL_CLIENTS
@pytest.mark.parametrize("batching", ["none", "default"])
@pytest.mark.parametrize("compression", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_compressions(play, client, pulsar_broker, compression, batching):
    assert play("exchange", compression=compression, batching=batching)["received"] == expected(20, client)
    assert pulsar_broker.topic("orders").payloads == [b"message-%d" % n for n in range(20)]
    for frame in pulsar_broker.frames("pulsar.type == 'SEND'"):
        assert frame.messages[0].metadata.compression == pb.CompressionType.Value(compression)


@FULL_CLIENTS
@pytest.mark.pulsar_broker(maxMessageSize=16384)
def test_chunks(play, pulsar_broker):
    result = play("chunks")
    size, sha1 = result["sent"]
    assert [one[0] for one in result["received"]] == [6, size, 5]
    assert result["received"][1][1] == sha1
    assert [len(payload) for payload in pulsar_broker.topic("orders").payloads] == [6, size, 5]
    assert len(pulsar_broker.frames("pulsar.type == 'SEND'")) > 2 + size // 16384
    pulsar_broker.wait_until(lambda b: b.topic("orders").backlog == 0)


@FULL_CLIENTS
@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Key_Shared"])
def test_non_persistent_topics(play, client, pulsar_broker, kind):
    topic = "non-persistent://public/default/news"

    def look():
        """Wait for permits, because a non-persistent topic drops messages without permits."""
        pulsar_broker.wait_until(lambda b: b.topic(topic).subscriptions["work"].permits)

    received = play("exchange", topic=topic, type=kind, look=look)["received"]
    assert sorted(received, key=number) == expected(20, client)
    assert pulsar_broker.topic(topic).messages == []


@FULL_CLIENTS
def test_lookup_over_http(play, client, pulsar_broker):
    assert play("exchange", over="http")["received"] == expected(20, client)
    assert pulsar_broker.frames("pulsar.type == 'LOOKUP'") == []
    assert pulsar_broker.topic("orders").payloads == [b"message-%d" % n for n in range(20)]
