"""One producer against a broker in memory. What no such broker answers is in test_producer_answers.py."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from pcli.codec.payload.encryption import PrivateKeys
from pcli.codec.proto import pb
from pcli.codec.wire.message_id import MessageId
from pcli.replay.client.connection.connection_handler import State
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.producer.outgoing_message import OutgoingMessage
from pcli.replay.client.producer.producer import Producer
from pcli.replay.client.producer.sequence_ids import DuplicateRisk
from pcli.replay.client.producer_settings import ProducerSettings

T = "persistent://public/default/t"


def open_producer(world: Any, **settings: Any) -> Any:
    made: list[Any] = []
    world.engine().produce(T, ProducerSettings(**settings), made.append)
    producer = world.wait_for(made)
    assert isinstance(producer, Producer), producer
    return producer


def batches(world: Any) -> list[tuple[int, int, int]]:
    """First sequence id, messages and time of each SEND."""
    return [(one.body.sequence_id, one.body.num_messages, one.time) for one in world.heard("SEND")]


def errors(told: list[Any]) -> list[str]:
    return [one.error if isinstance(one, ClientFailure) else str(one) for one in told]


# -- batches -----------------------------------------------------------------------------------------------------------


def test_by_count_and_by_time(world: Any) -> None:
    producer, told = open_producer(world, batchingMaxMessages=4, batchingMaxPublishDelayMicros=10_000), []
    world.run(100)
    for number in range(10):
        producer.send(OutgoingMessage(b"%d" % number), told.append)
    world.run(50)
    # Two are full at once; the rest had its timer set by the first of all, and gets its whole delay.
    assert batches(world) == [(0, 4, 100), (4, 4, 100), (8, 2, 110)]
    assert told[3] == MessageId(told[0].ledger, 0, -1, 3)
    assert len(told) == 10


def test_by_bytes(world: Any) -> None:
    producer = open_producer(world, batchingMaxBytes=100)
    world.run(100)
    for size in (60, 40, 60, 60, 300, 10):
        producer.send(OutgoingMessage(bytes(size)))
    world.run(50)
    assert [count for _, count, _ in batches(world)] == [2, 1, 1, 1, 1]


def test_a_blocking_send_goes_at_once(world: Any) -> None:
    producer, told = open_producer(world, batchingMaxPublishDelayMicros=10**9), []
    producer.send(OutgoingMessage(b""), told.append)
    assert producer.trigger_flush()
    assert not producer.trigger_flush()
    world.settle()
    assert told == [MessageId(told[0].ledger, 0)]


def test_a_delayed_message_goes_alone_and_after_what_waits(world: Any) -> None:
    producer = open_producer(world)
    producer.send(OutgoingMessage(b"a"))
    producer.send(OutgoingMessage(b"b"))
    producer.send(OutgoingMessage(b"later", deliver_at=world.now + 5000))
    producer.send(OutgoingMessage(b"c"))
    world.run(10)
    assert [(first, count) for first, count, _ in batches(world)] == [(0, 2), (2, 1), (3, 1)]
    assert [one.frame.metadata.HasField("deliver_at_time") for one in world.heard("SEND")] == [False, True, False]


def test_without_batching_each_goes_at_once(world: Any) -> None:
    producer, told = open_producer(world, batchingEnabled=False), []
    for number in range(3):
        producer.send(OutgoingMessage(b"%d" % number), told.append)
    world.settle()
    assert batches(world) == [(0, 1, 0), (1, 1, 0), (2, 1, 0)]
    assert [one.entry for one in told] == [0, 1, 2]


def test_batches_of_keys(world: Any) -> None:
    producer = open_producer(world, batcherBuilder="KEY_BASED")
    for key in "ABBAA":
        producer.send(OutgoingMessage(b"", key=key))
    world.run(10)
    sends = [(one.sequence_id, one.highest_sequence_id, one.num_messages) for one in world.said("SEND")]
    assert sends == [(2, 2, 2), (4, 4, 3)]
    assert producer.pending.messages == 0


@pytest.mark.parametrize("batching", [True, False])
def test_a_message_that_no_broker_takes(world: Any, batching: bool) -> None:
    producer, told = open_producer(world, batchingEnabled=batching), []
    producer.send(OutgoingMessage(bytes(6 << 20)), told.append)
    producer.send(OutgoingMessage(b"good"), told.append)
    world.run(10)
    assert errors(told)[0] == "InvalidMessage"
    assert isinstance(told[1], MessageId)
    assert producer.engine.memory.held == 0


# -- suspects ----------------------------------------------------------------------------------------------------------


def test_suspects_go_alone_and_are_told_apart(world: Any) -> None:
    world.broker.policies.set_namespace("public/default", "deduplication", body=True)
    producer, doubts, told = open_producer(world, producerName="p"), [], []
    producer.on_possible_duplicate = lambda doubt, sequence_id: doubts.append((sequence_id, doubt))
    for sequence_id in (0, 1, 2):
        producer.send(OutgoingMessage(b"", sequence_id=sequence_id))
    producer.flush(told.append)
    world.settle()
    for sequence_id in (3, 4, 3, 1, 5, 6):
        producer.send(OutgoingMessage(b"", sequence_id=sequence_id), told.append)
    world.run(10)
    assert doubts == [(3, DuplicateRisk.MAYBE), (1, DuplicateRisk.SURE)]
    assert [(first, count) for first, count, _ in batches(world)] == [(0, 3), (3, 2), (3, 1), (1, 1), (5, 2)]
    assert [one is None or one.ledger == -1 for one in told] == [True, False, False, True, True, False, False]


def test_the_broker_says_where_to_go_on(world: Any) -> None:
    world.broker.policies.set_namespace("public/default", "deduplication", body=True)
    first = open_producer(world, producerName="p")
    first.send(OutgoingMessage(b"", sequence_id=41))
    done: list[Any] = []
    first.flush(done.append)
    world.settle()
    first.close(done.append)
    world.settle()
    assert done == [None, None]
    second = open_producer(world, producerName="p")
    second.send(OutgoingMessage(b""))
    second.trigger_flush()
    world.settle()
    assert world.said("SEND")[-1].sequence_id == 42


# -- coming back -------------------------------------------------------------------------------------------------------


def test_what_has_no_receipt_is_sent_again_in_order(world: Any) -> None:
    producer, told = open_producer(world, batchingMaxMessages=2), []
    world.deaf = True
    for number in range(4):
        producer.send(OutgoingMessage(b"%d" % number), told.append)
    world.settle()
    world.deaf = False
    world.forget()
    world.cut()
    for number in range(4, 7):
        producer.send(OutgoingMessage(b"%d" % number), told.append)
    world.run(1000)
    first, *_ = world.heard("PRODUCER")
    assert (first.body.epoch, first.body.producer_name, first.body.user_provided_producer_name) == (
        1,
        producer.name,
        False,
    )
    assert [one[:2] for one in batches(world)] == [(0, 2), (2, 2), (4, 2), (6, 1)]
    assert [(one.entry, one.batch) for one in told] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, -1)]


def test_an_unload_is_survived(world: Any) -> None:
    producer, told = open_producer(world), []
    world.broker.unload(world.broker.topics[T])
    world.settle()
    assert producer.state is State.CONNECTING
    producer.send(OutgoingMessage(b"meanwhile"), told.append)
    world.run(1000)
    assert isinstance(told[0], MessageId)
    assert [body.epoch for body in world.said("PRODUCER")] == [0, 1]
    assert len(world.said("CONNECT")) == 1


def test_a_topic_that_is_terminated(world: Any) -> None:
    producer, told = open_producer(world, batchingEnabled=False), []
    producer.send(OutgoingMessage(b"good"), told.append)
    world.settle()
    world.broker.terminate(world.broker.topics[T])
    producer.send(OutgoingMessage(b"late"), told.append)
    world.run(5000)
    producer.send(OutgoingMessage(b"too late"), told.append)
    assert errors(told[1:]) == ["TopicTerminatedError", "TopicTerminatedError"]
    assert producer.state is State.TERMINATED


def test_one_who_waits_for_its_turn(world: Any) -> None:
    holder = open_producer(world, accessMode="Exclusive")
    made: list[Any] = []
    world.engine().produce(T, ProducerSettings(accessMode="WaitForExclusive"), made.append)
    world.run(60_000)
    assert made == []
    holder.close(lambda _: None)
    world.settle()
    assert [one.state for one in made] == [State.READY]
    refused: list[Any] = []
    world.engine().produce(T, ProducerSettings(accessMode="Exclusive"), refused.append)
    world.settle()
    assert errors(refused) == ["ProducerFenced"]


def test_one_who_is_fenced_is_told(world: Any) -> None:
    holder, told = open_producer(world, accessMode="Exclusive"), []
    open_producer(world, accessMode="ExclusiveWithFencing")
    holder.send(OutgoingMessage(b""), told.append)
    world.run(5000)
    holder.send(OutgoingMessage(b""), told.append)
    assert errors(told) == ["ProducerFenced", "ProducerFenced"]
    assert [body.topic_epoch for body in world.said("PRODUCER") if body.epoch] == [0]


# -- limits ------------------------------------------------------------------------------------------------------------


def test_the_queue_is_limited_in_messages(world: Any) -> None:
    producer = open_producer(world, maxPendingMessages=3, batchingMaxMessages=2)
    rooms: list[int] = []
    producer.on_room = lambda: rooms.append(producer.waiting)
    assert [producer.send(OutgoingMessage(b"")) for _ in range(5)] == [True, True, True, False, False]
    world.run(10)
    assert rooms == [1]
    assert producer.send(OutgoingMessage(b""))


def test_memory_is_limited_for_all_producers(world: Any) -> None:
    engine = world.engine(memoryLimitBytes=100)
    made: list[Any] = []
    engine.produce(T, ProducerSettings(), made.append)
    engine.produce(T + "2", ProducerSettings(), made.append)
    world.settle()
    one, other = made
    rooms: list[str] = []
    other.on_room = lambda: rooms.append("room")
    assert one.send(OutgoingMessage(bytes(101)))
    assert not other.send(OutgoingMessage(b"x"))
    world.run(10)
    assert rooms == ["room"]
    assert other.send(OutgoingMessage(b"x"))


def test_chunks_need_room_for_all(make_world: Callable[..., Any]) -> None:
    world = make_world(maxMessageSize=1000)
    producer, told = open_producer(world, chunkingEnabled=True, batchingEnabled=False, maxPendingMessages=4), []
    assert producer.send(OutgoingMessage(bytes(100)), told.append)
    assert producer.send(OutgoingMessage(bytes(2500)), told.append)
    assert not producer.send(OutgoingMessage(bytes(2500)), told.append)
    world.settle()
    assert [(one.ledger, one.entry) for one in told] == [(told[0].ledger, 0), (told[0].ledger, 3)]
    assert [body.is_chunk for body in world.said("SEND")] == [False, True, True, True]
    assert producer.send(OutgoingMessage(bytes(5000)), told.append)
    assert errors(told)[-1] == "InvalidMessage"
    assert producer.engine.memory.held == 0


def test_messages_time_out_together(world: Any) -> None:
    producer, told = open_producer(world, sendTimeoutMs=1000), []
    world.deaf = True
    producer.send(OutgoingMessage(b"1"), told.append)
    world.run(500)
    producer.send(OutgoingMessage(b"2"), told.append)
    world.run(400)
    assert told == []
    world.run(200)
    assert errors(told) == ["TimeOut", "TimeOut"]
    assert producer.waiting == 0


def test_a_batch_that_waits_for_a_connection_times_out(world: Any) -> None:
    producer, told = open_producer(world, sendTimeoutMs=1000), []
    world.reachable = False
    world.cut()
    producer.send(OutgoingMessage(b"1"), told.append)
    world.run(999)
    assert told == []
    world.run(1000)
    assert errors(told) == ["TimeOut"]


def test_without_a_time_out_they_wait_for_ever(world: Any) -> None:
    producer, told = open_producer(world, sendTimeoutMs=0), []
    world.reachable = False
    world.cut()
    producer.send(OutgoingMessage(b"1"), told.append)
    world.run(3_600_000)
    world.reachable = True
    world.run(120_000)
    assert isinstance(told[0], MessageId)


# -- schemas -----------------------------------------------------------------------------------------------------------


def schema(name: str) -> pb.Schema:
    definition = '{"type":"record","name":"R","fields":[{"name":"%s","type":["null","string"],"default":null}]}'
    return pb.Schema(name="R", schema_data=(definition % name).encode(), type=pb.Schema.Type.Value("Json"))


def test_a_new_schema_is_registered_and_the_rest_waits(world: Any) -> None:
    producer, told = open_producer(world, schema=schema("a")), []
    producer.send(OutgoingMessage(b"1"), told.append)
    producer.send(OutgoingMessage(b"2", schema=schema("b")), told.append)
    producer.send(OutgoingMessage(b"3", schema=schema("a")), told.append)
    producer.send(OutgoingMessage(b"4", schema=schema("b")), told.append)
    producer.flush(told.append)
    world.run(10)
    order = [one.name for one in world.heard("SEND", "GET_OR_CREATE_SCHEMA")]
    assert order == ["SEND", "GET_OR_CREATE_SCHEMA", "SEND", "SEND", "SEND"]
    assert [one.frame.metadata.schema_version[-1] for one in world.heard("SEND")] == [0, 1, 0, 1]
    assert [one.entry for one in told[:4]] == [0, 1, 2, 3]
    assert told[4] is None
    # Now both are known, and a change of schema only ends the batch.
    for name in "aabba":
        producer.send(OutgoingMessage(b"", schema=schema(name)))
    world.run(10)
    assert [count for _, count, _ in batches(world)[4:]] == [2, 2, 1]


def test_a_schema_that_does_not_fit_fails_its_message_alone(world: Any) -> None:
    producer, told = open_producer(world, schema=schema("a")), []
    wrong = pb.Schema(name="R", schema_data=b'"int"', type=pb.Schema.Type.Value("Avro"))
    for message in (OutgoingMessage(b"1", schema=wrong), OutgoingMessage(b"2"), OutgoingMessage(b"3")):
        producer.send(message, told.append)
    world.run(10)
    assert sorted(errors(told)) == ["0:0:-1:0", "0:0:-1:1", "IncompatibleSchema"]
    assert producer.engine.memory.held == 0


def test_a_connection_lost_while_registering(world: Any) -> None:
    producer, told = open_producer(world, schema=schema("a"), batchingEnabled=False), []
    world.deaf = True
    producer.send(OutgoingMessage(b"1", schema=schema("b")), told.append)
    producer.send(OutgoingMessage(b"2"), told.append)
    world.settle()
    world.deaf = False
    world.cut()
    world.run(1000)
    assert [one.entry for one in told] == [0, 1]


# -- encryption --------------------------------------------------------------------------------------------------------


def test_encrypted_and_with_a_new_data_key_every_four_hours(world: Any) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    producer = open_producer(world, encryptionKeys={"k": public}, batchingEnabled=False)
    producer.send(OutgoingMessage(b"1"))
    producer.send(OutgoingMessage(b"2"))
    world.run(4 * 3600 * 1000)
    producer.send(OutgoingMessage(b"3"))
    world.settle()
    assert world.said("PRODUCER")[0].encrypted
    sends = [one.frame for one in world.heard("SEND")]
    wrapped = [frame.metadata.encryption_keys[0].value for frame in sends]
    assert wrapped[0] == wrapped[1] != wrapped[2]
    assert [PrivateKeys([private]).open(frame.metadata, frame.payload) for frame in sends] == [b"1", b"2", b"3"]


def test_a_key_that_is_none(world: Any) -> None:
    made: list[Any] = []
    world.engine().produce(T, ProducerSettings(encryptionKeys={"k": b"none"}), made.append)
    world.settle()
    assert errors(made) == ["Crypto"]
    assert world.said("PRODUCER") == []


# -- the end -----------------------------------------------------------------------------------------------------------


def test_closing_sends_nothing(world: Any) -> None:
    producer, told = open_producer(world, batchingMaxMessages=2), []
    for number in range(3):
        producer.send(OutgoingMessage(b"%d" % number), told.append)
    producer.close(told.append)
    world.settle()
    producer.send(OutgoingMessage(b"late"), told.append)
    assert errors(told) == ["0:0:-1:0", "0:0:-1:1", "Closed", "None", "Closed"]
    assert [one.name for one in world.heard(from_client=True)][-2:] == ["SEND", "CLOSE_PRODUCER"]
    producer.close(told.append)
    assert told[-1] is None
    assert producer.engine.memory.held == 0


def test_nothing_is_sent_once_it_is_being_closed(world: Any) -> None:
    producer, told = open_producer(world), []
    world.deaf = True
    producer.send(OutgoingMessage(b""), told.append)
    producer.close(told.append)
    producer.flush(told.append)
    world.run(100)
    assert world.said("SEND") == []
    world.cut()
    assert errors(told) == ["Closed", "Closed", "None"]


def test_closing_without_a_connection(world: Any) -> None:
    producer, told = open_producer(world), []
    world.reachable = False
    world.cut()
    producer.send(OutgoingMessage(b""), told.append)
    producer.close(told.append)
    assert errors(told) == ["Closed", "None"]
    world.run(100_000)
    assert world.said("CLOSE_PRODUCER") == []


def test_a_connection_lost_while_closing(world: Any) -> None:
    producer, told = open_producer(world), []
    world.deaf = True
    producer.close(told.append)
    world.settle()
    world.cut()
    assert told == [None]
    assert producer.state is State.CLOSED


def test_a_flush_of_nothing(world: Any) -> None:
    told: list[Any] = []
    open_producer(world).flush(told.append)
    assert told == [None]


def test_thousands_that_were_closed_are_gone(world: Any) -> None:
    engine = world.engine()
    producers: list[Any] = []
    made: list[Any] = []
    for _ in range(300):
        made.clear()
        engine.produce(T, ProducerSettings(), made.append)
        world.settle()
        producers.append(weakref.ref(made[0]))
        made[0].send(OutgoingMessage(b"x"))
        made[0].flush(lambda _: None)
        world.settle()
        made[0].close(lambda _: None)
        world.settle()
        world.forget()
    world.run(1000)
    assert engine.handlers == {}
    assert [connection.handlers for connection in engine.pool.connections] == [{}]
    assert (len(engine._timers), engine.memory.held) == (1, 0)  # the keep-alive's
    made.clear()
    gc.collect()
    assert sum(one() is not None for one in producers) < 10
