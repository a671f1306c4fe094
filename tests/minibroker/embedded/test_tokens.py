"""MiniBroker(tokens=…) with the official Python client."""

import re
import socket

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.minibroker import MiniBroker

pytest.importorskip("jwt")

from pcli.minibroker.security.tokens import create_token


def test_clients_need_tokens_and_permissions():
    pulsar = pytest.importorskip("pulsar", exc_type=ImportError)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    roles = {"admin": "superuser", "alice": ["produce", "consume"], "bob": ["consume"]}
    with MiniBroker(tokens=roles) as broker:

        def client(token):
            authentication = pulsar.AuthenticationToken(token)
            return pulsar.Client(broker.service_url, authentication=authentication, logger=quiet)

        alice, bob = client(broker.tokens["alice"]), client(broker.tokens["bob"])
        consumer = bob.subscribe("orders", "work")
        alice.create_producer("orders").send(b"hello")
        assert consumer.receive(10_000).data() == b"hello"
        with pytest.raises(pulsar.AuthorizationError):
            bob.create_producer("orders")
        alice.close()
        bob.close()


def test_an_unknown_provider_ends_the_start():
    with (
        pytest.raises(LocalError, match="X is not one of"),
        MiniBroker(authenticationEnabled=True, authenticationProviders="X"),
    ):
        pass


def test_settings_of_authentication_cannot_be_combined_with_tokens():
    with pytest.raises(LocalError, match="cannot be combined with the setting superUserRoles"):
        MiniBroker(tokens={"alice": ["produce"]}, superUserRoles="bob")


def test_an_unknown_action_is_refused():
    with pytest.raises(LocalError, match="alice: 'write' is not superuser, produce or consume"):
        MiniBroker(tokens={"alice": ["write"]})


SECRET, OTHER = ("data:;base64," + text * 12 for text in ("QUJD", "QUJE"))


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"", "invalid token: "),
        (b"\xff", "invalid token: "),
        (create_token({"sub": "a", "exp": 1}, secret=SECRET).encode(), "invalid token: the token has expired"),
        (create_token({"sub": "a"}, secret=OTHER).encode(), "invalid token: Signature verification failed"),
        (create_token({}, secret=SECRET).encode(), "invalid token: the claim sub contains no role"),
    ],
)
def test_an_invalid_token_is_logged_in_one_line_and_the_connection_closed(caplog, connect, token, reason):
    settings = {
        "authenticationEnabled": True,
        "authenticationProviders": "AuthenticationProviderToken",
        "tokenSecretKey": SECRET,
        "anonymousUserRole": "guest",
    }
    with MiniBroker(**settings) as broker:
        other = connect(broker)
        with socket.create_connection(("127.0.0.1", int(broker.service_url.rpartition(":")[2])), 10) as client:
            command = pb.CommandConnect(client_version="test", auth_method_name="token", auth_data=token)
            client.sendall(push_frame(command))
            assert b"Failed to authenticate" in b"".join(iter(lambda: client.recv(1 << 16), b""))
        assert other.ask(pb.CommandPong, pb.CommandPing()) == pb.CommandPong()
    [line] = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(rf"127\.0\.0\.1:\d+: authentication failed: {reason}.*; the connection is closed", line)
