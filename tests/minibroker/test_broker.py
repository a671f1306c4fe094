"""Turns, time, limits of connections, and topics shared by REST and commands."""

from __future__ import annotations

import pytest

from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused

T = TopicName.parse("persistent://public/default/t")


def names(bodies):
    return [type(body).__name__.removeprefix("Command") for body in bodies]


class Dispatcher:
    """A task that counts its runs and schedules itself a given number of times."""

    def __init__(self, broker, again=0):
        self.broker, self.again, self.runs = broker, again, 0

    def run(self):
        self.runs += 1
        if self.runs <= self.again:
            self.broker.schedule(self)


# -- turns -----------------------------------------------------------------------------------------------------------


def test_a_dispatcher_runs_once_a_turn(world):
    one, eager = Dispatcher(world.broker), Dispatcher(world.broker, again=3)
    for _ in range(5):
        world.broker.schedule(one)
    world.broker.schedule(eager)
    world.broker.finish_turn()
    assert (one.runs, eager.runs) == (1, 4)


def test_a_frame_in_frames_out(world):
    """The core as a function: handle(connection, frame, now) returns the bytes to write to each connection."""
    client = world.client()
    [(connection, data)] = world.broker.receive_frame(
        client.connection, Frame.of(push_frame(pb.CommandPing())), world.now
    )
    assert connection is client.connection
    assert data == push_frame(pb.CommandPong())
    bad = Frame.of(push_frame(pb.CommandConnect(client_version="again")))
    assert world.broker.receive_frame(client.connection, bad, world.now) == [(client.connection, b"")]
    assert client.connection.closing
    assert world.broker.receive_frame(client.connection, bad, world.now) == []


def test_a_frame_counts_as_liveness(world):
    client, answers = world.client(), []
    client.connection.check_liveness(answers.append)
    world.broker.receive_frame(client.connection, Frame.of(push_frame(pb.CommandPong())), world.now)
    assert answers == [True]


def test_an_error_in_a_dispatcher_does_not_stop_others(make_world):
    world = make_world()

    class Broken(Dispatcher):
        def run(self):
            raise ZeroDivisionError

    other = Dispatcher(world.broker)
    world.broker.schedule(Broken(world.broker))
    world.broker.schedule(other)
    world.broker.finish_turn()
    assert other.runs == 1
    assert [type(fault) for fault in world.broker.failures] == [ZeroDivisionError]
    world.broker.failures.clear()


# -- time ------------------------------------------------------------------------------------------------------------


def test_due_timers_run_before_the_bytes(world):
    """Timers that were due before the bytes arrived ran before the bytes were read, with their own times."""
    client, seen = world.client(), []
    world.broker.call_later(10, lambda: seen.append((world.broker.now - world.now, client.connection.session.version)))
    world.broker.receive(client.connection, b"", world.now + 500)
    assert seen == [(10, 21)]
    assert world.broker.now == world.now + 500


def test_a_long_pause_runs_all_ticks(world):
    ticks = []

    def tick():
        ticks.append(world.broker.now - world.now)
        world.broker.call_later(100, tick)

    start = world.now
    world.broker.call_later(100, tick)
    world.broker.advance(start + 1_000)
    assert ticks == [100 * number for number in range(1, 11)]
    assert world.broker.now == start + 1_000


def test_a_chain_of_timers_without_delay_ends(world):
    ticks = []

    def tick():
        ticks.append(1)
        world.broker.call_later(0, tick)

    world.broker.call_later(0, tick)
    world.broker.advance(world.now + 10)
    assert len(ticks) == 10


def test_time_does_not_run_backwards(world):
    client = world.client()
    world.broker.receive(client.connection, b"", world.now + 100)
    world.broker.receive(client.connection, b"", world.now)
    assert world.broker.now == world.now + 100


def test_an_error_in_a_timer_does_not_stop_others(make_world):
    world, done = make_world(), []
    world.broker.call_later(5, lambda: 1 // 0)
    world.broker.call_later(6, lambda: done.append(1))
    world.broker.advance(world.now + 10)
    assert done == [1]
    assert [type(fault) for fault in world.broker.failures] == [ZeroDivisionError]
    world.broker.failures.clear()


# -- connections -----------------------------------------------------------------------------------------------------


def test_the_connection_limit(make_world):
    """ERROR with request id -1, then the end of the connection. A free place can be used again."""
    world = make_world(brokerMaxConnections=2)
    first, _ = world.client(), world.client()
    third = world.accept()
    [error] = third.hear()
    assert (error.request_id, error.error) == (2**64 - 1, pb.NotAllowedError)
    assert third.closed
    first.leave()
    world.client()


def test_the_connection_limit_per_address(make_world):
    world = make_world(brokerMaxConnectionsPerIp=1)
    world.accept("10.0.0.1")
    assert not world.accept("10.0.0.2").closed
    assert world.accept("10.0.0.1").closed


def test_generated_producer_names(world, client):
    """<cluster>-<instance>-<counter>"""
    assert client.producer("a").producer_name == "standalone-0-0"
    assert client.producer("b", producer_id=2).producer_name == "standalone-0-1"


# -- topics ----------------------------------------------------------------------------------------------------------


def refused(function, *arguments, **named):
    with pytest.raises(Refused) as caught:
        function(*arguments, **named)
    return pb.ServerError.Name(caught.value.code)


def test_deleting(world, client):
    client.producer()
    assert refused(world.broker.delete_topic, T) == "UnknownError"
    world.broker.delete_topic(T, force=True)
    world.deliver()
    assert names(client.hear()) == ["CloseProducer"]
    assert not world.broker.topic_registry.exists(T)
    assert refused(world.broker.delete_topic, T) == "TopicNotFound"


def test_unloading(world, client):
    """Clients are closed, messages are kept, and ids increase."""
    client.producer()
    client.subscribe()
    [before] = client.publish()
    world.broker.unload(world.broker.topics[str(T)])
    world.deliver()
    assert names(client.hear()) == ["CloseProducer", "CloseConsumer"]
    client.producer(producer_id=2)
    [after] = client.publish(sequence_id=1, producer_id=2)
    assert after.message_id.ledgerId > before.message_id.ledgerId
    client.subscribe(consumer_id=2)
    assert names(client.flow(consumer_id=2)) == ["Message", "Message"]


def test_policies_apply_to_loaded_topics(world, client):
    client.producer()
    topic = world.broker.topics[str(T)]
    assert topic.effective("maxUnackedMessagesPerConsumer") == 50_000
    assert topic.fast_path
    world.broker.policies.set_namespace("public/default", "deduplication", body=True)
    assert not topic.fast_path


def test_stopping(world):
    """Like an unload of every topic: clients are notified, then their connections end."""
    producer, consumer, idle = world.client(), world.client(), world.client()
    producer.producer()
    consumer.subscribe()
    world.broker.close()
    world.deliver()
    assert names(producer.hear()) == ["CloseProducer"]
    assert names(consumer.hear()) == ["CloseConsumer"]
    assert (producer.closed, consumer.closed, idle.closed) == (True, True, True)
    assert not world.broker.connections
