"""Endpoints of the broker: its shutdown and the migration of its metadata store."""

from __future__ import annotations

from pcli.codec.proto import pb


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
