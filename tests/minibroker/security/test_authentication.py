"""Authentication of connections: responses of a real 4.2.4 that was started with the same settings."""

from __future__ import annotations

import base64

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.minibroker.broker import Broker
from pcli.minibroker.security.authentication import AuthenticationError, AuthenticationService, Credentials
from pcli.minibroker.settings import Settings
from tests.minibroker.conftest import START
from tests.minibroker.security.conftest import OTHER_SECRET, SECRET

SECOND = 1000


def connect(world, method="token", data=b"", **fields):
    """Connect and return the client and the response."""
    client = world.accept(version=21, features=("supports_auth_refresh",))
    client.session.connect(auth_method_name=method, auth_data=data, **fields)
    return client, *client()


def is_refused(world, *arguments, **fields):
    client, response = connect(world, *arguments, **fields)
    return client.closed and (response.error, response.message) == (pb.AuthenticationError, "Failed to authenticate")


def test_a_client_with_a_valid_token_is_connected(secure_world, token):
    client, connected = connect(secure_world, "token", token("alice"))
    assert isinstance(connected, pb.CommandConnected)
    assert client.connection.principal.role == "alice"


def test_clients_without_valid_tokens_get_one_error_and_are_closed(secure_world, token):
    now = START // 1000
    refused = {
        "no method": ("none", b""),
        "no token": ("token", b""),
        "garbage": ("token", b"\xff\x00"),
        "expired": ("token", token("alice", exp=now - 1)),
        "not valid yet": ("token", token("alice", nbf=now + 1000)),
        "other key": ("token", token("alice", OTHER_SECRET)),
        "no role": ("token", token()),
        "empty role": ("token", token("")),
        "unknown method": ("athenz", b"x"),
    }
    assert [name for name, given in refused.items() if not is_refused(secure_world, *given)] == []


def test_a_client_without_a_known_method_gets_the_anonymous_role(make_secure_world):
    client, _ = connect(make_secure_world(anonymousUserRole="guest"), "none")
    assert client.connection.principal.role == "guest"


def test_over_http_the_anonymous_role_replaces_invalid_credentials(token):
    settings = {"authenticationProviders": ["AuthenticationProviderToken"], "tokenSecretKey": SECRET}
    service = AuthenticationService(Settings(anonymousUserRole="guest", **settings))
    for header in ("Bearer bad", "Basic ?", "Bearer " + token("alice", OTHER_SECRET).decode()):
        assert service.authenticate_http({"authorization": header}, "", START).role == "guest"
    named = {"authorization": "Bearer bad", "x-pulsar-auth-method-name": "token"}
    with pytest.raises(AuthenticationError):
        service.authenticate_http(named, "", START)


def test_the_audience_is_checked_if_a_claim_is_configured(make_secure_world, token):
    world = make_secure_world(tokenAudienceClaim="aud", tokenAudience="broker")
    assert is_refused(world, "token", token("alice"))
    assert is_refused(world, "token", token("alice", aud="other"))
    assert not is_refused(world, "token", token("alice", aud=["other", "broker"]))


def test_another_claim_can_contain_the_role(make_secure_world, token):
    client, _ = connect(make_secure_world(tokenAuthClaim="roles"), "token", token("x", roles=["bob", "carol"]))
    assert client.connection.principal.role == "bob"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"original_principal": "bob"}, "Invalid roles."),
        ({"proxy_version": "1"}, "Must not set proxyVersion without connecting as a ProxyRole."),
    ],
)
def test_only_proxies_forward_principals(secure_world, token, fields, text):
    client, error = connect(secure_world, "token", token("admin"), **fields)
    assert (error.error, error.message, client.closed) == (pb.AuthorizationError, text, True)


def wait(world, client, seconds):
    """Let time pass for a client that responds to PINGs; return the other commands that it receives."""
    received = []
    for _ in range(seconds):
        world.wait(SECOND)
        received += [body for body in client.hear() if not isinstance(body, pb.CommandPing)]
        if not client.closed:
            client(pb.CommandPong())
    return received


class TestExpiry:
    """Credentials that expire while the client is connected."""

    @pytest.fixture
    def client(self, secure_world, token):
        client, _ = connect(secure_world, "token", token("alice", exp=START // 1000 + 30))
        assert wait(secure_world, client, 59) == []
        return client

    def respond(self, client, token):
        data = pb.AuthData(auth_method_name="token", auth_data=token)
        return client(pb.CommandAuthResponse(client_version="test", protocol_version=21, response=data))

    def test_the_client_is_challenged_and_stays_connected_with_a_new_token(self, secure_world, client, token):
        secure_world.wait(SECOND)
        [challenge] = [body for body in client.hear() if isinstance(body, pb.CommandAuthChallenge)]
        assert challenge == pb.CommandAuthChallenge(
            challenge=pb.AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh"), protocol_version=21
        )
        assert self.respond(client, token("alice", exp=START // 1000 + 1000)) == []
        assert wait(secure_world, client, 200) == []
        assert not client.closed

    def test_it_is_closed_if_it_does_not_respond(self, secure_world, client):
        assert [type(body) for body in wait(secure_world, client, 60)] == [pb.CommandAuthChallenge]
        assert not client.closed
        wait(secure_world, client, 1)
        assert client.connection.reason == "the credentials have expired"

    def test_a_disconnected_client_is_not_checked(self, secure_world, client):
        client.leave()
        assert not client.connection.credentials_timer.active

    def test_it_is_closed_if_it_responds_with_another_role(self, secure_world, client, token):
        secure_world.wait(SECOND)
        client.hear()
        assert self.respond(client, token("bob")) == []
        assert client.closed

    def test_it_gets_an_error_if_it_responds_with_an_invalid_token(self, secure_world, client):
        secure_world.wait(SECOND)
        client.hear()
        [error] = self.respond(client, b"bad")
        assert (error.error, client.closed) == (pb.AuthenticationError, True)


def test_a_client_that_does_not_support_challenges_is_closed_when_its_token_expires(secure_world, token):
    client = secure_world.accept(version=21)
    client.session.connect(auth_method_name="token", auth_data=token("alice", exp=START // 1000 + 30))
    client()
    assert wait(secure_world, client, 59) == []
    assert not client.closed
    wait(secure_world, client, 1)
    assert client.connection.reason == "the credentials have expired"


# Hashes of the password "secret": openssl passwd -apr1, -1, -5 and -6; and a format that the real broker refuses.
HASHES = {
    "apr1": "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/",
    "md5": "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1",
    "sha256": "$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.",
    "sha512": "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.",
    "other": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
}


@pytest.fixture
def basic_service():
    pytest.importorskip("passlib")
    lines = "".join(f"{user}:{hashed}\n" for user, hashed in HASHES.items())
    file = "data:;base64," + base64.b64encode(lines.encode()).decode()
    return AuthenticationService(Settings(authenticationProviders=["AuthenticationProviderBasic"], basicAuthConf=file))


@pytest.mark.parametrize("user", ["apr1", "md5", "sha256", "sha512"])
def test_basic_authentication_accepts_the_password_of_an_htpasswd_file(basic_service, user):
    credentials = Credentials(f"{user}:secret".encode())
    assert basic_service.authenticate("basic", credentials, START).role == user


@pytest.mark.parametrize("given", [b"apr1:wrong", b"sha512:", b"apr1", b"nobody:secret", b"other:secret"])
def test_basic_authentication_refuses_other_passwords(basic_service, given):
    with pytest.raises(AuthenticationError):
        basic_service.authenticate("basic", Credentials(given), START)


def test_the_role_of_a_client_certificate_is_its_common_name():
    service = AuthenticationService(Settings(authenticationProviders=["AuthenticationProviderTls"]))
    assert service.authenticate("tls", Credentials(b"", "alice"), START).role == "alice"
    with pytest.raises(AuthenticationError):
        service.authenticate("tls", Credentials(b""), START)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"authenticationProviders": ["AuthenticationProviderAthenz"]}, "AuthenticationProviderAthenz is not one of"),
        ({"authenticationProviders": ["AuthenticationProviderToken"]}, "either tokenSecretKey or tokenPublicKey"),
        ({"authenticationProviders": ["AuthenticationProviderBasic"]}, "requires basicAuthConf"),
        (
            {
                "authenticationProviders": ["AuthenticationProviderToken"],
                "tokenSecretKey": SECRET,
                "tokenAudienceClaim": "aud",
            },
            "requires tokenAudience",
        ),
    ],
)
def test_invalid_settings_are_reported_at_the_start(settings, text):
    with pytest.raises(LocalError, match=text):
        Broker(Settings(authenticationEnabled=True, **settings))
