"""The connections of an engine."""

from __future__ import annotations

from typing import Any

from pcli.replay.client.connection.connection_pool import ServiceHosts, address_of
from pcli.replay.client.connection.errors import ClientFailure


def test_concurrent_callers_share_one_new_connection(fake_broker: Any) -> None:
    end = fake_broker()
    connections: list[Any] = []
    for _ in range(2):
        end.engine.pool.connection_to(("a", 1), connections.append)
    assert end.sent_summary() == ["0 Connect"]
    end.complete_handshake()
    end.engine.pool.connection_to(("a", 1), connections.append)
    assert connections == end.connections * 3


def test_several_connections_to_a_broker(fake_broker: Any) -> None:
    end = fake_broker(connectionsPerBroker=2)
    for index in (0, 1, 0, 1):
        end.engine.pool.connection_to(("a", 1), lambda connection: None, index=index)
    assert end.sent_summary() == ["0 Connect", "1 Connect"]


def test_connections_are_not_shared_with_zero_per_broker(fake_broker: Any) -> None:
    end = fake_broker(connectionsPerBroker=0)
    for _ in range(2):
        end.engine.pool.connection_to(("a", 1), lambda connection: None)
    assert end.sent_summary() == ["0 Connect", "1 Connect"]


def test_through_a_proxy_each_broker_has_its_own_connection(fake_broker: Any) -> None:
    end = fake_broker()
    for broker in ("b1", "b2"):
        end.engine.pool.connection_to((broker, 6650), lambda connection: None, through=("a", 1))
    end.engine.pool.connection_to(("a", 1), lambda connection: None)
    targets = [body.proxy_to_broker_url for _, body in end.take_output()]
    assert targets == ["b1:6650", "b2:6650", ""]
    assert [connection.address for connection in end.connections] == [("a", 1)] * 3


def test_a_failed_connection_is_removed(fake_broker: Any) -> None:
    end = fake_broker()
    connections: list[Any] = []
    end.engine.pool.connection_to(("a", 1), connections.append)
    [connect] = end.engine.take()
    end.engine.disconnected(connect.connection, end.now, "connection refused")
    assert connections == [ClientFailure("Connect", "a:1: connection refused")]
    assert end.engine.pool.connections == []
    end.engine.pool.connection_to(("a", 1), connections.append)
    end.take_output()
    end.complete_handshake()
    assert connections[1:] == end.connections


def test_tls_follows_the_service_url(fake_broker: Any) -> None:
    end = fake_broker("pulsar+ssl://a:1")
    end.engine.pool.connection_to(("b", 2), lambda connection: None)
    end.take_output()
    assert end.tls == [True]


_HOSTS = (("a", 1), ("b", 2), ("c", 3))


def test_rotation_starts_at_a_random_host() -> None:
    assert [ServiceHosts(_HOSTS, lambda: 0.0).next()[0] for _ in range(1)] == ["b"]
    hosts = ServiceHosts(_HOSTS, lambda: 0.5)
    assert [hosts.next()[0] for _ in range(5)] == ["c", "a", "b", "c", "a"]


def test_the_address_of_a_service_url() -> None:
    assert address_of("pulsar://broker-1:6650") == ("broker-1", 6650)
    assert address_of("pulsar+ssl://[::1]:6651") == ("::1", 6651)
    assert isinstance(address_of(""), ClientFailure)
