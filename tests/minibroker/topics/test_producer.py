"""The fast and the slow path of SEND have the same results."""

from __future__ import annotations

import gc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from pcli.minibroker.topics.producer import Producer

T = "persistent://public/default/t"

_blocks = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(
        lambda payload: push_entry(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), payload)
    ),
    st.binary(max_size=40).map(lambda tail: b"\x0e\x01" + tail),
)


def heard(client, sequence, highest, count, block):
    """Return the fields of the responses to a SEND, without the ledger, which depends on the topic."""
    fields = {"producer_id": 1, "sequence_id": sequence}
    if highest >= 0:
        fields["highest_sequence_id"] = highest
    if count >= 0:
        fields["num_messages"] = count
    answers = client(pb.CommandSend(**fields), entry=block)
    for answer in answers:
        if isinstance(answer, pb.CommandSendReceipt):
            answer.message_id.ledgerId = 0
    return [(type(answer), answer.SerializeToString()) for answer in answers], client.closed


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sends=st.lists(st.tuples(st.integers(0, 300), st.integers(-1, 300), st.integers(-1, 5), _blocks), max_size=4))
def test_the_fast_and_the_generic_path_store_and_respond_equally(make_world, sends):
    world = make_world()
    outcomes = []
    for topic, plain in (("quick", True), ("full", False)):
        client = world.client()
        client.producer(topic)
        client.connection.producers[1].fast_path = plain
        said = [heard(client, *send) for send in sends if not client.closed]
        stored = world.broker.topics[f"persistent://public/default/{topic}"]
        entries = [entry.data for entry in stored.ledger.read(0, 10, 1 << 20)]
        outcomes.append((said, entries, stored.messages_in, stored.bytes_in))
    quick, full = outcomes
    assert quick == full


def test_the_fields_of_producer_are_stored(client, world):
    client.producer(
        producer_name="p",
        metadata=[pb.KeyValue(key="a", value="b")],
        user_provided_producer_name=False,
        epoch=3,
        encrypted=True,
        producer_access_mode=pb.Exclusive,
        topic_epoch=8,
    )
    producer = client.connection.producers[1]
    assert world.broker.topics[T].producers == {"p": producer}
    assert producer.metadata == {"a": "b"}
    assert producer.encrypted
    assert (producer.access_mode, producer.topic_epoch, producer.ready) == (pb.Exclusive, 8, True)
    assert producer.connected_since == world.now


def test_a_producer_that_sent_a_chunk_is_marked(client):
    client.producer()
    producer = client.connection.producers[1]
    client.publish()
    assert not producer.chunked
    client.publish(is_chunk=True)
    assert producer.chunked


def test_a_second_leave_has_no_effect(client, world):
    client.producer()
    producer = client.connection.producers[1]
    for _ in range(2):
        producer.leave()
    assert (client.connection.producers, world.broker.topics[T].producers) == ({}, {})
    assert client.hear() == []


@pytest.mark.parametrize("version", [4, 5])
def test_the_close_depends_on_the_clients_version(world, version):
    client = world.client(version=version)
    client.producer()
    client.connection.producers[1].disconnect()
    world.broker.finish_turn()
    world.deliver()
    heard_names = [type(body).__name__ for body in client.hear()]
    assert (heard_names, client.closed) == ((["CommandCloseProducer"], False) if version == 5 else ([], True))


def test_closed_ids_expire_or_are_reused(client, world):
    def closed():
        return set(client.connection.recently_closed)

    for number in (1, 2, 3):
        client.producer(producer_id=number)
    client.connection.producers[1].disconnect()
    client.connection.producers[2].disconnect()
    world.deliver()
    client.hear()
    assert closed() == {1, 2}
    client.producer(producer_id=1)
    assert closed() == {2}
    world.advance(world.broker.settings.keepAliveIntervalSeconds * 1000)
    client.connection.producers[3].disconnect()
    assert closed() == {3}


def test_a_waiting_producer_that_leaves_is_released(world):
    holder, waiting, last = world.client(), world.client(), world.client()
    holder.producer(producer_access_mode=pb.Exclusive)
    waiting.producer(producer_access_mode=pb.WaitForExclusive, topic_epoch=7)
    last.producer(producer_access_mode=pb.WaitForExclusive)
    waiting(pb.CommandCloseProducer(producer_id=1))
    gc.collect()
    kept = [one for one in gc.get_objects() if type(one) is Producer and one.connection is waiting.connection]
    assert kept == []
    assert world.broker.topics[T].producer_access.waiting == 2
    holder(pb.CommandCloseProducer(producer_id=1))
    [ready] = last.hear()
    assert ready.topic_epoch == 8
