"""Draining slots after any sequence of joins, leaves, deliveries and acknowledgements."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_entry
from tests.minibroker.conftest import World

TOPIC = "persistent://public/default/t"

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 5)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("publish"), st.integers(0, 9)),
        st.tuples(st.just("acknowledge"), st.integers(0, 100)),
        st.tuples(st.just("redeliver"), st.integers(0, 5)),
    ),
    min_size=20,
    max_size=60,
)


@pytest.mark.parametrize("consistent_hashing", [True, False])
@limits(max_examples=60)
@given(actions=ACTIONS)
def test_a_slot_drains_as_long_as_another_consumer_has_pending_entries(consistent_hashing, actions):
    world = World(subscriptionKeySharedUseConsistentHashing=consistent_hashing)
    producer, client = world.client(), world.client()
    producer.producer(TOPIC)
    client.look_up(TOPIC)
    client(pb.CommandSubscribe(topic=TOPIC, subscription="sub", subType=pb.CommandSubscribe.Key_Shared, consumer_id=9))
    client.flow(9, 9)
    dispatcher = world.broker.topics[TOPIC].subscriptions["sub"].dispatcher
    joined, pending = {9}, []
    for sequence, (action, number) in enumerate(actions):
        if action == "join" and number not in joined:
            joined.add(number)
            request = pb.CommandSubscribe(
                topic=TOPIC, subscription="sub", subType=pb.CommandSubscribe.Key_Shared, consumer_id=number
            )
            got = client(request) + client.flow(9, number)
        elif action == "leave" and number in joined:
            joined.remove(number)
            pending = [body for body in pending if body.consumer_id != number]
            got = client(pb.CommandCloseConsumer(consumer_id=number, request_id=10_000 + sequence))
        elif action == "publish":
            about = pb.MessageMetadata(
                producer_name="p", sequence_id=sequence, publish_time=world.now, partition_key=str(number)
            )
            producer(pb.CommandSend(producer_id=1, sequence_id=sequence), entry=push_entry(about, b"x"))
            got = client.hear()
        elif action == "acknowledge" and pending:
            body = pending.pop(number % len(pending))
            got = client(
                pb.CommandAck(
                    consumer_id=body.consumer_id, ack_type=pb.CommandAck.Individual, message_id=[body.message_id]
                )
            ) + client.flow(1, body.consumer_id)
        elif action == "redeliver" and number in joined:
            pending = [body for body in pending if body.consumer_id != number]
            got = client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=number))
        else:
            continue
        world.deliver()
        pending += [body for body in got + client.hear() if isinstance(body, pb.CommandMessage)]
        for consumer in dispatcher.consumers:
            held = Counter(consumer.hashes.values())
            lost = {slot: count for slot, count in held.items() if dispatcher.selector.select(slot) is not consumer}
            assert {slot: entries for slot, entries, _ in dispatcher.draining.of(consumer)} == lost
