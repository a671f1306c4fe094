"""The order of the checks of a SEND with two faults. The expected order is that of the Java methods."""

from __future__ import annotations

import pytest

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.topics.publishing import Publication

T = "persistent://public/default/t"


def entry(payload=b"hello", **fields):
    return push_entry(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields), payload)


BAD = entry()[:-1] + b"O"
ENCRYPTED = {"encryption_keys": [pb.EncryptionKeys(key="k", value=b"x")]}


@pytest.fixture
def strict(make_world):
    """A client of a topic with all checks enabled and a rate limit of one message."""
    world = make_world(
        encryptionRequireOnProducer=True,
        delayedDeliveryMaxDelayInMillis=10,
        brokerDeduplicationEnabled=True,
        maxPublishRatePerTopicInMessages=1000,
    )
    world.broker.policies.set_topic(TopicName.parse("t"), "maxMessageSize", 100)
    client = world.client()
    client.producer(encrypted=True, producer_name="p")
    assert isinstance(client.one(send(0), entry(**ENCRYPTED)), pb.CommandSendReceipt)
    return client


def send(sequence_id, **fields):
    return pb.CommandSend(producer_id=1, sequence_id=sequence_id, **fields)


def tokens(client):
    [throttle] = client.connection.producers[1].topic.effective_policies.throttles
    return throttle.limiter.available(client.world.now)[0]


@pytest.mark.parametrize(
    ("fields", "block", "code", "charged"),
    [
        ({"message_id": pb.MessageIdData(ledgerId=1, entryId=1)}, BAD, "NotAllowedError", 0),
        ({}, BAD, "ChecksumError", 0),
        ({}, entry(bytes(200)), "MetadataError", 0),
        ({}, entry(bytes(200), deliver_at_time=99, **ENCRYPTED), "NotAllowedError", 1),
        ({}, entry(deliver_at_time=99, **ENCRYPTED), "NotAllowedError", 1),
    ],
    ids=["id, checksum", "checksum, encryption", "encryption, size", "size", "delay, duplicate"],
)
def test_the_first_failing_check_responds_and_rates_are_charged_in_between(strict, fields, block, code, charged):
    before, topic = tokens(strict), strict.world.broker.topics[T]
    counted = topic.messages_in
    answer = strict.one(send(0, **fields), block)
    assert isinstance(answer, pb.CommandSendError)
    assert pb.ServerError.Name(answer.error) == code
    assert before - tokens(strict) == charged
    assert topic.messages_in - counted == charged


def test_a_fenced_topic_refuses_after_the_checksum_check(client, world):
    client.producer()
    topic = world.broker.topics[T]
    topic.fenced = True
    topic.policies_changed()
    assert client.one(send(0), BAD).error == pb.ChecksumError
    assert client.one(send(0), entry()).error == pb.PersistenceError
    topic.fenced = False
    topic.policies_changed()
    assert isinstance(client.one(send(0), entry()), pb.CommandSendReceipt)


def test_metadata_is_parsed_once_and_required():
    good = Publication(0, -1, 1, entry())
    assert good.metadata() is good.metadata()
    assert good.metadata().producer_name == "p"
    for block in (b"", b"abc", b"\0\0\0\x09abc", push_entry(b"\xff\xff", b"")):
        with pytest.raises(RemoteError):
            Publication(0, -1, 1, block).metadata()


@pytest.mark.parametrize(("said", "counts"), [(-1, 1), (0, 0), (7, 7)])
def test_messages_are_counted_as_declared(said, counts):
    assert Publication(0, -1, said, b"").count == counts


def test_a_message_that_was_not_stored_is_no_duplicate(make_world):
    from pcli.minibroker.storage.broker_storage import MemoryBrokerStorage
    from pcli.minibroker.storage.spilling_storage import Pool

    world = make_world(brokerDeduplicationEnabled=True)
    world.broker.storage = MemoryBrokerStorage(Pool(max_backlog=1000))
    client = world.client()
    client.producer(producer_name="p")
    heard, sequence = [], 0
    while not any(isinstance(body, pb.CommandSendError) for body in heard):
        sequence += 1
        heard = client(send(sequence), entry=entry(bytes(300)))
    assert world.broker.topics[T].last_sequence_id("p") == sequence - 1
