"""Connections are added, replaced and evicted."""

from __future__ import annotations

from pcli.codec.observe.tracking.connections import connection_table


def test_reused_ports(wire):
    wire.hello()
    wire.open(1, client=("10.0.0.1", 40_000))
    wire.hello(on=1)
    assert wire.ends == [(0, "silence", 2_000_000, 2)]
    assert wire.connection(1).end == ""


def test_the_last_ended_connections_are_kept(wire, monkeypatch):
    monkeypatch.setattr(connection_table, "MAX_ENDED", 1)
    for number in range(3):
        wire.hello(on=number)
    for number in (1, 0, 2):
        wire.end(on=number)
    gone = [(one.stream, one.end, one.doubts) for group, one in wire.done if group == "connection"]
    assert gone == [(1, "fin_client", set()), (0, "fin_client", set())]
    assert wire.capture.evicted == {}


def test_ended_connections_are_evicted_first(wire, monkeypatch):
    monkeypatch.setattr(connection_table, "MAX_CONNECTIONS", 3)
    for number in range(3):
        wire.hello(on=number)
    wire.end(on=1)
    wire.hello(on=3)
    wire.hello(on=4)
    gone = [(one.stream, one.end, one.doubts) for group, one in wire.done if group == "connection"]
    assert gone == [(1, "fin_client", set()), (0, "silence", {"evicted"})]
    assert [one.type for group, one in wire.done if group == "exchange"] == ["CONNECT", "CONNECT"]
    assert wire.capture.evicted == {"connection": 2}
    assert wire.ends[-1] == (0, "silence", 2_000_000, 2)


def test_the_longest_inactive_connection_is_evicted(wire, monkeypatch):
    monkeypatch.setattr(connection_table, "MAX_CONNECTIONS", 2)
    for on in (0, 1, 0, 2):
        wire.hello(on=on)
    assert [one.stream for group, one in wire.done if group == "connection"] == [1]


def test_an_evicted_connection_that_returns_has_a_doubt(wire, say, monkeypatch):
    monkeypatch.setattr(connection_table, "MAX_CONNECTIONS", 1)
    wire.hello(on=0)
    wire.hello(on=1)
    wire.client(say("LookupTopic"), on=0)
    assert wire.connections.doubts_of(0) == {"evicted"}
