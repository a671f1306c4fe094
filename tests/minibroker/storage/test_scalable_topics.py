"""Scalable topics, their registered consumers and their transactions survive a crash."""

from __future__ import annotations

from pcli.codec.proto import pb

TOPIC = "topic://public/default/orders"
ENABLED = {
    "scalableTopicsEnabled": True,
    "transactionCoordinatorScalableTopicsEnabled": True,
    "transactionCoordinatorEnabled": True,
    "scalableTopicConsumerSessionGracePeriodSeconds": 20,
}


def register(client, name):
    command = pb.CommandScalableTopicSubscribe(
        request_id=1, topic=TOPIC, subscription="sub", consumer_name=name, consumer_id=1, consumer_type=pb.STREAM
    )
    return client.one(command)


def in_turn(world, function, *arguments):
    world.broker.begin_turn(world.now)
    function(*arguments)
    world.broker.finish_turn()
    world.deliver()


def test_layouts_and_consumers_after_a_crash(make_world):
    world = make_world(**ENABLED)
    service = world.broker.scalable_topics
    topic = service.create(TOPIC, 2, {"team": "a"})
    in_turn(world, service.split, topic, 0)
    register(world.client(), "s1")
    register(world.client(), "s2")
    before = topic.layout
    world.restart()
    topic = world.broker.scalable_topics.topics[TOPIC]
    assert topic.layout == before
    assert topic.properties == {"team": "a"}
    assert not topic.controlled
    client = world.client()
    assert [one.segment_id for one in register(client, "s1").assignment.segments] == [0]
    world.wait(20_000)  # s2 does not come back
    updates = [body for body in client.hear() if isinstance(body, pb.CommandScalableTopicAssignmentUpdate)]
    assert [one.segment_id for one in updates[-1].assignment.segments] == [0, 1]
    assert client.producer("persistent://public/default/orders").error == pb.TopicNotFound


def test_a_deleted_topic_stays_deleted(make_world):
    world = make_world(**ENABLED)
    world.broker.scalable_topics.create(TOPIC)
    in_turn(world, world.broker.scalable_topics.delete, TOPIC)
    world.restart()
    assert world.broker.scalable_topics.topics == {}
    assert isinstance(world.client().producer("persistent://public/default/orders"), pb.CommandProducerSuccess)


def test_a_transaction_commits_after_a_crash(make_world):
    world = make_world(**ENABLED)
    world.broker.scalable_topics.create(TOPIC)
    segment = "segment://public/default/orders/0000-ffff-0"
    client = world.client()
    txn = client.one(pb.CommandNewTxn(request_id=1, tc_id=3, txn_ttl_millis=60_000, scalable=True))
    client.producer(segment)
    client.publish("hidden", txnid_most_bits=3, txnid_least_bits=txn.txnid_least_bits)
    world.restart()
    client = world.client()
    client.subscribe(segment, initialPosition=pb.CommandSubscribe.Earliest)
    assert client.flow() == []
    end = pb.CommandEndTxn(request_id=2, txnid_most_bits=3, txn_action=pb.COMMIT, scalable=True)
    assert [type(body) for body in client(end)] == [pb.CommandEndTxnResponse, pb.CommandMessage]
    again = client.one(pb.CommandNewTxn(request_id=3, tc_id=3, txn_ttl_millis=60_000, scalable=True))
    assert again.txnid_least_bits == 1
