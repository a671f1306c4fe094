"""Lookup of topics over HTTP, with the REST API of the mini-broker, which behaves like that of a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pcli.codec.proto import pb
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.service_url import Security

TOPIC = "persistent://public/default/a b"


def _asked(ready_broker: Any, begin: Any) -> tuple[list[Any], Any]:
    """Return the result of a lookup and the HTTP request that it makes."""
    results: list[Any] = []
    begin(results.append)
    ready_broker.take_output()
    return results, ready_broker.fetches[-1]


def _tell(ready_broker: Any, fetch: Any, status: int, response: Any) -> None:
    body = response if isinstance(response, bytes) else json.dumps(response).encode()
    ready_broker.engine.fetched(fetch, status, body, ready_broker.now)


def test_the_owner(fake_broker: Any) -> None:
    ready_broker = fake_broker("http://a:8080")
    found, fetch = _asked(ready_broker, lambda done: ready_broker.engine.lookup.broker_of(TOPIC, done))
    assert fetch.url == "http://a:8080/lookup/v2/topic/persistent/public/default/a%20b"
    _tell(ready_broker, fetch, 200, {"brokerUrl": "pulsar://b:2", "brokerUrlTls": "pulsar+ssl://b:3"})
    assert found[0].broker == ("b", 2)


def test_with_tls_and_a_listener(fake_broker: Any) -> None:
    ready_broker = fake_broker("https://a", listenerName="outside")
    found, fetch = _asked(ready_broker, lambda done: ready_broker.engine.lookup.broker_of(TOPIC, done))
    assert fetch.url == "https://a:443/lookup/v2/topic/persistent/public/default/a%20b?listenerName=outside"
    _tell(ready_broker, fetch, 200, {"brokerUrl": "pulsar://b:2", "brokerUrlTls": "pulsar+ssl://b:3"})
    assert found[0].broker == ("b", 3)


def test_the_partition_request_has_the_creation_flag(fake_broker: Any) -> None:
    ready_broker = fake_broker("http://a:8080")
    counts, fetch = _asked(ready_broker, lambda done: ready_broker.engine.partitions(TOPIC, done, create=False))
    assert fetch.url.endswith("/admin/v2/persistent/public/default/a%20b/partitions?checkAllowAutoCreation=false")
    _tell(ready_broker, fetch, 200, {"partitions": 3})
    assert counts == [3]


def test_topics_of_a_namespace(fake_broker: Any) -> None:
    ready_broker = fake_broker("http://a:8080")
    mode = pb.CommandGetTopicsOfNamespace.ALL
    found, fetch = _asked(
        ready_broker, lambda done: ready_broker.engine.topics_of("public/default", mode, "x.*", "", done)
    )
    assert fetch.url == "http://a:8080/admin/v2/namespaces/public/default/topics?mode=ALL"
    _tell(ready_broker, fetch, 200, [TOPIC])
    assert (list(found[0].topics), found[0].filtered) == ([TOPIC], False)


def test_a_schema(fake_broker: Any) -> None:
    ready_broker = fake_broker("http://a:8080")
    found, fetch = _asked(ready_broker, lambda done: ready_broker.engine.schema(TOPIC, bytes(7) + b"\x02", done))
    assert fetch.url == "http://a:8080/admin/v2/schemas/public/default/a%20b/schema/2"
    _tell(ready_broker, fetch, 200, {"version": 2, "type": "AVRO", "data": "{}", "properties": {"a": "b"}})
    assert found[0].schema.type == pb.Schema.Avro
    assert found[0].schema_version == bytes(7) + b"\x02"

    found, fetch = _asked(ready_broker, lambda done: ready_broker.engine.schema(TOPIC, b"", done))
    _tell(ready_broker, fetch, 404, b"")
    assert found == [ClientFailure("TopicNotFound", "the topic has no schema")]


def test_a_token_is_sent_as_bearer(fake_broker: Any) -> None:
    ready_broker = fake_broker("http://a:8080", security=Security(token="secret"))
    _, fetch = _asked(ready_broker, lambda done: ready_broker.engine.lookup.broker_of(TOPIC, done))
    assert fetch.headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("status", "response", "failure"),
    [
        (401, b"<html>", ClientFailure("AuthenticationError", "http://a:8080 responded with status 401: <html>")),
        (
            404,
            {"reason": "Topic not\nfound"},
            ClientFailure("NotFound", "http://a:8080 responded with status 404: Topic not found"),
        ),
        (200, b"<html>", ClientFailure("UnknownError", "http://a:8080 sent an invalid response")),
        (200, b"[" * 100_000, ClientFailure("UnknownError", "http://a:8080 sent an invalid response")),
        (0, b"connection refused", ClientFailure("Connect", "http://a:8080: connection refused")),
    ],
)
def test_http_failures(fake_broker: Any, status: int, response: Any, failure: ClientFailure) -> None:
    ready_broker = fake_broker("http://a:8080")
    found, fetch = _asked(ready_broker, lambda done: ready_broker.engine.lookup.broker_of(TOPIC, done))
    _tell(ready_broker, fetch, status, response)
    assert found == [failure]
