"""Exclusive and Failover with their Streaming dispatcher: one consumer receives all entries."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.dispatch.single_active import by_index, by_ring, candidates


def changes(consumer):
    return [one.is_active for one in consumer.told if isinstance(one, pb.CommandActiveConsumerChange)]


def test_failover_waits_before_the_first_delivery(scene):
    a = scene.consumer("Failover", "a")
    scene.publish("m0")
    assert a.flow() == []
    scene.world.wait(1000)
    assert a.got() == ["m0"]
    assert changes(a) == [True]


def test_an_epoch_applies_before_the_first_delivery(scene):
    """>> SUBSCRIBE epoch 0  >> FLOW  >> REDELIVER epoch 1  (one second passes)  << MESSAGE epoch 1."""
    a = scene.consumer("Failover", "a", consumer_epoch=0)
    scene.publish("m0")
    a.flow()
    a.client(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, consumer_epoch=1))
    scene.world.wait(1000)
    [message] = [body for body in a.client.hear() if isinstance(body, pb.CommandMessage)]
    assert message.consumer_epoch == 1


def test_without_delay_the_change_precedes_the_response(make_scene):
    scene = make_scene(activeConsumerFailoverDelayTimeMillis=0)
    a = scene.consumer("Failover", "a")
    assert changes(a) == [True]


def test_the_next_consumer_receives_unacknowledged_entries(make_scene):
    scene = make_scene(activeConsumerFailoverDelayTimeMillis=0)
    a, b = scene.consumer("Failover", "a"), scene.consumer("Failover", "b")
    active, standby = (a, b) if scene.subscription.active.name == "a" else (b, a)
    assert standby.flow() == []
    scene.publish("m0", "m1", "m2")
    assert active.flow() == ["m0", "m1", "m2"]
    active.ack(active.ids[1])
    active.close()
    assert standby.got() == ["m0", "m2"]
    assert changes(standby)[-1] is True


@pytest.mark.parametrize("streaming", [False, True])
def test_a_read_is_limited_in_entries_and_sent_completely(make_scene, streaming):
    """3 permits, batches of 10: the batch reader sends all three entries, the pipeline sends one at a time."""
    scene = make_scene(streamingDispatch=streaming)
    a = scene.consumer("Exclusive", "a")
    scene.publish("b0", "b1", "b2", "b3", num_messages_in_batch=10)
    assert a.flow(3) == (["b0"] if streaming else ["b0", "b1", "b2"])


def test_redeliver_restarts_at_the_first_unacknowledged_entry(scene):
    a = scene.consumer("Exclusive", "a")
    scene.publish("m0", "m1", "m2")
    a.flow()
    a.got()
    a.ack(a.ids[0])
    a.redeliver(a.ids[2])  # ids are ignored
    assert a.got() == ["m1", "m2"]


def test_a_second_exclusive_consumer_is_refused_while_the_first_is_alive(scene):
    a = scene.consumer("Exclusive", "a")
    b = scene.consumer("Exclusive", "b")
    a.client()  # the PONG to the broker's PING
    b.got()
    [error] = [one for one in b.told if isinstance(one, pb.CommandError)]
    assert error.error == pb.ConsumerBusy


def test_an_exclusive_consumer_with_ranges_receives_only_entries_in_them(scene):
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=1000)])
    a = scene.consumer("Exclusive", "a", keySharedMeta=meta)
    scene.keyed("key1", "hello", "a")  # slots 293, 64071, 27058
    assert a.flow() == ["key1"]
    assert scene.subscription.backlog == 3


def test_the_end_of_the_topic_is_sent_after_everything_is_read(scene):
    a = scene.consumer("Exclusive", "a")
    scene.publish("m0")
    a.flow()
    a.got()
    scene.world.broker.topics[scene.topic].terminate()
    assert not [one for one in a.told if isinstance(one, pb.CommandReachedEndOfTopic)]
    a.ack(a.ids[0])
    a.got()
    assert [one for one in a.told if isinstance(one, pb.CommandReachedEndOfTopic)]


def names(*words, priority=0):
    return [SimpleNamespace(name=word, priority=priority) for word in words]


@pytest.mark.parametrize(
    ("topic", "of_two", "of_three"),
    [("persistent://public/default/t1", "c1", "c1"), ("persistent://public/default/my-topic", "c1", "c3")],
)
def test_the_ring_of_a_topic_without_partitions(topic, of_two, of_three):
    assert by_ring(candidates(names("c1", "c2")), topic).name == of_two
    assert by_ring(candidates(names("c3", "c2", "c1")), topic).name == of_three


@pytest.mark.parametrize(("index", "name"), [(0, "a"), (1, "b"), (2, "c"), (3, "a")])
def test_the_index_of_a_partition_counts_in_order_of_names(index, name):
    assert by_index(candidates(names("b", "c", "a")), index).name == name


def test_only_the_best_level_takes_part():
    consumers = [*names("a", priority=1), *names("z")]
    assert by_index(candidates(consumers), 0).name == "z"


def test_the_earlier_of_two_equal_names_stays():
    consumers = names("same", "same")
    assert by_index(candidates(consumers), 0) is consumers[0]
