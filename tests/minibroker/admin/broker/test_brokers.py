"""Endpoints of the broker: its settings, its shutdown and the migration of its metadata store."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from pcli.codec.proto import pb
from pcli.minibroker.settings import Settings
from pcli.minibroker.versions import NAMES

HERE = Path(__file__).parent
RUNTIME = {name: json.loads((HERE / f"runtime-{name}.json").read_text()) for name in NAMES}
DYNAMIC = json.loads((HERE / "dynamic.json").read_text())


def test_a_shutdown_disconnects_the_clients_and_closes_the_ports(world, rest):
    client = world.client()
    client.producer()
    closed = []
    world.broker.on_shutdown = lambda: closed.append("ports")
    assert rest("POST", "/admin/v2/brokers/shutdown").status == 204
    world.deliver()
    assert [type(body) for body in client.hear()] == [pb.CommandCloseProducer]
    assert client.closed
    assert closed == ["ports"]


def test_the_metadata_store_cannot_be_migrated(rest):
    base = "/admin/v2/metadata/migration"
    assert rest("GET", f"{base}/status").json == {"phase": "NOT_STARTED"}
    assert rest("POST", f"{base}/start").json == {"reason": "Target URL is required"}
    answer = rest("POST", f"{base}/start?target=x")
    assert answer.status == 400
    assert answer.json["reason"].startswith("Metadata store is not configured for migration.")


@pytest.mark.parametrize("version", NAMES)
def test_the_version(make_rest, version):
    _, rest = make_rest(version=version)
    assert rest("GET", "/admin/v2/brokers/version").data == version.encode()
    assert f'pulsar_version_info{{cluster="standalone",version="{version}"' in rest("GET", "/metrics").data.decode()


@pytest.mark.parametrize("version", NAMES)
def test_the_runtime_configuration_of_a_real_broker(make_rest, version):
    """All fields with the values of a real standalone; ports and addresses are those of this test."""
    _, rest = make_rest(version=version)
    assert rest("GET", "/admin/v2/brokers/configuration/runtime").json == RUNTIME[version]
    assert sorted(rest("GET", "/admin/v2/brokers/configuration").json) == DYNAMIC[version]


def test_a_setting_is_reset_to_the_default_of_the_version(make_rest):
    world, rest = make_rest(version="5.0.1")
    path = "/admin/v2/brokers/configuration/dispatcherMaxReadBatchSize"
    assert rest("POST", f"{path}/7").status == 200
    assert world.broker.settings.dispatcherMaxReadBatchSize == 7
    assert rest("DELETE", path).status == 200
    assert world.broker.settings.dispatcherMaxReadBatchSize == 500


def test_given_values_in_the_runtime_configuration(make_rest):
    """Values that were set, also at runtime, of settings with and without effect."""
    pairs = ["zookeeperServers=z", "superUserRoles=b, a", "brokerInterceptors=x,y", "tlsKeyStorePassword=s"]
    settings = Settings.from_pairs([*pairs, "loadBalancerEnabled=TRUE", "numIOThreads=many"])
    _, rest = make_rest(
        **{field.name: getattr(settings, field.name) for field in fields(settings) if field.name != "version"}
    )
    path = "/admin/v2/brokers/configuration"
    for name, value in {
        "loadBalancerSheddingEnabled": "foo",
        "loadBalancerSheddingExcludedNamespaces": "x,a",
        "loadBalancerSheddingIntervalMinutes": "x",
        "managedLedgerCacheEvictionWatermark": "0.1",
        "allowAutoTopicCreation": "foo",
        "maxTenants": "5",
    }.items():
        assert rest("POST", f"{path}/{name}/{value}").status == 200
    found = rest("GET", f"{path}/runtime").json
    assert {name: found[name] for name in sorted(found) if found[name] != RUNTIME["4.2.4"][name]} == {
        "allowAutoTopicCreation": "false",
        "brokerInterceptors": "[x, y]",
        "loadBalancerEnabled": "true",
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerSheddingExcludedNamespaces": "[x, a]",
        "managedLedgerCacheEvictionWatermark": "0.1",
        "maxTenants": "5",
        "superUserRoles": "[b, a]",
        "zookeeperServers": "z",
    }
