"""MiniBroker(tokens=…) with the official Python client."""

import pytest

from pcli.codec.errors import LocalError
from pcli.minibroker import MiniBroker

pytest.importorskip("jwt")


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
