"""A broker with token authentication and authorization."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jwt")

from pcli.minibroker.security.tokens import create_token

SECRET = "data:;base64," + "QUJD" * 12
OTHER_SECRET = "data:;base64," + "QUJE" * 12


@pytest.fixture
def make_secure_world(make_world):
    """Create a broker whose clients need tokens; ``admin`` is the superuser."""

    def make(**settings: Any) -> Any:
        return make_world(
            **{
                "authenticationEnabled": True,
                "authenticationProviders": ["org.apache.pulsar.broker.authentication.AuthenticationProviderToken"],
                "tokenSecretKey": SECRET,
                "authorizationEnabled": True,
                "superUserRoles": ["admin"],
                "authenticationRefreshCheckSeconds": 60,
                **settings,
            }
        )

    return make


@pytest.fixture
def secure_world(make_secure_world):
    return make_secure_world()


@pytest.fixture
def token():
    """Return a token of a role, with more claims."""

    def make(role: str | None = None, secret: str = SECRET, **claims: Any) -> bytes:
        return create_token({"sub": role, **claims} if role is not None else claims, secret=secret).encode()

    return make
