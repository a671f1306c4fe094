"""One producer with a broker in memory. test_producer_answers.py tests responses that this broker never sends."""

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
from pcli.replay.client.settings import ProducerSettings

T = "persistent://public/default/t"


def open_producer(network: Any, **settings: Any) -> Any:
    made: list[Any] = []
    network.engine().produce(T, ProducerSettings(**settings), made.append)
    producer = network.wait_for(made)
    assert isinstance(producer, Producer), producer
    return producer


def batches(network: Any) -> list[tuple[int, int, int]]:
    """Return the first sequence id, the number of messages and the time of each SEND."""
    return [(one.body.sequence_id, one.body.num_messages, one.time) for one in network.sent_frames("SEND")]


def errors(results: list[Any]) -> list[str]:
    return [one.error if isinstance(one, ClientFailure) else str(one) for one in results]


# -- batches -----------------------------------------------------------------------------------------------------------


def test_by_count_and_by_time(network: Any) -> None:
    producer, results = open_producer(network, batchingMaxMessages=4, batchingMaxPublishDelayMicros=10_000), []
    network.run(100)
    for number in range(10):
        producer.send(OutgoingMessage(b"%d" % number), results.append)
    network.run(50)
    # Two batches are full at once. The timer, set by the first message, sends the rest after its full delay.
    assert batches(network) == [(0, 4, 100), (4, 4, 100), (8, 2, 110)]
    assert results[3] == MessageId(results[0].ledger, 0, -1, 3)
    assert len(results) == 10


def test_by_bytes(network: Any) -> None:
    producer = open_producer(network, batchingMaxBytes=100)
    network.run(100)
    for size in (60, 40, 60, 60, 300, 10):
        producer.send(OutgoingMessage(bytes(size)))
    network.run(50)
    assert [count for _, count, _ in batches(network)] == [2, 1, 1, 1, 1]


def test_a_blocking_send_sends_the_batch_at_once(network: Any) -> None:
    producer, results = open_producer(network, batchingMaxPublishDelayMicros=10**9), []
    producer.send(OutgoingMessage(b""), results.append)
    assert producer.trigger_flush()
    assert not producer.trigger_flush()
    network.deliver_all()
    assert results == [MessageId(results[0].ledger, 0)]


def test_a_delayed_message_is_sent_alone_after_the_batch(network: Any) -> None:
    producer = open_producer(network)
    producer.send(OutgoingMessage(b"a"))
    producer.send(OutgoingMessage(b"b"))
    producer.send(OutgoingMessage(b"later", deliver_at=network.now + 5000))
    producer.send(OutgoingMessage(b"c"))
    network.run(10)
    assert [(first, count) for first, count, _ in batches(network)] == [(0, 2), (2, 1), (3, 1)]
    assert [one.frame.metadata.HasField("deliver_at_time") for one in network.sent_frames("SEND")] == [
        False,
        True,
        False,
    ]


def test_without_batching_each_message_is_sent_at_once(network: Any) -> None:
    producer, results = open_producer(network, batchingEnabled=False), []
    for number in range(3):
        producer.send(OutgoingMessage(b"%d" % number), results.append)
    network.deliver_all()
    assert batches(network) == [(0, 1, 0), (1, 1, 0), (2, 1, 0)]
    assert [one.entry for one in results] == [0, 1, 2]


def test_batches_of_keys(network: Any) -> None:
    producer = open_producer(network, batcherBuilder="KEY_BASED")
    for key in "ABBAA":
        producer.send(OutgoingMessage(b"", key=key))
    network.run(10)
    sends = [(one.sequence_id, one.highest_sequence_id, one.num_messages) for one in network.sent("SEND")]
    assert sends == [(2, 2, 2), (4, 4, 3)]
    assert producer.pending.messages == 0


@pytest.mark.parametrize("batching", [True, False])
def test_a_message_above_the_maximum_size_fails(network: Any, batching: bool) -> None:
    producer, results = open_producer(network, batchingEnabled=batching), []
    producer.send(OutgoingMessage(bytes(6 << 20)), results.append)
    producer.send(OutgoingMessage(b"good"), results.append)
    network.run(10)
    assert errors(results)[0] == "InvalidMessage"
    assert isinstance(results[1], MessageId)
    assert producer.engine.memory.held == 0


# -- possible duplicates -----------------------------------------------------------------------------------------------


def test_possible_duplicates_are_sent_alone_and_reported(network: Any) -> None:
    network.broker.policies.set_namespace("public/default", "deduplication", body=True)
    producer, doubts, results = open_producer(network, producerName="p"), [], []
    producer.on_possible_duplicate = lambda doubt, sequence_id: doubts.append((sequence_id, doubt))
    for sequence_id in (0, 1, 2):
        producer.send(OutgoingMessage(b"", sequence_id=sequence_id))
    producer.flush(results.append)
    network.deliver_all()
    for sequence_id in (3, 4, 3, 1, 5, 6):
        producer.send(OutgoingMessage(b"", sequence_id=sequence_id), results.append)
    network.run(10)
    assert doubts == [(3, DuplicateRisk.MAYBE), (1, DuplicateRisk.SURE)]
    assert [(first, count) for first, count, _ in batches(network)] == [(0, 3), (3, 2), (3, 1), (1, 1), (5, 2)]
    assert [one is None or one.ledger == -1 for one in results] == [True, False, False, True, True, False, False]


def test_sequence_ids_continue_after_the_brokers_last(network: Any) -> None:
    network.broker.policies.set_namespace("public/default", "deduplication", body=True)
    first = open_producer(network, producerName="p")
    first.send(OutgoingMessage(b"", sequence_id=41))
    done: list[Any] = []
    first.flush(done.append)
    network.deliver_all()
    first.close(done.append)
    network.deliver_all()
    assert done == [None, None]
    second = open_producer(network, producerName="p")
    second.send(OutgoingMessage(b""))
    second.trigger_flush()
    network.deliver_all()
    assert network.sent("SEND")[-1].sequence_id == 42


# -- reconnects --------------------------------------------------------------------------------------------------------


def test_entries_without_a_receipt_are_resent_in_order(network: Any) -> None:
    producer, results = open_producer(network, batchingMaxMessages=2), []
    network.unresponsive = True
    for number in range(4):
        producer.send(OutgoingMessage(b"%d" % number), results.append)
    network.deliver_all()
    network.unresponsive = False
    network.clear_frames()
    network.cut()
    for number in range(4, 7):
        producer.send(OutgoingMessage(b"%d" % number), results.append)
    network.run(1000)
    first, *_ = network.sent_frames("PRODUCER")
    assert (first.body.epoch, first.body.producer_name, first.body.user_provided_producer_name) == (
        1,
        producer.name,
        False,
    )
    assert [one[:2] for one in batches(network)] == [(0, 2), (2, 2), (4, 2), (6, 1)]
    assert [(one.entry, one.batch) for one in results] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, -1)]


def test_an_unload_is_survived(network: Any) -> None:
    producer, results = open_producer(network), []
    network.broker.unload(network.broker.topics[T])
    network.deliver_all()
    assert producer.state is State.CONNECTING
    producer.send(OutgoingMessage(b"meanwhile"), results.append)
    network.run(1000)
    assert isinstance(results[0], MessageId)
    assert [body.epoch for body in network.sent("PRODUCER")] == [0, 1]
    assert len(network.sent("CONNECT")) == 1


def test_a_topic_that_is_terminated(network: Any) -> None:
    producer, results = open_producer(network, batchingEnabled=False), []
    producer.send(OutgoingMessage(b"good"), results.append)
    network.deliver_all()
    network.broker.terminate(network.broker.topics[T])
    producer.send(OutgoingMessage(b"late"), results.append)
    network.run(5000)
    producer.send(OutgoingMessage(b"too late"), results.append)
    assert errors(results[1:]) == ["TopicTerminatedError", "TopicTerminatedError"]
    assert producer.state is State.TERMINATED


def test_a_producer_waits_for_exclusive_access(network: Any) -> None:
    holder = open_producer(network, accessMode="Exclusive")
    made: list[Any] = []
    network.engine().produce(T, ProducerSettings(accessMode="WaitForExclusive"), made.append)
    network.run(60_000)
    assert made == []
    holder.close(lambda _: None)
    network.deliver_all()
    assert [one.state for one in made] == [State.READY]
    refused: list[Any] = []
    network.engine().produce(T, ProducerSettings(accessMode="Exclusive"), refused.append)
    network.deliver_all()
    assert errors(refused) == ["ProducerFenced"]


def test_a_fenced_producer_reports_the_failure(network: Any) -> None:
    holder, results = open_producer(network, accessMode="Exclusive"), []
    open_producer(network, accessMode="ExclusiveWithFencing")
    holder.send(OutgoingMessage(b""), results.append)
    network.run(5000)
    holder.send(OutgoingMessage(b""), results.append)
    assert errors(results) == ["ProducerFenced", "ProducerFenced"]
    assert [body.topic_epoch for body in network.sent("PRODUCER") if body.epoch] == [0]


# -- limits ------------------------------------------------------------------------------------------------------------


def test_the_queue_is_limited_in_messages(network: Any) -> None:
    producer = open_producer(network, maxPendingMessages=3, batchingMaxMessages=2)
    rooms: list[int] = []
    producer.on_room = lambda: rooms.append(producer.waiting)
    assert [producer.send(OutgoingMessage(b"")) for _ in range(5)] == [True, True, True, False, False]
    network.run(10)
    assert rooms == [1]
    assert producer.send(OutgoingMessage(b""))


def test_memory_is_limited_for_all_producers(network: Any) -> None:
    engine = network.engine(memoryLimitBytes=100)
    made: list[Any] = []
    engine.produce(T, ProducerSettings(), made.append)
    engine.produce(T + "2", ProducerSettings(), made.append)
    network.deliver_all()
    one, other = made
    rooms: list[str] = []
    other.on_room = lambda: rooms.append("room")
    assert one.send(OutgoingMessage(bytes(101)))
    assert not other.send(OutgoingMessage(b"x"))
    network.run(10)
    assert rooms == ["room"]
    assert other.send(OutgoingMessage(b"x"))


def test_chunks_need_space_for_all(make_network: Callable[..., Any]) -> None:
    network = make_network(maxMessageSize=1000)
    producer, results = open_producer(network, chunkingEnabled=True, batchingEnabled=False, maxPendingMessages=4), []
    assert producer.send(OutgoingMessage(bytes(100)), results.append)
    assert producer.send(OutgoingMessage(bytes(2500)), results.append)
    assert not producer.send(OutgoingMessage(bytes(2500)), results.append)
    network.deliver_all()
    assert [(one.ledger, one.entry) for one in results] == [(results[0].ledger, 0), (results[0].ledger, 3)]
    assert [body.is_chunk for body in network.sent("SEND")] == [False, True, True, True]
    assert producer.send(OutgoingMessage(bytes(5000)), results.append)
    assert errors(results)[-1] == "InvalidMessage"
    assert producer.engine.memory.held == 0


def test_messages_time_out_together(network: Any) -> None:
    producer, results = open_producer(network, sendTimeoutMs=1000), []
    network.unresponsive = True
    producer.send(OutgoingMessage(b"1"), results.append)
    network.run(500)
    producer.send(OutgoingMessage(b"2"), results.append)
    network.run(400)
    assert results == []
    network.run(200)
    assert errors(results) == ["TimeOut", "TimeOut"]
    assert producer.waiting == 0


def test_a_batch_that_waits_for_a_connection_times_out(network: Any) -> None:
    producer, results = open_producer(network, sendTimeoutMs=1000), []
    network.reachable = False
    network.cut()
    producer.send(OutgoingMessage(b"1"), results.append)
    network.run(999)
    assert results == []
    network.run(1000)
    assert errors(results) == ["TimeOut"]


def test_without_a_time_out_messages_wait(network: Any) -> None:
    producer, results = open_producer(network, sendTimeoutMs=0), []
    network.reachable = False
    network.cut()
    producer.send(OutgoingMessage(b"1"), results.append)
    network.run(3_600_000)
    network.reachable = True
    network.run(120_000)
    assert isinstance(results[0], MessageId)


# -- schemas -----------------------------------------------------------------------------------------------------------


def schema(name: str) -> pb.Schema:
    definition = '{"type":"record","name":"R","fields":[{"name":"%s","type":["null","string"],"default":null}]}'
    return pb.Schema(name="R", schema_data=(definition % name).encode(), type=pb.Schema.Type.Value("Json"))


def test_a_new_schema_is_registered_while_later_messages_wait(network: Any) -> None:
    producer, results = open_producer(network, schema=schema("a")), []
    producer.send(OutgoingMessage(b"1"), results.append)
    producer.send(OutgoingMessage(b"2", schema=schema("b")), results.append)
    producer.send(OutgoingMessage(b"3", schema=schema("a")), results.append)
    producer.send(OutgoingMessage(b"4", schema=schema("b")), results.append)
    producer.flush(results.append)
    network.run(10)
    order = [one.name for one in network.sent_frames("SEND", "GET_OR_CREATE_SCHEMA")]
    assert order == ["SEND", "GET_OR_CREATE_SCHEMA", "SEND", "SEND", "SEND"]
    assert [one.frame.metadata.schema_version[-1] for one in network.sent_frames("SEND")] == [0, 1, 0, 1]
    assert [one.entry for one in results[:4]] == [0, 1, 2, 3]
    assert results[4] is None
    # Both schemas are registered now, so a change of schema only ends the batch.
    for name in "aabba":
        producer.send(OutgoingMessage(b"", schema=schema(name)))
    network.run(10)
    assert [count for _, count, _ in batches(network)[4:]] == [2, 2, 1]


def test_an_incompatible_schema_fails_only_its_message(network: Any) -> None:
    producer, results = open_producer(network, schema=schema("a")), []
    wrong = pb.Schema(name="R", schema_data=b'"int"', type=pb.Schema.Type.Value("Avro"))
    for message in (OutgoingMessage(b"1", schema=wrong), OutgoingMessage(b"2"), OutgoingMessage(b"3")):
        producer.send(message, results.append)
    network.run(10)
    assert sorted(errors(results)) == ["0:0:-1:0", "0:0:-1:1", "IncompatibleSchema"]
    assert producer.engine.memory.held == 0


def test_a_connection_lost_while_registering(network: Any) -> None:
    producer, results = open_producer(network, schema=schema("a"), batchingEnabled=False), []
    network.unresponsive = True
    producer.send(OutgoingMessage(b"1", schema=schema("b")), results.append)
    producer.send(OutgoingMessage(b"2"), results.append)
    network.deliver_all()
    network.unresponsive = False
    network.cut()
    network.run(1000)
    assert [one.entry for one in results] == [0, 1]


# -- encryption --------------------------------------------------------------------------------------------------------


def test_encrypted_and_with_a_new_data_key_every_four_hours(network: Any) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    producer = open_producer(network, encryptionKeys={"k": public}, batchingEnabled=False)
    producer.send(OutgoingMessage(b"1"))
    producer.send(OutgoingMessage(b"2"))
    network.run(4 * 3600 * 1000)
    producer.send(OutgoingMessage(b"3"))
    network.deliver_all()
    assert network.sent("PRODUCER")[0].encrypted
    sends = [one.frame for one in network.sent_frames("SEND")]
    wrapped = [frame.metadata.encryption_keys[0].value for frame in sends]
    assert wrapped[0] == wrapped[1] != wrapped[2]
    assert [PrivateKeys([private]).open(frame.metadata, frame.payload) for frame in sends] == [b"1", b"2", b"3"]


def test_an_invalid_public_key_is_refused(network: Any) -> None:
    made: list[Any] = []
    network.engine().produce(T, ProducerSettings(encryptionKeys={"k": b"none"}), made.append)
    network.deliver_all()
    assert errors(made) == ["Crypto"]
    assert network.sent("PRODUCER") == []


# -- the end -----------------------------------------------------------------------------------------------------------


def test_closing_sends_nothing(network: Any) -> None:
    producer, results = open_producer(network, batchingMaxMessages=2), []
    for number in range(3):
        producer.send(OutgoingMessage(b"%d" % number), results.append)
    producer.close(results.append)
    network.deliver_all()
    producer.send(OutgoingMessage(b"late"), results.append)
    assert errors(results) == ["0:0:-1:0", "0:0:-1:1", "Closed", "None", "Closed"]
    assert [one.name for one in network.sent_frames(from_client=True)][-2:] == ["SEND", "CLOSE_PRODUCER"]
    producer.close(results.append)
    assert results[-1] is None
    assert producer.engine.memory.held == 0


def test_nothing_is_sent_during_a_close(network: Any) -> None:
    producer, results = open_producer(network), []
    network.unresponsive = True
    producer.send(OutgoingMessage(b""), results.append)
    producer.close(results.append)
    producer.flush(results.append)
    network.run(100)
    assert network.sent("SEND") == []
    network.cut()
    assert errors(results) == ["Closed", "Closed", "None"]


def test_closing_without_a_connection(network: Any) -> None:
    producer, results = open_producer(network), []
    network.reachable = False
    network.cut()
    producer.send(OutgoingMessage(b""), results.append)
    producer.close(results.append)
    assert errors(results) == ["Closed", "None"]
    network.run(100_000)
    assert network.sent("CLOSE_PRODUCER") == []


def test_a_connection_lost_while_closing(network: Any) -> None:
    producer, results = open_producer(network), []
    network.unresponsive = True
    producer.close(results.append)
    network.deliver_all()
    network.cut()
    assert results == [None]
    assert producer.state is State.CLOSED


def test_a_flush_without_messages_completes(network: Any) -> None:
    results: list[Any] = []
    open_producer(network).flush(results.append)
    assert results == [None]


def test_closed_producers_are_released(network: Any) -> None:
    engine = network.engine()
    producers: list[Any] = []
    made: list[Any] = []
    for _ in range(300):
        made.clear()
        engine.produce(T, ProducerSettings(), made.append)
        network.deliver_all()
        producers.append(weakref.ref(made[0]))
        made[0].send(OutgoingMessage(b"x"))
        made[0].flush(lambda _: None)
        network.deliver_all()
        made[0].close(lambda _: None)
        network.deliver_all()
        network.clear_frames()
    network.run(1000)
    assert engine.handlers == {}
    assert [connection.handlers for connection in engine.pool.connections] == [{}]
    assert (len(engine._timers), engine.memory.held) == (1, 0)  # the keep-alive timer
    made.clear()
    gc.collect()
    assert sum(one() is not None for one in producers) < 10
