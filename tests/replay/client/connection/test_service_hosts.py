"""The hosts of a service URL."""

from __future__ import annotations

from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.connection.service_hosts import ServiceHosts, address_of

_HOSTS = (("a", 1), ("b", 2), ("c", 3))


def test_rotation_starts_at_a_random_host() -> None:
    assert [ServiceHosts(_HOSTS, lambda: 0.0).next()[0] for _ in range(1)] == ["b"]
    hosts = ServiceHosts(_HOSTS, lambda: 0.5)
    assert [hosts.next()[0] for _ in range(5)] == ["c", "a", "b", "c", "a"]


def test_the_address_of_a_service_url() -> None:
    assert address_of("pulsar://broker-1:6650") == ("broker-1", 6650)
    assert address_of("pulsar+ssl://[::1]:6651") == ("::1", 6651)
    assert isinstance(address_of(""), ClientFailure)
