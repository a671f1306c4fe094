"""Authentication and permissions of requests."""

from __future__ import annotations

import base64

import pytest

pytest.importorskip("jwt")

from pcli.minibroker.security.tokens import create_token

SECRET = "data:;base64," + "QUJD" * 12
NAMESPACE = "/admin/v2/namespaces/public/default"
TOPIC = "/admin/v2/persistent/public/default/t"
LOOKUP = "/lookup/v2/topic/persistent/public/default/t"


@pytest.fixture
def request_as(make_rest):
    """Return a function that sends a request with the token of a role, or without a token."""
    _, rest = make_rest(
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
    assert request_as("boss", "DELETE", "/admin/v2/tenants/t2").status == 401
    assert request_as("boss", "PUT", "/admin/v2/namespaces/public/n").status == 403


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
