"""The broker behind each address of the proxy."""

from pcli.replay.service_url import ServiceUrl

B2 = ServiceUrl.parse("pulsar://b2:6650")


def test_the_listeners_broker_has_the_listeners_address(proxy_addresses):
    assert proxy_addresses.addresses.find("pulsar://b1:6650", "", proxy_addresses.current) is proxy_addresses.current
    assert proxy_addresses.addresses.url(proxy_addresses.current) == "pulsar://proxy:7000"
    assert not proxy_addresses.addresses.is_other_broker(proxy_addresses.current)


def test_another_broker_gets_one_port(proxy_addresses):
    broker = proxy_addresses.addresses.find("pulsar://b2:6650", "pulsar+ssl://b2:6651", proxy_addresses.current)
    assert broker == B2
    assert [proxy_addresses.addresses.url(broker) for _ in range(2)] == ["pulsar://proxy:7001"] * 2
    assert proxy_addresses.addresses.is_other_broker(broker)
    assert proxy_addresses.opened == ["pulsar://b2:6650"]


def test_the_url_for_the_brokers_protocol_is_used(make_proxy_addresses):
    proxy_addresses = make_proxy_addresses(to="pulsar+ssl://b1:6651")
    assert proxy_addresses.addresses.find(
        "pulsar://b2:6650", "pulsar+ssl://b2:6651", proxy_addresses.current
    ) == ServiceUrl.parse("pulsar+ssl://b2:6651")
    assert proxy_addresses.addresses.url(proxy_addresses.current) == "pulsar://proxy:7000"


def test_the_proxy_url_has_the_clients_protocol(make_proxy_addresses):
    proxy_addresses = make_proxy_addresses(tls=True)
    assert proxy_addresses.addresses.url(B2) == "pulsar+ssl://proxy:7001"


def test_loopback_addresses_are_equal(make_proxy_addresses):
    proxy_addresses = make_proxy_addresses(to="127.0.0.1:6650")
    for name in ("localhost:6650", "127.0.0.1:6650", "[::1]:6650", "127.0.0.2:6650"):
        assert (
            proxy_addresses.addresses.find(f"pulsar://{name}", "", proxy_addresses.current) is proxy_addresses.current
        )
    assert (
        proxy_addresses.addresses.find("pulsar://localhost:6651", "", proxy_addresses.current)
        != proxy_addresses.current
    )


def test_responses_without_a_valid_url_name_no_broker(proxy_addresses):
    for plain in ("", "pulsar://", "nonsense://b1:6650", "pulsar://b1:99999"):
        assert proxy_addresses.addresses.find(plain, "", proxy_addresses.current) is None


def test_the_proxy_connects_only_to_known_brokers(proxy_addresses):
    """Other names are forwarded to the broker of the listener, which may own them."""
    proxy_addresses.addresses.url(B2)
    assert proxy_addresses.addresses.resolve("proxy:7001", proxy_addresses.current) == (B2, "")
    assert proxy_addresses.addresses.resolve("pulsar://proxy:7001", proxy_addresses.current) == (B2, "")
    assert proxy_addresses.addresses.resolve("proxy:7000", proxy_addresses.current) == (proxy_addresses.current, "")
    for name in ("b2:6650", "169.254.169.254:80", ""):
        assert proxy_addresses.addresses.resolve(name, proxy_addresses.current) == (proxy_addresses.current, name)


def test_a_loopback_address_with_the_proxy_flag_is_the_brokers_own(make_proxy_addresses):
    """The broker has port 6650 in its container and 16650 outside."""
    proxy_addresses = make_proxy_addresses(to="dockerhost:16650")
    assert (
        proxy_addresses.addresses.find("pulsar://localhost:6650", "", proxy_addresses.current, tunnel=True)
        is proxy_addresses.current
    )
    assert proxy_addresses.addresses.resolve("proxy:7000", proxy_addresses.current) == (
        proxy_addresses.current,
        "localhost:6650",
    )


def test_brokers_reached_through_a_pulsar_proxy_are_unchanged(proxy_addresses):
    assert proxy_addresses.addresses.find("pulsar://b2:6650", "", proxy_addresses.current, tunnel=True) is None
    assert proxy_addresses.addresses.resolve("b2:6650", proxy_addresses.current) == (proxy_addresses.current, "b2:6650")
    assert proxy_addresses.opened == []
