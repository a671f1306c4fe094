"""Dapr's component and pulsaradmin, both in Go."""

from __future__ import annotations

import json

import pytest
from ecosystem.running import run

pulsar = pytest.importorskip("pulsar", exc_type=ImportError)


def test_dapr(traffic):
    """The subscriber rejects one order once, and receives it again after a second."""
    host = traffic.service_url.removeprefix("pulsar://")
    received = json.loads(run(traffic.go("dapr", host, "dapr-orders", "20")))
    assert received == {f"order-{n}": 1 for n in range(20)}
    assert traffic.findings() == {}


def test_pulsaradmin(traffic):
    topic = "persistent://public/default/pulsaradmin"
    client = pulsar.Client(traffic.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe(topic, "audit").close()
    producer = client.create_producer(topic)
    for payload in (b"one", b"two"):
        producer.send(payload)
    client.close()
    assert json.loads(run(traffic.go("admin", traffic.http_url, "pulsaradmin", topic))) == {
        "clusters": ["standalone"],
        "health": None,
        "tenant": ["standalone"],
        "ttl": 3600,
        "retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100},
        "bundles": 4,
        "namespaces": ["pulsaradmin/orders"],
        "partitions": 5,
        "subscriptions": ["audit"],
        "backlog": 2,
        "peeked": ["one", "two"],
        "skipped": 1,
        "reset": 2,
        "cleared": 0,
        "deleted": True,
    }
    assert traffic.findings() == {}
