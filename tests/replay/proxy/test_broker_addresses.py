"""Who is found behind which address of the proxy."""

from pcli.replay.service_url import ServiceUrl

B2 = ServiceUrl.parse("pulsar://b2:6650")


def test_the_listeners_broker_has_the_listeners_address(house):
    assert house.addresses.find("pulsar://b1:6650", "", house.current) is house.current
    assert house.addresses.url(house.current) == "pulsar://proxy:7000"
    assert not house.addresses.is_other_broker(house.current)


def test_another_broker_gets_one_port(house):
    broker = house.addresses.find("pulsar://b2:6650", "pulsar+ssl://b2:6651", house.current)
    assert broker == B2
    assert [house.addresses.url(broker) for _ in range(2)] == ["pulsar://proxy:7001"] * 2
    assert house.addresses.is_other_broker(broker)
    assert house.opened == ["pulsar://b2:6650"]


def test_the_url_for_the_brokers_protocol_is_used(make_house):
    house = make_house(to="pulsar+ssl://b1:6651")
    assert house.addresses.find("pulsar://b2:6650", "pulsar+ssl://b2:6651", house.current) == ServiceUrl.parse(
        "pulsar+ssl://b2:6651"
    )
    assert house.addresses.url(house.current) == "pulsar://proxy:7000"


def test_the_proxy_url_has_the_clients_protocol(make_house):
    house = make_house(tls=True)
    assert house.addresses.url(B2) == "pulsar+ssl://proxy:7001"


def test_loopback_addresses_are_equal(make_house):
    house = make_house(to="127.0.0.1:6650")
    for name in ("localhost:6650", "127.0.0.1:6650", "[::1]:6650", "127.0.0.2:6650"):
        assert house.addresses.find(f"pulsar://{name}", "", house.current) is house.current
    assert house.addresses.find("pulsar://localhost:6651", "", house.current) != house.current


def test_responses_without_a_valid_url_name_no_broker(house):
    for plain in ("", "pulsar://", "nonsense://b1:6650", "pulsar://b1:99999"):
        assert house.addresses.find(plain, "", house.current) is None


def test_the_proxy_connects_only_to_known_brokers(house):
    """Everything else goes on to the broker that it came for, which may know it."""
    house.addresses.url(B2)
    assert house.addresses.resolve("proxy:7001", house.current) == (B2, "")
    assert house.addresses.resolve("pulsar://proxy:7001", house.current) == (B2, "")
    assert house.addresses.resolve("proxy:7000", house.current) == (house.current, "")
    for name in ("b2:6650", "169.254.169.254:80", ""):
        assert house.addresses.resolve(name, house.current) == (house.current, name)


def test_a_loopback_address_with_the_proxy_flag_is_the_brokers_own(make_house):
    """Port 6650 inside of its container; 16650 out here."""
    house = make_house(to="dockerhost:16650")
    assert house.addresses.find("pulsar://localhost:6650", "", house.current, tunnel=True) is house.current
    assert house.addresses.resolve("proxy:7000", house.current) == (house.current, "localhost:6650")


def test_brokers_reached_through_a_pulsar_proxy_are_unchanged(house):
    assert house.addresses.find("pulsar://b2:6650", "", house.current, tunnel=True) is None
    assert house.addresses.resolve("b2:6650", house.current) == (house.current, "b2:6650")
    assert house.opened == []
