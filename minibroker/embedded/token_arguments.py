"""The argument ``tokens`` of MiniBroker: roles, their actions, and their tokens."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from secrets import token_bytes

from pcli.codec.errors import LocalError
from pcli.minibroker.security.authorization import CONSUME, PRODUCE
from pcli.minibroker.security.tokens import create_token


def actions_of(role: str, actions: str | Iterable[str]) -> list[str] | None:
    """Return the actions of a role, or None for a superuser. Raises LocalError."""
    if actions == "superuser":
        return None
    listed = [actions] if isinstance(actions, str) else list(actions)
    for action in listed:
        if action not in (PRODUCE, CONSUME):
            raise LocalError(f"tokens: {role}: {action!r} is not superuser, {PRODUCE} or {CONSUME}")
    return listed


def create_tokens(roles: Iterable[str], chosen: Mapping[str, object]) -> tuple[dict[str, str], dict[str, object]]:
    """Return a token for each role, and the settings that require them.

    Raises LocalError if ``chosen`` contains settings of the authentication or authorization.
    """
    given = sorted(name for name in chosen if name.startswith(("authe", "autho", "token", "superUser")))
    if given:
        raise LocalError(f"tokens: cannot be combined with the setting {given[0]}")
    secret = f"data:;base64,{b64encode(token_bytes(32)).decode()}"
    settings: dict[str, object] = {
        "authenticationEnabled": True,
        "authorizationEnabled": True,
        "authenticationProviders": "AuthenticationProviderToken",
        "tokenSecretKey": secret,
    }
    return {role: create_token({"sub": role}, secret=secret) for role in roles}, settings
