"""The table of connections: numbers, limits, timers."""

from __future__ import annotations

import pytest

from pcli.codec.capture import connections
from pcli.codec.capture.connections import NEVER, Table
from pcli.codec.capture.ip import Inner
from pcli.codec.capture.stream_kind import StreamClassifier
from pcli.codec.capture.tunnels import ACK, SYN, Segment


def segment(ports: bytes, flags: int = SYN) -> Segment:
    return Segment(b"\x0a\0\0\x01\x0a\0\0\x02" + ports, 1, 0, flags, Inner(b"", 6, b"", 0, 0, 0), 0)


@pytest.fixture
def table():
    return Table()


def made(table, number=0, flags=SYN):
    return table.create(
        segment((20_000 + number).to_bytes(2, "big") + b"\x19\xfa", flags), number, 100, StreamClassifier({})
    )


def test_both_directions_are_found(table):
    direction = made(table)
    there = b"\x0a\0\0\x01\x0a\0\0\x02" + (20_000).to_bytes(2, "big") + (6650).to_bytes(2, "big")
    back = b"\x0a\0\0\x02\x0a\0\0\x01" + (6650).to_bytes(2, "big") + (20_000).to_bytes(2, "big")
    assert table.directions == {there: direction, back: direction.peer}
    assert direction.stream.client == ("10.0.0.1", 20_000)


@pytest.mark.parametrize(("flags", "client"), [(SYN, True), (SYN | ACK, False), (ACK, True)])
def test_the_client_is_inferred_from_syn_and_ports(table, flags, client):
    direction = made(table, flags=flags)
    assert direction.from_client is client
    assert direction.peer.from_client is not client
    assert direction.stream.midstream is not bool(flags & SYN)


def test_removing_a_connection_keeps_its_successor(table):
    old, new = made(table), made(table)
    table.forget(old.connection)
    assert new in table.directions.values()
    assert new.stream.number == 1
    table.forget(new.connection)
    assert table.directions == {}


def test_timers_run_in_order_and_an_earlier_one_is_kept(table):
    one, two = made(table, 1).connection, made(table, 2).connection
    table.set_timer(one, 50, 0)
    table.set_timer(one, 70, 0)
    table.set_timer(two, 60, 0)
    table.set_timer(two, 40, 0)
    assert table.timer == 40
    assert list(table.due(39)) == []
    assert list(table.due(55)) == [two, one]
    assert list(table.due(1000)) == []
    assert table.timer == NEVER


def test_no_timer_is_due_at_the_packet_that_is_read(table):
    connection = made(table).connection
    table.set_timer(connection, 50, 60)
    assert list(table.due(60)) == []
    assert list(table.due(61)) == [connection]


def test_eviction_order(table, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    directions = [made(table, number) for number in range(8)]
    for number, direction in enumerate(directions):
        direction.connection.last = 100 - number
    directions[7].stream.kind = directions[6].stream.kind = "pulsar"
    assert table.surplus() == [directions[5].connection, directions[4].connection]


def test_closed_connections_are_kept_for_late_packets(table, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CLOSED", 3)
    for number in range(10):
        table.retire(made(table, number).connection)
    assert [connection.stream.number for connection in table.living] == [7, 8, 9]


def test_a_flood_of_closed_connections_evicts_no_open_one(w, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 64)
    tape = w.Tape().hello().send(0, w.connect)
    for port in range(1000, 1500):
        tape.send(-1, flags=w.SYN, client_port=port)
    frames, notes = w.read(tape.send(len(w.connect), w.send(1)))
    assert [(frame.data, frame.stream.number, frame.sync) for frame in frames] == [
        (w.connect, 0, "start"),
        (w.send(1), 0, "start"),
    ]
    assert notes == []
