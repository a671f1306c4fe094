"""Every command and every REST endpoint, attempted without authentication, permission or a valid token."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import json
import re

import pytest

pytest.importorskip("jwt")

from pcli.codec.proto import pb
from pcli.codec.wire.commands import BY_NAME
from pcli.minibroker.admin import endpoint_table
from pcli.minibroker.admin.permission_checks import UNAUTHENTICATED
from pcli.minibroker.security.tokens import InvalidTokenError, TokenKey, create_token, key_bytes
from pcli.minibroker.settings import Settings
from tests.minibroker.admin.conftest import Rest
from tests.minibroker.conftest import START
from tests.minibroker.security import access_matrix as matrix
from tests.minibroker.security.conftest import OTHER_SECRET

NOW = START // 1000
BUNDLE = "/admin/v2/namespaces/{tenant}/{namespace}/{bundle}"
NOT_RECORDED = {
    ("GET", "/status.html"): "requires no authentication",
    ("POST", f"{BUNDLE}/clearSubscriptionBacklog/{{subscription}}"): "does not exist in 4.2.4",
}
"""Endpoints without a recorded request, and the reason."""


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def changed_signature(token):
    head, claims, signature = token.split(".")
    return f"{head}.{claims}.{('A' if signature[0] != 'A' else 'B')}{signature[1:]}"


def with_claims(token, claims):
    head, _, signature = token.split(".")
    return f"{head}.{part(claims)}.{signature}"


def with_header(**header):
    """Return a token of the superuser with a valid signature and other fields in the header."""
    head = f"{part({'alg': 'HS256', **header})}.{part({'sub': 'admin', 'aud': 'broker'})}"
    signature = hmac.digest(key_bytes(matrix.SECRET), head.encode(), "sha256")
    return f"{head}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def unsigned(algorithm):
    return f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part({'sub': 'admin', 'aud': 'broker'})}."


FORGED = {
    "nothing": "",
    "no token": "admin",
    "alg: none": unsigned("none"),
    "alg: None": unsigned("None"),
    "alg: HS256 without a signature": unsigned("HS256"),
    "unknown algorithm": unsigned("XX1"),
    "another key": create_token({"sub": "admin", "aud": "broker"}, secret=OTHER_SECRET),
    "changed signature": changed_signature(matrix.token("admin")),
    "changed role": with_claims(matrix.token("nobody"), {"sub": "admin", "aud": "broker"}),
    "wrong audience": matrix.token("admin", aud="other"),
    "no audience": create_token({"sub": "admin"}, secret=matrix.SECRET),
    "expired": matrix.token("admin", exp=NOW),
    "not valid yet": matrix.token("admin", nbf=NOW + 1),
    "expiry of another type": matrix.token("admin", exp="never"),
    "critical header": with_header(crit=["x"], x=1),
    "unencoded payload": with_header(crit=["b64"], b64=False),
    "another algorithm than the signature": with_header(alg="HS384"),
    "spaces": f" {matrix.token('admin')}",
    "no role": create_token({"aud": "broker"}, secret=matrix.SECRET),
}
"""Tokens that no broker may accept."""


@pytest.fixture
def secured_world(make_world):
    """Create a broker with the settings of the matrix; its tenant public has the administrator boss."""
    pairs = [f"{name}={value}" for name, value in matrix.SETTINGS.items()]
    settings = Settings.from_pairs(pairs)
    world = make_world(**{name: getattr(settings, name) for name in matrix.SETTINGS})
    rest = Rest(world)
    for method, path, body in matrix.GRANTS:
        headers = {"authorization": f"Bearer {matrix.token('admin')}"}
        assert rest(method, path, body, headers=headers).status == 204
    world.rest = rest
    return world


class MatrixClient:
    """A client of the matrix, with the events that it receives."""

    def __init__(self, world, fields=None):
        self._client = world.accept(version=21)
        if fields is not None:
            self._client.session.connect(**fields)
            self._client()

    @property
    def closed(self):
        return self._client.closed

    def send(self, body):
        self._client.session.post(body, matrix.entry_of(body))
        return self.flush()

    def flush(self):
        self._client.heard = []
        self._client.world.broker.receive(
            self._client.connection, self._client.session.output(), self._client.world.now
        )
        self._client.world.deliver()
        return self._client.heard

    def leave(self):
        self._client.leave()


@pytest.fixture
def open_client(secured_world):
    def open_client(client):
        return MatrixClient(secured_world, None if client is None else matrix.connect_fields(client))

    return open_client


def test_every_command_has_an_outcome_for_every_client():
    assert set(matrix.recorded()) == set(BY_NAME)
    assert {tuple(outcomes) for outcomes in matrix.recorded().values()} == {tuple(matrix.CLIENTS)}


def test_the_outcomes_of_commands_are_those_of_a_real_broker(open_client):
    admin = matrix.CLIENTS["admin"]
    matrix.prepare(open_client(admin).send)
    found = {
        name: matrix.attempt(name, open_client, lambda: matrix.new_transaction(open_client(admin).send))
        for name in BY_NAME
    }
    expected = matrix.recorded()
    wrong = [
        (name, client, expected[name][client], found[name][client])
        for name in BY_NAME
        for client in matrix.CLIENTS
        if found[name][client] != expected[name][client]
    ]
    assert wrong == []


@pytest.mark.parametrize("case", FORGED)
def test_no_command_is_processed_after_a_forged_token(secured_world, case):
    wrong = []
    for name in BY_NAME:
        client = MatrixClient(secured_world)
        client._client.session.connect(auth_method_name="token", auth_data=FORGED[case].encode())
        for body in matrix.conversation(name, lambda: {"txnid_most_bits": 0, "txnid_least_bits": 0}):
            client._client.session.post(body, matrix.entry_of(body))
        found = matrix.outcome(client.flush(), closed=client.closed)
        if found != "ERROR AuthenticationError + closed":
            wrong.append((name, found))
    assert wrong == []
    assert secured_world.broker.topics == {}


def test_ids_of_other_connections_have_no_effect(secured_world, open_client):
    owner = open_client(matrix.CLIENTS["admin"])
    matrix.prepare(owner.send)
    for body in matrix.conversation("FLOW", dict) + matrix.conversation("PRODUCER", dict):
        owner.send(body)
    for name in ("FLOW", "ACK", "SEEK", "UNSUBSCRIBE", "CLOSE_CONSUMER", "CLOSE_PRODUCER", "SEND", "CONSUMER_STATS"):
        other = open_client(matrix.CLIENTS["nobody"])
        other.send(matrix.conversation(name, dict)[-1])
    topic = secured_world.broker.topics[matrix.TOPIC]
    assert (len(topic.consumers), len(topic.producers), list(topic.subscriptions)) == (1, 1, ["work"])


def test_every_endpoint_has_a_recorded_request():
    missing = set(matrix.routes()) - set(matrix.recorded_requests())
    assert missing == set(NOT_RECORDED)


def test_no_endpoint_is_called_without_a_valid_token(secured_world, monkeypatch):
    called = []
    endpoints = [
        dataclasses.replace(one, function=lambda call: called.append(call)) for one in endpoint_table.ENDPOINTS
    ]
    monkeypatch.setattr(endpoint_table, "ENDPOINTS", tuple(endpoints))
    secured_world.rest.reload()
    wrong = []
    for number, (method, path) in enumerate(matrix.routes()):
        if path in UNAUTHENTICATED:
            continue
        case = list(FORGED)[number % len(FORGED)]
        for headers in ({}, {"authorization": f"Bearer {FORGED[case]}"}):
            answer = secured_world.rest(method, re.sub(r"\{(\w+)\}", "x", path), headers=headers)
            if answer.status != 401:
                wrong.append((method, path, case, answer.status))
    assert (wrong, called) == ([], [])


@pytest.mark.parametrize("header", [{"kid": "../../../dev/null"}, {"jku": "http://keys.example/"}, {"typ": "x"}])
def test_the_header_of_a_token_selects_no_key(secured_world, header):
    """A real 4.2.4 ignores these fields: the key is always the configured one."""
    client = secured_world.client(auth_method_name="token", auth_data=with_header(**header).encode())
    assert client.connection.role == "admin"
    forged = with_header(**header)[:-8] + "AAAAAAAA"
    headers = {"authorization": f"Bearer {forged}"}
    assert secured_world.rest("GET", "/admin/v2/clusters", headers=headers).status == 401


@pytest.mark.parametrize("case", FORGED)
def test_a_request_with_a_forged_token_is_refused(secured_world, case):
    headers = {"authorization": f"Bearer {FORGED[case]}"}
    assert secured_world.rest("GET", "/admin/v2/clusters", headers=headers).status == 401


def test_a_public_key_is_not_accepted_as_a_secret_key():
    """A token that is signed with HMAC and the text of the public key (CVE-2015-9235)."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    public = rsa.generate_private_key(65537, 2048).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    key = TokenKey(public="data:;base64," + base64.b64encode(pem).decode())
    # Signed without the library, which refuses to sign with such a key.
    head = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': 'admin'})}"
    signature = base64.urlsafe_b64encode(hmac.new(pem, head.encode(), hashlib.sha256).digest()).rstrip(b"=").decode()
    with pytest.raises(InvalidTokenError):
        key.claims(f"{head}.{signature}", START)


PRINCIPALS = [
    ({"role": "proxy", "original_principal": "nobody"}, "CONNECTED"),
    ({"role": "proxy", "original_principal": "nobody", "proxy_version": "1"}, "CONNECTED"),
    ({"role": "proxy"}, "ERROR AuthorizationError + closed"),
    ({"role": "proxy", "original_principal": "proxy"}, "ERROR AuthorizationError + closed"),
    ({"role": "proxy", "original_principal": "superproxy"}, "ERROR AuthorizationError + closed"),
    ({"role": "nobody", "original_principal": "nobody"}, "ERROR AuthorizationError + closed"),
    ({"role": "nobody", "original_principal": "admin"}, "ERROR AuthorizationError + closed"),
    ({"role": "nobody", "original_principal": "proxy"}, "ERROR AuthorizationError + closed"),
    ({"role": "admin", "original_principal": "nobody"}, "ERROR AuthorizationError + closed"),
    ({"role": "nobody", "proxy_version": "1"}, "ERROR AuthorizationError + closed"),
]
"""Principals that clients forward, with the outcome on a real 4.2.4."""


@pytest.mark.parametrize(("client", "expected"), PRINCIPALS)
def test_principals_are_forwarded_only_by_proxies(secured_world, client, expected):
    connecting = MatrixClient(secured_world)
    connecting._client.session.connect(**matrix.connect_fields(client))
    assert matrix.outcome(connecting.flush(), closed=connecting.closed) == expected


@pytest.mark.parametrize(
    ("role", "original", "status"),
    [
        ("proxy", "admin", 401),
        ("superproxy", "admin", 200),
        ("superproxy", "nobody", 401),
        ("superproxy", "superproxy", 401),
        ("superproxy", "", 401),
        ("nobody", "admin", 401),
        ("admin", "admin", 200),
    ],
)
def test_requests_of_superusers_through_a_proxy_require_that_both_are_superusers(secured_world, role, original, status):
    headers = {"authorization": f"Bearer {matrix.token(role)}", "x-original-principal": original}
    assert secured_world.rest("GET", "/admin/v2/tenants", headers=headers).status == status


def test_a_transaction_belongs_to_the_original_principal(open_client):
    matrix.prepare(open_client(matrix.CLIENTS["admin"]).send)
    alice = {"role": "proxy", "original_principal": "alice"}
    others = [
        ({"role": "proxy", "original_principal": "bob"}, "Client (bob) is neither the owner of the transaction "),
        ({"role": "superproxy", "original_principal": "nobody"}, "Client (nobody) is neither the owner "),
        ({"role": "superproxy", "original_principal": "admin"}, ""),
        ({"role": "alice"}, ""),
    ]
    for client, text in others:
        txn = matrix.new_transaction(open_client(alice).send)
        [event] = open_client(client).send(pb.CommandEndTxn(txn_action=pb.ABORT, request_id=9, **txn))
        assert event.body.HasField("error") == bool(text)
        assert event.body.message.startswith(text)


@pytest.mark.parametrize("challenged", [False, True])
def test_the_principal_of_a_connection_cannot_change(secured_world, challenged):
    fields = matrix.connect_fields({"role": "nobody"})
    fields["auth_data"] = matrix.token("nobody", **({"exp": NOW + 30} if challenged else {})).encode()
    client = secured_world.accept(version=21, features=("supports_auth_refresh",))
    client.session.connect(**fields)
    client()
    if challenged:
        secured_world.wait(20_000)
        client(pb.CommandPong())
        secured_world.wait(40_000)
    data = pb.AuthData(auth_method_name="token", auth_data=matrix.token("admin").encode())
    client(pb.CommandAuthResponse(client_version="test", protocol_version=21, response=data))
    assert client.closed
