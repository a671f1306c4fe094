"""Tokens, and the settings of a broker that requires them."""

from __future__ import annotations

import base64
import time
from typing import Final

from pcli.minibroker.security.tokens import create_token

_SUPERUSER: Final = "admin"
_KEYS: Final = {name: "data:;base64," + base64.b64encode(name.encode() * 32).decode() for name in ("k", "w")}
"""The broker's key, and a wrong key."""


def signed(role: str = _SUPERUSER, expires_s: int = 0, *, wrong: bool = False) -> str:
    """Return a token. ``expires_s`` is the time until it expires, 0 for never; ``wrong``: with a wrong key."""
    claims = {"sub": role, **({"exp": int(time.time()) + expires_s} if expires_s else {})}
    return create_token(claims, secret=_KEYS["w" if wrong else "k"])


SETTINGS: Final = (
    "authenticationEnabled=true",
    "authorizationEnabled=true",
    "authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    f"tokenSecretKey={_KEYS['k']}",
    f"superUserRoles={_SUPERUSER}",
    "authenticationRefreshCheckSeconds=1",
    "brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken",
    f"brokerClientAuthenticationParameters=token:{signed()}",
)
"""Settings of a broker with tokens. The last two are for the connections of a real broker to itself."""
