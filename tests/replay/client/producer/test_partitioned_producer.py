"""Producers of all partitions, with a broker in memory."""

from __future__ import annotations

from typing import Any

from pcli.codec.wire.hashes import partition_of
from pcli.codec.wire.topic_name import TopicName
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer.partitioned_producer import MessageRouter, PartitionedProducer
from pcli.replay.client.producer.sequence_ids import DuplicateRisk
from pcli.replay.client.settings import ProducerSettings

T = TopicName.parse("t")


def open_producer(network: Any, count: int = 3, *, chance: float = 0.0, **settings: Any) -> Any:
    network.broker.create_partitioned(T, count)
    made: list[Any] = []
    network.engine(chance=chance).produce("t", ProducerSettings(**settings), made.append)
    producer = network.wait_for(made)
    assert isinstance(producer, PartitionedProducer), producer
    return producer


def topics(network: Any) -> list[int]:
    """Return the partitions in the PRODUCER commands."""
    return [TopicName.parse(body.topic).partition for body in network.sent("PRODUCER")]


def test_the_first_partitions_producer_name_is_used_for_all(network: Any) -> None:
    producer = open_producer(network)
    assert topics(network) == [0, 1, 2]
    assert [body.producer_name for body in network.sent("PRODUCER")] == ["", producer.name, producer.name]
    order = [one.name for one in network.sent_frames("PRODUCER", "PRODUCER_SUCCESS")]
    assert order[:2] == ["PRODUCER", "PRODUCER_SUCCESS"]


def test_messages_are_routed_by_round_robin_and_key(network: Any) -> None:
    producer, results = open_producer(network, batchingEnabled=False, chance=0.5), []
    for number in range(4):
        producer.send(OutgoingMessage(b"%d" % number), results.append)
    producer.send(OutgoingMessage(b"", key="k"), results.append)
    network.deliver_all()
    assert [one.partition for one in results] == [1, 2, 0, 1, partition_of("k", 3)]


def test_flush_waits_for_all(network: Any) -> None:
    producer, results = open_producer(network, batchingMaxPublishDelayMicros=10**9), []
    for key in "abcdef":
        producer.send(OutgoingMessage(b"", key=key))
    producer.flush(results.append)
    assert results == []
    network.deliver_all()
    assert results == [None]
    assert sum(body.num_messages for body in network.sent("SEND")) == 6


def test_lazy_producers_are_created_with_their_first_message(network: Any) -> None:
    settings = {"lazyStartPartitionedProducers": True, "batchingEnabled": False}
    producer, results = open_producer(network, chance=0.5, **settings), []
    assert topics(network) == [1]
    for number in range(3):
        producer.send(OutgoingMessage(b"%d" % number), results.append)
    network.deliver_all()
    # The new partition took its turn.
    assert topics(network) == [1, 2, 0]
    assert sorted(one.partition for one in results) == [0, 1, 2]
    assert {body.producer_name for body in network.sent("PRODUCER")[1:]} == {producer.name}


def test_an_exclusive_producer_creates_all_partitions_at_the_start(network: Any) -> None:
    open_producer(network, lazyStartPartitionedProducers=True, accessMode="Exclusive")
    assert topics(network) == [0, 1, 2]


def test_one_failed_partition_closes_all(network: Any) -> None:
    network.broker.create_partitioned(T, 3)
    held: list[Any] = []
    network.engine().produce(str(T.with_partition(2)), ProducerSettings(accessMode="Exclusive"), held.append)
    network.deliver_all()
    made: list[Any] = []
    network.engine().produce("t", ProducerSettings(), made.append)
    network.run(1000)
    assert [one.error for one in made] == ["ProducerBusy"]
    assert len(network.sent("CLOSE_PRODUCER")) == 2


def test_the_queue_size_is_divided_among_partitions(network: Any) -> None:
    producer = open_producer(network, maxPendingMessagesAcrossPartitions=6, messageRoutingMode="SinglePartition")
    rooms: list[str] = []
    producer.on_room = lambda: rooms.append("room")
    assert [producer.send(OutgoingMessage(b"")) for _ in range(3)] == [True, True, False]
    network.run(10)
    assert rooms == ["room"]


def test_a_message_without_space_keeps_its_partition(network: Any) -> None:
    settings = {"batchingEnabled": False, "maxPendingMessagesAcrossPartitions": 3}
    producer, results = open_producer(network, **settings), []
    messages = [OutgoingMessage(b"%d" % number) for number in range(4)]
    assert [producer.send(message, results.append) for message in messages] == [True, True, True, False]
    network.deliver_all()
    assert producer.send(messages[3], results.append)
    network.deliver_all()
    assert [one.partition for one in results] == [0, 1, 2, 0]


def test_new_partitions_are_found(network: Any) -> None:
    producer = open_producer(network, 2, batchingEnabled=False)
    network.broker.create_partitioned(T, 4)
    network.run(59_000)
    assert producer.count == 2
    network.run(2000)
    assert producer.count == 4
    assert topics(network) == [0, 1, 2, 3]
    requested = [body.metadata_auto_creation_enabled for body in network.sent("PARTITIONED_METADATA")]
    assert requested == [True, False]


def test_closing(network: Any) -> None:
    producer, results = open_producer(network), []
    producer.close(results.append)
    network.deliver_all()
    producer.close(results.append)
    producer.send(OutgoingMessage(b""), results.append)
    assert results[:2] == [None, None]
    assert isinstance(results[2], ClientFailure)
    assert producer.state is State.CLOSED
    assert len(network.sent("CLOSE_PRODUCER")) == 3
    network.run(120_000)
    assert len(network.sent("PARTITIONED_METADATA")) == 1


def test_closing_the_engine_leaves_no_timer(network: Any) -> None:
    producer, closed = open_producer(network), []
    producer.engine.close(lambda: closed.append(None))
    network.run(600_000)
    assert closed == [None]
    assert producer.engine.deadline is None
    assert (producer.engine.handlers, producer.engine.pool.connections) == ({}, [])


def test_an_invalid_topic_name(network: Any) -> None:
    made: list[Any] = []
    network.engine().produce("a/b", ProducerSettings(), made.append)
    assert [one.error for one in made] == ["InvalidTopicName"]


def test_a_blocking_send_sends_the_batch_at_once(network: Any) -> None:
    producer = open_producer(network, batchingMaxPublishDelayMicros=10**9)
    producer.send(OutgoingMessage(b"", key="k"))
    assert producer.trigger_flush()
    assert not producer.trigger_flush()
    network.deliver_all()
    assert len(network.sent("SEND_RECEIPT")) == 1


def test_possible_duplicates_of_all_partitions_are_reported(network: Any) -> None:
    producer, doubts = open_producer(network), []
    producer.on_possible_duplicate = lambda doubt, sequence_id: doubts.append((doubt, sequence_id))
    for _ in range(2):
        producer.send(OutgoingMessage(b"", key="k", sequence_id=5))
    assert doubts == [(DuplicateRisk.MAYBE, 5)]


def test_a_failed_partition_request_fails_the_creation(network: Any) -> None:
    made: list[Any] = []
    network.engine(lookupTimeoutMs=1000).produce("public/nowhere/t", ProducerSettings(), made.append)
    network.run(5000)
    assert isinstance(made[0], ClientFailure)
    assert network.sent("PRODUCER") == []


def hold(network: Any, partition: int) -> Any:
    """A different producer has exclusive access to this partition."""
    held: list[Any] = []
    network.engine().produce(str(T.with_partition(partition)), ProducerSettings(accessMode="Exclusive"), held.append)
    network.deliver_all()
    return held[0]


def test_a_failure_of_the_first_partition_is_reported(network: Any) -> None:
    network.broker.create_partitioned(T, 3)
    hold(network, 0)
    network.clear_frames()
    made: list[Any] = []
    network.engine().produce("t", ProducerSettings(), made.append)
    network.deliver_all()
    assert [one.error for one in made] == ["ProducerBusy"]
    assert topics(network) == [0]


def test_a_failed_lazy_producer_fails_its_messages_and_is_retried(network: Any) -> None:
    producer, results = open_producer(network, 2, lazyStartPartitionedProducers=True, batchingEnabled=False), []
    holder = hold(network, 1)
    producer.send(OutgoingMessage(b"1"), results.append)
    network.deliver_all()
    assert [one.error for one in results] == ["ProducerBusy"]
    holder.close(lambda _: None)
    network.deliver_all()
    producer.send(OutgoingMessage(b"2"))
    producer.send(OutgoingMessage(b"3"), results.append)
    network.deliver_all()
    assert results[1].partition == 1


def test_lazy_producers_need_no_producer_for_a_new_partition(network: Any) -> None:
    producer = open_producer(network, 2, lazyStartPartitionedProducers=True)
    network.broker.create_partitioned(T, 3)
    network.run(61_000)
    assert (producer.count, topics(network)) == (3, [0])


def test_new_partitions_without_a_producer_are_not_used(network: Any) -> None:
    producer = open_producer(network, 2)
    network.broker.create_partitioned(T, 4)
    holder = hold(network, 3)
    network.run(61_000)
    assert (producer.count, sorted(producer.producers)) == (2, [0, 1])
    holder.close(lambda _: None)
    network.run(60_000)
    assert (producer.count, sorted(producer.producers)) == (4, [0, 1, 2, 3])


def router(lot: float = 0.5, **settings: Any) -> MessageRouter:
    return MessageRouter(ProducerSettings(**settings), 4, lambda: lot)


def chosen(one: MessageRouter, *times: int, count: int = 4) -> list[int]:
    return [one.choose(OutgoingMessage(b""), count, now) for now in times]


def test_a_key_takes_precedence_over_the_mode() -> None:
    for mode in ("RoundRobinPartition", "SinglePartition"):
        for murmur, scheme in enumerate(("JavaStringHash", "Murmur3_32Hash")):
            one = router(messageRoutingMode=mode, hashingScheme=scheme)
            for key in ("a", "key-7", "", "ü"):
                assert one.choose(OutgoingMessage(b"", key=key), 4, 0) == partition_of(key, 4, murmur=bool(murmur))


def test_round_robin_without_batching() -> None:
    assert chosen(router(batchingEnabled=False), 0, 0, 0, 0, 0) == [2, 3, 0, 1, 2]


def test_round_robin_with_batching_follows_the_clock() -> None:
    one = router(batchingMaxPublishDelayMicros=2000)
    assert chosen(one, 100, 119, 120, 139, 140) == [(5 + 2) % 4, 3, 0, 0, 1]
    assert chosen(router(lot=0, batchingMaxPublishDelayMicros=10), 5, 6) == [1, 2]


def test_single_partition_uses_one_partition() -> None:
    assert chosen(router(lot=0.99, messageRoutingMode="SinglePartition"), 0, 1000, 2000) == [3, 3, 3]


def test_new_partitions_are_used() -> None:
    assert chosen(router(batchingEnabled=False), 0, 0, 0, count=8) == [2, 3, 4]
