"""Tokens: algorithms, keys and times."""

from __future__ import annotations

import base64
import hmac

import pytest

from pcli.codec.errors import LocalError
from pcli.minibroker.security.tokens import InvalidTokenError, TokenKey, create_token, key_bytes, parts

jwt = pytest.importorskip("jwt")
pytest.importorskip("cryptography")

NOW = 1_700_000_000_000
SECRET = "data:;base64," + base64.b64encode(b"s" * 64).decode()


@pytest.fixture(scope="module")
def key_pairs():
    """Return the private and the public key as DER in data: URLs, by kind."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    made = {
        "rsa": rsa.generate_private_key(65537, 2048),
        "p256": ec.generate_private_key(ec.SECP256R1()),
        "p384": ec.generate_private_key(ec.SECP384R1()),
        "p521": ec.generate_private_key(ec.SECP521R1()),
    }
    der, none = serialization.Encoding.DER, serialization.NoEncryption()
    urls = {}
    for kind, key in made.items():
        private = key.private_bytes(der, serialization.PrivateFormat.PKCS8, none)
        public = key.public_key().public_bytes(der, serialization.PublicFormat.SubjectPublicKeyInfo)
        urls[kind] = tuple("data:;base64," + base64.b64encode(data).decode() for data in (private, public))
    return urls


@pytest.mark.parametrize("algorithm", ["", "HS256", "HS384", "HS512"])
def test_a_secret_key_validates_its_tokens(algorithm):
    made = create_token({"sub": "alice"}, secret=SECRET, algorithm=algorithm)
    assert TokenKey(secret=SECRET).claims(made, NOW) == {"sub": "alice"}
    assert parts(made) == ({"alg": algorithm or "HS256", "typ": "JWT"}, {"sub": "alice"})


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        *(("rsa", name) for name in ("", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ("p256", "ES256"),
        ("p384", "ES384"),
        ("p521", ""),
    ],
)
def test_a_public_key_validates_the_tokens_of_its_private_key(key_pairs, kind, algorithm):
    private, public = key_pairs[kind]
    made = create_token({"sub": "alice"}, private=private, algorithm=algorithm)
    assert TokenKey(public=public).claims(made, NOW) == {"sub": "alice"}


def test_a_public_key_is_not_accepted_as_the_secret_of_a_token(key_pairs):
    public = key_pairs["rsa"][1]
    start = base64.urlsafe_b64encode(b'{"alg":"HS256"}').rstrip(b"=") + b".eyJzdWIiOiJhZG1pbiJ9"
    signature = hmac.digest(key_bytes(public), start, "sha256")
    forged = (start + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()
    with pytest.raises(InvalidTokenError):
        TokenKey(public=public).claims(forged, NOW)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."])
def test_malformed_and_unsigned_tokens_are_invalid(token):
    with pytest.raises(InvalidTokenError):
        TokenKey(secret=SECRET).claims(token, NOW)


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"exp": NOW // 1000}, "expired"),
        ({"nbf": NOW // 1000 + 1}, "not valid yet"),
        ({"exp": "tomorrow"}, "not a number"),
        ({"exp": NOW // 1000 + 1, "nbf": NOW // 1000}, ""),
    ],
)
def test_times_are_compared_with_the_clock_of_the_broker(claims, text):
    key, made = TokenKey(secret=SECRET), jwt.encode({"sub": "a", **claims}, b"s" * 64, algorithm="HS256")
    if text:
        with pytest.raises(InvalidTokenError, match=text):
            key.claims(made, NOW)
    else:
        assert key.claims(made, NOW)["sub"] == "a"


def test_keys_are_read_from_files(tmp_path):
    file = tmp_path / "secret.key"
    file.write_bytes(b"s" * 64)
    made = create_token({"sub": "alice"}, secret=SECRET)
    for source in (str(file), f"file://{file}", SECRET.partition(",")[2]):
        assert TokenKey(secret=source).claims(made, NOW) == {"sub": "alice"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "either"),
        ({"secret": "data:;base64,QUJD"}, "at least 32 bytes; this one has 3"),
        ({"secret": "data:;base64,?"}, "must be base64"),
        ({"secret": "/nowhere/secret.key"}, "/nowhere/secret.key: no such file"),
        ({"public": SECRET}, "not a public key"),
    ],
)
def test_invalid_keys_are_reported(arguments, text):
    with pytest.raises(LocalError, match=text):
        TokenKey(**arguments)
