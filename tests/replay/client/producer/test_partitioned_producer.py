"""Producers of all partitions, against a broker in memory."""

from __future__ import annotations

from typing import Any

from pcli.codec.wire.hashes import partition_of
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer.partitioned_producer import PartitionedProducer
from pcli.replay.client.producer.sequence_ids import DuplicateRisk
from pcli.replay.client.producer_settings import ProducerSettings

T = TopicName.parse("t")


def open_producer(world: Any, count: int = 3, *, chance: float = 0.0, **settings: Any) -> Any:
    world.broker.create_partitioned(T, count)
    made: list[Any] = []
    world.engine(chance=chance).produce("t", ProducerSettings(**settings), made.append)
    producer = world.wait_for(made)
    assert isinstance(producer, PartitionedProducer), producer
    return producer


def topics(world: Any) -> list[int]:
    """The partitions that a PRODUCER named."""
    return [TopicName.parse(body.topic).partition for body in world.said("PRODUCER")]


def test_the_first_one_names_them_all(world: Any) -> None:
    producer = open_producer(world)
    assert topics(world) == [0, 1, 2]
    assert [body.producer_name for body in world.said("PRODUCER")] == ["", producer.name, producer.name]
    order = [one.name for one in world.heard("PRODUCER", "PRODUCER_SUCCESS")]
    assert order[:2] == ["PRODUCER", "PRODUCER_SUCCESS"]


def test_messages_go_by_turns_and_by_key(world: Any) -> None:
    producer, told = open_producer(world, batchingEnabled=False, chance=0.5), []
    for number in range(4):
        producer.send(OutgoingMessage(b"%d" % number), told.append)
    producer.send(OutgoingMessage(b"", key="k"), told.append)
    world.settle()
    assert [one.partition for one in told] == [1, 2, 0, 1, partition_of("k", 3)]


def test_flush_waits_for_all(world: Any) -> None:
    producer, told = open_producer(world, batchingMaxPublishDelayMicros=10**9), []
    for key in "abcdef":
        producer.send(OutgoingMessage(b"", key=key))
    producer.flush(told.append)
    assert told == []
    world.settle()
    assert told == [None]
    assert sum(body.num_messages for body in world.said("SEND")) == 6


def test_lazy_ones_come_with_their_first_message(world: Any) -> None:
    settings = {"lazyStartPartitionedProducers": True, "batchingEnabled": False}
    producer, told = open_producer(world, chance=0.5, **settings), []
    assert topics(world) == [1]
    for number in range(3):
        producer.send(OutgoingMessage(b"%d" % number), told.append)
    world.settle()
    # The one that was made took its turn.
    assert topics(world) == [1, 2, 0]
    assert sorted(one.partition for one in told) == [0, 1, 2]
    assert {body.producer_name for body in world.said("PRODUCER")[1:]} == {producer.name}


def test_an_exclusive_one_takes_them_all_at_once(world: Any) -> None:
    open_producer(world, lazyStartPartitionedProducers=True, accessMode="Exclusive")
    assert topics(world) == [0, 1, 2]


def test_one_that_fails_closes_all(world: Any) -> None:
    world.broker.create_partitioned(T, 3)
    held: list[Any] = []
    world.engine().produce(str(T.with_partition(2)), ProducerSettings(accessMode="Exclusive"), held.append)
    world.settle()
    made: list[Any] = []
    world.engine().produce("t", ProducerSettings(), made.append)
    world.run(1000)
    assert [one.error for one in made] == ["ProducerBusy"]
    assert len(world.said("CLOSE_PRODUCER")) == 2


def test_the_queue_is_divided(world: Any) -> None:
    producer = open_producer(world, maxPendingMessagesAcrossPartitions=6, messageRoutingMode="SinglePartition")
    rooms: list[str] = []
    producer.on_room = lambda: rooms.append("room")
    assert [producer.send(OutgoingMessage(b"")) for _ in range(3)] == [True, True, False]
    world.run(10)
    assert rooms == ["room"]


def test_who_found_no_room_keeps_its_partition(world: Any) -> None:
    settings = {"batchingEnabled": False, "maxPendingMessagesAcrossPartitions": 3}
    producer, told = open_producer(world, **settings), []
    messages = [OutgoingMessage(b"%d" % number) for number in range(4)]
    assert [producer.send(message, told.append) for message in messages] == [True, True, True, False]
    world.settle()
    assert producer.send(messages[3], told.append)
    world.settle()
    assert [one.partition for one in told] == [0, 1, 2, 0]


def test_new_partitions_are_found(world: Any) -> None:
    producer = open_producer(world, 2, batchingEnabled=False)
    world.broker.create_partitioned(T, 4)
    world.run(59_000)
    assert producer.count == 2
    world.run(2000)
    assert producer.count == 4
    assert topics(world) == [0, 1, 2, 3]
    asked = [body.metadata_auto_creation_enabled for body in world.said("PARTITIONED_METADATA")]
    assert asked == [True, False]


def test_closing(world: Any) -> None:
    producer, told = open_producer(world), []
    producer.close(told.append)
    world.settle()
    producer.close(told.append)
    producer.send(OutgoingMessage(b""), told.append)
    assert told[:2] == [None, None]
    assert isinstance(told[2], ClientFailure)
    assert producer.state is State.CLOSED
    assert len(world.said("CLOSE_PRODUCER")) == 3
    world.run(120_000)
    assert len(world.said("PARTITIONED_METADATA")) == 1


def test_closing_the_engine_leaves_no_timer_behind(world: Any) -> None:
    producer, closed = open_producer(world), []
    producer.engine.close(lambda: closed.append(None))
    world.run(600_000)
    assert closed == [None]
    assert producer.engine.deadline is None
    assert (producer.engine.handlers, producer.engine.pool.connections) == ({}, [])


def test_a_name_that_is_none(world: Any) -> None:
    made: list[Any] = []
    world.engine().produce("a/b", ProducerSettings(), made.append)
    assert [one.error for one in made] == ["InvalidTopicName"]


def test_a_blocking_send_goes_at_once(world: Any) -> None:
    producer = open_producer(world, batchingMaxPublishDelayMicros=10**9)
    producer.send(OutgoingMessage(b"", key="k"))
    assert producer.trigger_flush()
    assert not producer.trigger_flush()
    world.settle()
    assert len(world.said("SEND_RECEIPT")) == 1


def test_suspects_are_told_of_all(world: Any) -> None:
    producer, doubts = open_producer(world), []
    producer.on_possible_duplicate = lambda doubt, sequence_id: doubts.append((doubt, sequence_id))
    for _ in range(2):
        producer.send(OutgoingMessage(b"", key="k", sequence_id=5))
    assert doubts == [(DuplicateRisk.MAYBE, 5)]


def test_a_topic_whose_partitions_nobody_tells(world: Any) -> None:
    made: list[Any] = []
    world.engine(lookupTimeoutMs=1000).produce("public/nowhere/t", ProducerSettings(), made.append)
    world.run(5000)
    assert isinstance(made[0], ClientFailure)
    assert world.said("PRODUCER") == []


def hold(world: Any, partition: int) -> Any:
    """Somebody else is alone on this partition."""
    held: list[Any] = []
    world.engine().produce(str(T.with_partition(partition)), ProducerSettings(accessMode="Exclusive"), held.append)
    world.settle()
    return held[0]


def test_the_first_one_fails_alone(world: Any) -> None:
    world.broker.create_partitioned(T, 3)
    hold(world, 0)
    world.forget()
    made: list[Any] = []
    world.engine().produce("t", ProducerSettings(), made.append)
    world.settle()
    assert [one.error for one in made] == ["ProducerBusy"]
    assert topics(world) == [0]


def test_a_lazy_one_that_fails_fails_its_messages_and_is_tried_again(world: Any) -> None:
    producer, told = open_producer(world, 2, lazyStartPartitionedProducers=True, batchingEnabled=False), []
    holder = hold(world, 1)
    producer.send(OutgoingMessage(b"1"), told.append)
    world.settle()
    assert [one.error for one in told] == ["ProducerBusy"]
    holder.close(lambda _: None)
    world.settle()
    producer.send(OutgoingMessage(b"2"))
    producer.send(OutgoingMessage(b"3"), told.append)
    world.settle()
    assert told[1].partition == 1


def test_lazy_ones_need_no_new_producer_for_a_new_partition(world: Any) -> None:
    producer = open_producer(world, 2, lazyStartPartitionedProducers=True)
    world.broker.create_partitioned(T, 3)
    world.run(61_000)
    assert (producer.count, topics(world)) == (3, [0])


def test_new_partitions_that_can_not_be_had_do_not_count(world: Any) -> None:
    producer = open_producer(world, 2)
    world.broker.create_partitioned(T, 4)
    holder = hold(world, 3)
    world.run(61_000)
    assert (producer.count, sorted(producer.producers)) == (2, [0, 1])
    holder.close(lambda _: None)
    world.run(60_000)
    assert (producer.count, sorted(producer.producers)) == (4, [0, 1, 2, 3])
