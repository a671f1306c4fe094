"""Authentication and permissions of requests."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path

import pytest

pytest.importorskip("jwt")

from pcli.codec.proto import pb
from pcli.minibroker.admin import endpoint_table
from pcli.minibroker.security.tokens import create_token

SECRET = "data:;base64," + "QUJD" * 12
NAMESPACE = "/admin/v2/namespaces/public/default"
TOPIC = "/admin/v2/persistent/public/default/t"
LOOKUP = "/lookup/v2/topic/persistent/public/default/t"
ROLES = Path(__file__).with_name("answers-of-roles.jsonl")
GRANTS = [
    ("PUT", "/admin/v2/tenants/t1", {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}),
    ("PUT", "/admin/v2/namespaces/t1/n1", None),
    ("PUT", "/admin/v2/persistent/t1/n1/t", None),
    ("POST", "/admin/v2/namespaces/t1/n1/permissions/prod", ["produce"]),
    ("POST", "/admin/v2/namespaces/t1/n1/permissions/cons", ["consume"]),
    ("POST", "/admin/v2/namespaces/t1/n1/permissions/pack", ["packages"]),
    ("POST", "/admin/v2/namespaces/t1/n1/permissions/func", ["functions", "sources", "sinks"]),
    ("POST", "/admin/v2/persistent/t1/n1/t/permissions/tcons", ["consume"]),
    ("POST", "/admin/v2/namespaces/t1/n1/permissions/subscription/s", ["other"]),
]
"""The permissions of the recorded roles: boss is the tenant's administrator, and nobody has no permission."""


@pytest.fixture
def request_as(make_rest):
    """Return a function that sends a request with the token of a role, or without a token."""
    world, rest = make_rest(
        authenticationEnabled=True,
        authenticationProviders=["AuthenticationProviderToken"],
        tokenSecretKey=SECRET,
        authorizationEnabled=True,
        superUserRoles=["admin"],
    )

    def send(role, method, target, body=None):
        headers = {}
        if role is not None:
            headers["authorization"] = f"Bearer {create_token({'sub': role}, secret=SECRET)}"
        return rest(method, target, body, headers=headers)

    send("admin", "PUT", TOPIC)
    send.world, send.reload = world, rest.reload
    return send


@pytest.mark.parametrize("authorization", [None, "Bearer x", "Basic !", "Basic " + base64.b64encode(b"a:b").decode()])
def test_a_request_without_a_valid_token_is_refused(make_rest, authorization):
    _, rest = make_rest(
        authenticationEnabled=True, authenticationProviders=["AuthenticationProviderToken"], tokenSecretKey=SECRET
    )
    headers = {} if authorization is None else {"authorization": authorization}
    answer = rest("GET", "/admin/v2/clusters", headers=headers)
    assert (answer.status, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")


def test_a_superuser_may_send_every_request(request_as):
    assert request_as("admin", "GET", TOPIC + "/stats").status == 200
    assert request_as("admin", "PUT", "/admin/v2/tenants/t2", {"allowedClusters": ["standalone"]}).status == 204


def test_a_role_without_permissions_may_only_send_public_requests(request_as):
    assert request_as("alice", "GET", "/admin/v2/brokers/version").status == 200
    refused = [("GET", TOPIC + "/stats"), ("GET", NAMESPACE), ("GET", "/admin/v2/tenants"), ("GET", LOOKUP)]
    assert [request_as("alice", *request).status for request in refused] == [401, 403, 401, 401]


def test_metrics_require_no_authentication_and_secrets_are_not_listed(request_as):
    assert request_as(None, "GET", "/metrics").status == 200
    assert "tokenSecretKey" not in request_as("admin", "GET", "/admin/v2/brokers/configuration/runtime").json


def test_a_role_needs_a_permission_to_get_a_schema(request_as):
    schema = "/admin/v2/schemas/public/default/t/schema"
    assert request_as("alice", "GET", schema).status == 401
    request_as("admin", "POST", NAMESPACE + "/permissions/alice", ["consume"])
    assert request_as("alice", "GET", schema).status == 404


def test_an_administrator_of_the_tenant_may_manage_its_namespaces(request_as):
    request_as("admin", "PUT", "/admin/v2/tenants/t2", {"adminRoles": ["boss"], "allowedClusters": ["standalone"]})
    assert request_as("boss", "PUT", "/admin/v2/namespaces/t2/n").status == 204
    assert request_as("boss", "DELETE", "/admin/v2/tenants/t2").status == 409
    assert request_as("boss", "PUT", "/admin/v2/tenants/t3", {"allowedClusters": ["standalone"]}).status == 401
    assert request_as("boss", "PUT", "/admin/v2/namespaces/public/n").status == 401


def test_permissions_of_a_topic_permit_lookups(request_as):
    assert request_as("admin", "POST", TOPIC + "/permissions/alice", ["consume"]).status == 204
    assert request_as("alice", "GET", LOOKUP).status == 200
    assert request_as("alice", "GET", TOPIC + "/partitions").json == {"partitions": 0, "deleted": False}
    assert request_as("admin", "GET", TOPIC + "/permissions").json == {"alice": ["consume"]}
    assert request_as("admin", "DELETE", TOPIC + "/permissions/alice").status == 204
    assert request_as("alice", "GET", LOOKUP).status == 401


def test_subscriptions_are_restricted_to_roles(request_as):
    path = NAMESPACE + "/permissions"
    assert request_as("admin", "POST", path + "/subscription/work", ["alice", "bob"]).status == 204
    assert request_as("admin", "DELETE", path + "/work/bob").status == 204
    assert request_as("admin", "GET", path + "/subscription").json == {"work": ["alice"]}
    assert request_as("admin", "DELETE", path + "/work/alice").status == 204
    assert request_as("admin", "GET", path + "/subscription").json == {}


def test_requests_are_refused_as_on_a_real_broker(request_as, monkeypatch):
    """Each recorded request with each role: the status and text if a real 4.2.4 refuses it."""
    for grant in GRANTS:
        assert request_as("admin", *grant).status == 204
    harmless = [dataclasses.replace(one, function=lambda _: None) for one in endpoint_table.ENDPOINTS]
    monkeypatch.setattr(endpoint_table, "ENDPOINTS", tuple(harmless))
    request_as.reload()
    wrong, compared = [], 0
    for line in ROLES.read_text().splitlines():
        recorded = json.loads(line)
        method, path, body = recorded["method"], recorded["path"], recorded.get("body", "").encode()
        refusals = {role: text for text, roles in recorded["refused"].items() for role in roles}
        for role in recorded["roles"]:
            answer = request_as(role, method, path, body)
            expected, found = refusals.get(role, ""), ""
            if answer.status in (401, 403) or refusals.get(role, "").startswith("404"):
                found = f"{answer.status} {answer.json['reason']}".replace(f"[{role}]", "[ROLE]")
                found = found.replace(f"Role {role} ", "Role ROLE ")
            compared += 1
            if found != expected:
                wrong.append((role, method, path, expected, found or answer.status))
    assert wrong == []
    assert compared > 2000


CLOSED = {
    "permissions": ("DELETE", NAMESPACE + "/permissions/alice", None, ["consumer 1", "consumer 2", "producer"]),
    "consume": ("POST", NAMESPACE + "/permissions/alice", ["produce"], ["consumer 1", "consumer 2"]),
    "produce": ("POST", NAMESPACE + "/permissions/alice", ["consume"], ["producer"]),
    "one subscription": ("POST", NAMESPACE + "/permissions/subscription/work", ["bob"], ["consumer 1"]),
    "prefix": ("POST", NAMESPACE + "/subscriptionAuthMode", "Prefix", ["consumer 1", "consumer 2"]),
    "nothing": ("POST", NAMESPACE + "/messageTTL", 100, []),
}
"""Requests and the clients that a real 4.2.4 then closes, in this order."""


def closed(client):
    """Return the closed producers and consumers, in order."""
    found = []
    for body in client.hear():
        if isinstance(body, pb.CommandCloseConsumer):
            found.append(f"consumer {body.consumer_id}")
        elif isinstance(body, pb.CommandCloseProducer):
            found.append("producer")
    return found


@pytest.fixture
def connect_as(request_as):
    """Return a function that connects a role with a producer and consumers of the subscriptions work and more."""

    def connect(role, topic="t"):
        request_as("admin", "GET", f"/lookup/v2/topic/{topic.replace('://', '/')}" if ":" in topic else LOOKUP)
        token = create_token({"sub": role}, secret=SECRET).encode()
        client = request_as.world.client(auth_method_name="token", auth_data=token)
        client.producer(topic)
        client.subscribe(topic, 1, subscription="work", subType=1)
        client.subscribe(topic, 2, subscription="more", subType=1)
        client.hear()
        return client

    return connect


@pytest.mark.parametrize("case", CLOSED)
def test_clients_that_lose_their_permission_are_closed(request_as, connect_as, case):
    method, path, body, expected = CLOSED[case]
    request_as("admin", "POST", NAMESPACE + "/permissions/alice", ["produce", "consume"])
    client = connect_as("alice")
    assert request_as("admin", method, path, body).status == 204
    assert closed(client) == expected


def test_producers_of_a_non_persistent_topic_are_closed_first(request_as, connect_as):
    request_as("admin", "POST", NAMESPACE + "/permissions/alice", ["produce", "consume"])
    client = connect_as("alice", "non-persistent://public/default/t")
    request_as("admin", "DELETE", NAMESPACE + "/permissions/alice")
    assert closed(client) == ["producer", "consumer 1", "consumer 2"]


def test_permissions_of_the_topic_are_sufficient_until_they_are_revoked(request_as, connect_as):
    request_as("admin", "POST", NAMESPACE + "/permissions/alice", ["produce", "consume"])
    request_as("admin", "POST", TOPIC + "/permissions/alice", ["consume"])
    client = connect_as("alice")
    request_as("admin", "DELETE", NAMESPACE + "/permissions/alice")
    assert closed(client) == ["producer"]
    request_as("admin", "DELETE", TOPIC + "/permissions/alice")
    assert closed(client) == ["consumer 1", "consumer 2"]


@pytest.mark.parametrize("policy", [NAMESPACE + "/messageTTL", TOPIC + "/maxProducers"])
def test_a_former_administrator_keeps_its_clients_until_a_policy_changes(request_as, connect_as, policy):
    tenant, clusters = "/admin/v2/tenants/public", {"allowedClusters": ["standalone"]}
    request_as("admin", "POST", tenant, {"adminRoles": ["boss"], **clusters})
    client = connect_as("boss")
    request_as("admin", "POST", tenant, {"adminRoles": [], **clusters})
    assert closed(client) == []
    request_as("admin", "POST", policy, 100)
    assert closed(client) == ["consumer 1", "consumer 2", "producer"]
