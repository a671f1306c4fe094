"""The same programs through a proxy. The results must be the same as without a proxy."""

import pytest

from pcli.minibroker import MiniBroker
from pcli.replay.proxy import Proxy

ALL = [f"message-{n}" for n in range(20)]


class ProxiedBroker:
    """The test's broker with the addresses of a proxy."""

    def __init__(self, broker, proxy):
        self._broker = broker
        self.proxy = proxy
        self.service_url, self.http_url = proxy.service_url, proxy.http_url

    def __getattr__(self, name):
        return getattr(self._broker, name)


@pytest.fixture
def pulsar_broker():
    with MiniBroker() as broker, Proxy(
        to=broker.service_url, http_listen=0, http_to=broker.http_url
    ) as proxy:  # fmt: skip
        yield ProxiedBroker(broker, proxy)
        assert proxy.failures == []


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "Key_Shared"])
def test_every_message_passes_the_proxy(play, pulsar_broker, kind):
    result = play("exchange", type=kind)["received"]
    assert sorted(one["data"] for one in result) == sorted(ALL)
    assert pulsar_broker.proxy.notes == []


@pytest.mark.parametrize("client", ["python", "java", "go"], indirect=True)
def test_lookup_over_http(play, pulsar_broker):
    """Clients without proxy settings also connect to the proxy; pulsar-flex has no such lookup."""
    result = play("exchange", over="http")["received"]
    assert sorted(one["data"] for one in result) == sorted(ALL)
    assert pulsar_broker.proxy.notes == []


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_no_message_is_lost_after_a_restart(play, pulsar_broker, rest, kind):
    pulsar_broker.create_topic("orders")
    rest("PUT", "persistent/public/default/orders/subscription/audit")
    result = play("reconnect", type=kind, interrupt=pulsar_broker.restart)
    assert list(dict.fromkeys(result["received"])) == ALL
    assert [payload.decode() for payload in pulsar_broker.topic("orders").payloads] == ALL
