"""Parsing of sizes, times, hosts and ports."""

import pytest

from pcli.codec.errors import LocalError
from pcli.minibroker.embedded.argument_parsing import check_exposure, host_of, port_of, seconds_of, size_of
from pcli.minibroker.settings import Settings


@pytest.mark.parametrize(
    ("text", "size"), [("512", 512), (2048, 2048), ("2K", 2048), ("3 mb", 3 << 20), ("1GiB", 1 << 30)]
)
def test_sizes(text, size):
    assert size_of("max_backlog", text) == size


@pytest.mark.parametrize("text", ["much", "", "-1", -1, 0, "0M", "1.5G", "2T"])
def test_invalid_sizes(text):
    with pytest.raises(LocalError, match="must be a size"):
        size_of("max_backlog", text)


@pytest.mark.parametrize(("text", "seconds"), [("3ms", 0.003), ("250us", 0.00025), ("1.5s", 1.5)])
def test_times(text, seconds):
    assert seconds_of("latency", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "3", "3 ms", "-1ms", "1m"])
def test_invalid_times(text):
    with pytest.raises(LocalError, match="must be a time"):
        seconds_of("latency", text)


@pytest.mark.parametrize("host", ["", "localhost", "10.0.0.1", "::1", "fe80::1"])
def test_hosts(host):
    assert host_of("bind", host) == host


@pytest.mark.parametrize("host", ["a b", "host:6650", "http://host"])
def test_invalid_hosts(host):
    with pytest.raises(LocalError, match="a host without a port"):
        host_of("advertised_address", host)


@pytest.mark.parametrize("port", [-1, 65536, 70000])
def test_invalid_ports(port):
    assert port_of("port", 65535) == 65535
    with pytest.raises(LocalError, match="0 to 65535"):
        port_of("port", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_addresses_need_no_authentication(host):
    check_exposure(Settings(bindAddress=host))


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.168.1.5", "build-host"])
def test_other_addresses_need_authentication(host):
    check_exposure(Settings(bindAddress=host, authenticationEnabled=True))
    anonymous = {"authenticationEnabled": True, "anonymousUserRole": "guest"}
    for settings in ({}, anonymous, {**anonymous, "authorizationEnabled": True, "superUserRoles": ["guest"]}):
        with pytest.raises(LocalError, match=r"clients need no credentials; enable authentication .* --insecure"):
            check_exposure(Settings(bindAddress=host, **settings))
