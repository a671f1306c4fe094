"""The engine: turns, time, and its requests to the event loop."""

from __future__ import annotations

from typing import Any

from pcli.codec.proto import pb
from pcli.replay.client.actions import Connect, Disconnect, Write
from pcli.replay.client.connection.client_connection import ClientConnection
from pcli.replay.client.connection.errors import ClientFailure

TOPIC = "persistent://public/default/t"


def test_a_connection_is_found_by_a_lookup_and_shared(network: Any) -> None:
    engine = network.engine()
    connections: list[Any] = []
    engine.connection_for(TOPIC, connections.append)
    engine.connection_for(TOPIC, connections.append)
    network.deliver_all()

    assert [one.name for one in network.sent_frames(from_client=True)] == ["CONNECT", "LOOKUP"]
    assert isinstance(connections[0], ClientConnection)
    assert connections[0] is connections[1]
    assert len(network.connects) == 1


def test_partitions(network: Any) -> None:
    engine = network.engine()
    found: list[Any] = []
    engine.partitions(TOPIC, found.append)
    assert network.wait_for(found) == 0


def test_timers_run_at_their_own_times_before_later_input(fake_broker: Any) -> None:
    end = fake_broker()
    engine, start = end.engine, end.now
    rang: list[int] = []
    for delay in (30, 10, 20):
        engine.call_at(start + delay, lambda: rang.append(engine.now - start))
    assert engine.deadline == start + 10
    engine.advance(start + 25)
    assert (rang, engine.now) == ([10, 20], start + 25)
    engine.advance(start)
    assert engine.now == start + 25
    engine.pool.connection_to(("a", 1), lambda connection: None)
    [connect] = engine.take()
    engine.connected(connect.connection, start + 40)
    assert rang == [10, 20, 30]


def test_a_timer_that_is_due_at_once_waits_for_the_next_turn(fake_broker: Any) -> None:
    engine = fake_broker().engine
    rang: list[int] = []
    engine.call_at(engine.now, lambda: rang.append(1))
    assert rang == []
    engine.advance(engine.now)
    assert rang == [1]


def test_the_output_of_a_turn_is_one_write_before_the_close(fake_broker: Any) -> None:
    end = fake_broker()
    end.engine.pool.connection_to(("a", 1), lambda connection: None)
    end.take_output()
    end.complete_handshake()
    [connection] = end.connections
    for number in range(3):
        connection.send(pb.CommandFlow(consumer_id=number, messagePermits=1))
    connection.close(ClientFailure("Closed", "enough"))
    write, shut = end.engine.take()
    assert isinstance(write, Write)
    assert isinstance(shut, Disconnect)
    assert end.engine.take() == []


def test_a_connection_opened_after_its_close_is_ignored(fake_broker: Any) -> None:
    engine = fake_broker().engine
    engine.pool.connection_to(("a", 1), lambda connection: None)
    [connect] = engine.take()
    assert isinstance(connect, Connect)
    connect.connection.close(ClientFailure("Closed", "too late"))
    engine.take()
    engine.connected(connect.connection, engine.now)
    engine.received(connect.connection, b"anything", engine.now)
    assert engine.take() == []


def test_numbers_count_by_kind(fake_broker: Any) -> None:
    engine = fake_broker().engine
    assert [engine.next_number(kind) for kind in ("consumer", "producer", "consumer")] == [0, 0, 1]
