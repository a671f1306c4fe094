"""Large numbers of consumers on one subscription, idle clients, topics, and reconnecting clients.

No time is measured. The tests check that all messages arrive, that they are distributed evenly, that no client is
disconnected by mistake, and that no state remains of disconnected clients.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from collections import Counter

import pytest

from pcli.codec.proto import pb
from pcli.codec.session import ClientSession
from pcli.codec.wire.build import push_entry, push_frame
from pcli.minibroker.broker import Broker
from pcli.minibroker.server.tcp_server import Server
from pcli.minibroker.settings import Settings

CONSUMERS = 1000
IDLE = 2000
TOPICS = 5000
SOCKETS = 200
CYCLES = int(os.environ.get("PCLI_FUZZ", "1000"))
"""Number of connects and disconnects of a client; `make fuzz` sets a higher one."""

TOPIC = "persistent://public/default/t"
SHARED = pb.CommandSubscribe.Shared
START = 1_700_000_000_000


def send(sequence, payload=b"x", producer_id=1):
    about = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=START)
    return push_frame(pb.CommandSend(producer_id=producer_id, sequence_id=sequence), push_entry(about, payload))


def subscribe(consumer_id=1, topic=TOPIC, **fields):
    usual = {"subscription": "sub", "subType": SHARED}
    return pb.CommandSubscribe(topic=topic, consumer_id=consumer_id, **usual | fields)


def entries(bodies):
    return [body.message_id.entryId for body in bodies if isinstance(body, pb.CommandMessage)]


# -- a thousand consumers --------------------------------------------------------------------------------------------


def crowd(world, permits=1000):
    """Create this number of consumers on one Shared subscription, each with its own connection."""
    people = [world.client() for _ in range(CONSUMERS)]
    people[0].look_up(TOPIC)
    for client in people:
        client(subscribe())
        client.flow(permits)
    return people


def test_single_messages_are_sent_round_robin(world):
    """Single messages are delivered to the consumers in turn: all receive the same number."""
    producer = world.client()
    producer.producer(TOPIC)
    people = crowd(world)
    for sequence in range(5 * CONSUMERS):
        world.broker.receive(producer.connection, send(sequence), world.now)
    world.deliver()
    got = [entries(client.hear()) for client in people]
    assert Counter(len(one) for one in got) == {5: CONSUMERS}
    assert sorted(number for one in got for number in one) == list(range(5 * CONSUMERS))


@pytest.mark.slow
def test_a_backlog_is_shared_in_slices(world):
    """A backlog is sent in slices of at most dispatcherMaxRoundRobinBatchSize. Counts differ by at most one slice."""
    producer = world.client()
    producer.producer(TOPIC)
    people = crowd(world)
    size = world.broker.settings.dispatcherMaxRoundRobinBatchSize
    count = 2 * size * CONSUMERS
    data = b"".join(send(sequence) for sequence in range(count))
    world.broker.receive(producer.connection, data, world.now)
    world.deliver()
    got = [entries(client.hear()) for client in people]
    assert sorted(number for one in got for number in one) == list(range(count))
    assert {len(one) for one in got} == {2 * size}


def test_half_of_the_consumers_leave(world):
    """Messages of consumers that disconnect are redelivered to the others.

    With the acknowledged ones, these are all messages.
    """
    producer = world.client()
    producer.producer(TOPIC)
    people = crowd(world)
    count = 4 * CONSUMERS
    world.broker.receive(producer.connection, b"".join(map(send, range(count))), world.now)
    world.deliver()
    for client in people[::2]:
        client.leave()
    staying = people[1::2]
    got = Counter(number for client in staying for number in entries(client.hear()))
    assert sorted(got) == list(range(count))
    assert set(got.values()) == {1}
    dispatcher = world.broker.topics[TOPIC].subscriptions["sub"].dispatcher
    assert dispatcher.total_unacked == count == sum(one.unacked for one in dispatcher.consumers)


def test_a_thousand_keys(world):
    """Key_Shared with many consumers: each key has one consumer and keeps its order."""
    producer = world.client()
    producer.producer(TOPIC)
    people = [world.client() for _ in range(CONSUMERS // 4)]
    for client in people:
        client(subscribe(subType=pb.CommandSubscribe.Key_Shared))
        client.flow()
    data = []
    for sequence in range(3000):
        about = pb.MessageMetadata(
            producer_name="p", sequence_id=sequence, publish_time=1, partition_key=str(sequence % 997)
        )
        data.append(push_frame(pb.CommandSend(producer_id=1, sequence_id=sequence), push_entry(about, b"")))
    world.broker.receive(producer.connection, b"".join(data), world.now)
    world.deliver()
    owners: dict[int, set[int]] = {}
    seen = []
    for number, client in enumerate(people):
        mine = entries(client.hear())
        seen += mine
        for key in range(997):
            of_key = [one for one in mine if one % 997 == key]
            assert of_key == sorted(of_key)
            if of_key:
                owners.setdefault(key, set()).add(number)
    assert sorted(seen) == list(range(3000))
    assert all(len(who) == 1 for who in owners.values())


def test_consumers_on_sockets():
    """The same with connections on an event loop."""

    async def work():
        server = Server(Settings(brokerServicePort=0, webServicePort=0))
        await server.start()
        host, port = server.service_url.removeprefix("pulsar://").split(":")
        tasks = []
        ready = asyncio.Semaphore(0)
        count = 10 * SOCKETS
        got: list[int] = []
        everything = asyncio.Event()

        async def join():
            reader, writer = await asyncio.open_connection(host, int(port))
            session = ClientSession()
            session.connect()
            return reader, writer, session

        async def hear(reader, writer, session):
            writer.write(session.output())
            data = await reader.read(1 << 16)
            assert data, "the connection ended"
            return session.receive(data)

        async def consume():
            reader, writer, session = await join()
            session.send(pb.CommandLookupTopic(topic=TOPIC))
            session.send(subscribe())
            while not any(event.name == "SUCCESS" for event in await hear(reader, writer, session)):
                pass
            session.send(pb.CommandFlow(consumer_id=1, messagePermits=1000))
            session.send(pb.CommandPing())
            ready.release()
            mine = 0
            while mine < 10:
                for event in await hear(reader, writer, session):
                    if event.name == "MESSAGE":
                        mine += 1
                        got.append(event.body.message_id.entryId)
                        session.send(pb.CommandAck(consumer_id=1, ack_type=0, message_id=[event.body.message_id]))
            session.send(pb.CommandPing())
            while not any(event.name == "PONG" for event in await hear(reader, writer, session)):
                pass
            if len(got) == count:
                everything.set()
            await everything.wait()
            writer.close()

        tasks = [asyncio.create_task(consume()) for _ in range(SOCKETS)]
        for _ in range(SOCKETS):
            await ready.acquire()
        while sum(one.permits > 0 for topic in server.broker.topics.values() for one in topic.consumers) < SOCKETS:
            await asyncio.sleep(0.01)
        reader, writer, session = await join()
        session.send(pb.CommandProducer(topic=TOPIC, producer_id=1))
        while not any(event.name == "PRODUCER_SUCCESS" for event in await hear(reader, writer, session)):
            pass
        for sequence in range(count):
            writer.write(send(sequence))
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        assert sorted(got) == list(range(count))
        assert server.broker.topics[TOPIC].subscriptions["sub"].backlog == 0
        writer.close()
        while server.client_sockets:
            await asyncio.sleep(0.01)
        assert not server.broker.connections
        await server.stop()
        assert server.failures == []

    asyncio.run(asyncio.wait_for(work(), 120))


# -- idle clients ----------------------------------------------------------------------------------------------------


def test_idle_clients_stay_connected_while_they_answer_pings(world):
    people = [world.client() for _ in range(IDLE)]
    producer, consumer = world.client(), world.client()
    producer.producer(TOPIC)
    consumer(subscribe())
    consumer.flow()
    for minute in range(3):
        for client in [*people, producer, consumer]:
            client.hear()
            client.session.output()
        world.wait(30_000)
        for client in [*people, producer, consumer]:
            assert [type(body) for body in client.hear()] == [pb.CommandPing]
            client()
        producer.publish("still here", minute)
        assert entries(consumer.hear()) == [minute]
    assert not any(client.closed for client in people)
    world.wait(60_000)
    assert all(client.closed for client in people)
    assert not world.broker.connections


# -- topics ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_five_thousand_topics(world):
    """One client produces and consumes on all topics; a watcher that starts late is notified of the last ones."""
    watcher, client = world.client(), world.client()
    names = [f"persistent://public/default/t{number}" for number in range(TOPICS)]
    for number, name in enumerate(names):
        if number == TOPICS - 100:
            watcher(pb.CommandWatchTopicList(watcher_id=1, namespace="public/default", topics_pattern=".*"))
        client(pb.CommandLookupTopic(topic=name))
        client(pb.CommandProducer(topic=name, producer_id=number))
        client(subscribe(number, name))
        client(pb.CommandFlow(consumer_id=number, messagePermits=10))
    assert [body.new_topics[0] for body in watcher.hear()] == names[-100:]
    for number in range(TOPICS):
        heard = client.raw(send(0, producer_id=number))
        assert {type(body) for body in heard} == {pb.CommandSendReceipt, pb.CommandMessage}
        assert all(getattr(body, "consumer_id", number) == number for body in heard)
    listed = client.one(pb.CommandGetTopicsOfNamespace(namespace="public/default"))
    assert sorted(listed.topics) == sorted(names)
    client.leave()
    assert not any(topic.producers or topic.consumers for topic in world.broker.topics.values())


# -- connects and disconnects ----------------------------------------------------------------------------------------


def visit(broker, now, number):
    """A client that produces, consumes, watches, and disconnects."""
    connection = broker.connect(("10.0.0.1", 1024 + number % 60000), now)
    said = [
        pb.CommandConnect(client_version="v", protocol_version=21),
        pb.CommandLookupTopic(topic=TOPIC, request_id=1),
        pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=2),
        subscribe(request_id=3, subType=number % 4 if number % 20 < 4 else 1, subscription=f"s{number % 4}"),
        pb.CommandFlow(consumer_id=1, messagePermits=10),
        pb.CommandWatchTopicList(watcher_id=1, namespace="public/default", topics_pattern=".*", request_id=4),
    ]
    broker.receive(connection, b"".join(map(push_frame, said)) + send(0) + b"\0\0\0\x20half of a frame", now)
    assert broker.drain()
    broker.disconnected(connection, now)
    for subscription in broker.topics[TOPIC].subscriptions.values():
        subscription.skip_all()
    broker.finish_turn()


@pytest.mark.slow
def test_disconnected_clients_are_released():
    """After many connects, memory is the same as after a few; no timers, connections and watchers remain."""
    settings = Settings(managedLedgerMaxEntriesPerLedger=50, managedLedgerMinLedgerRolloverTimeMinutes=0)
    broker = Broker(settings, now=START)
    broker.cache.limit = 10_000
    few = 300
    now = START
    tracemalloc.start()
    try:
        before = 0
        for number in range(few + CYCLES):
            now += 10
            visit(broker, now, number)
            if number == few:
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert not broker.failures
    assert not broker.connections
    assert not broker.watchers._by_namespace
    assert not broker._scheduled
    broker.advance(now + 60_000)
    assert len(broker._timers) == len(Broker(broker.settings)._timers)
    assert after - before < 20_000
