"""Authentication on the wire and over HTTP (AuthenticationService and the providers Token, Basic and Tls).

Rules of this file
1. A client selects the provider by the name of its method. Over HTTP, an Authorization header selects token or basic.
2. If there is no provider for the method, the client gets the role ``anonymousUserRole``, if it is set.
3. Authentication fails without details for the client; the reason is for the broker's log.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pcli.codec.errors import LocalError
from pcli.minibroker.security.tokens import InvalidTokenError, TokenKey, key_bytes

if TYPE_CHECKING:
    from pcli.minibroker.settings import Settings


class AuthenticationError(Exception):
    """A failed authentication. The text is for the broker's log."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client."""

    role: str
    method: str
    """Name of the authentication method; empty for an anonymous client."""
    expires: int | None = None
    """Time (ms since 1970) at which the credentials expire."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client."""

    data: bytes
    certificate_role: str = ""
    """The common name of the verified client certificate, or an empty string."""


class _Provider(Protocol):
    """One authentication method."""

    method: str

    def authenticate(self, credentials: Credentials, now: int) -> Principal:
        """Return the principal. Raises AuthenticationError."""


class TokenProvider:
    """AuthenticationProviderToken: the role is a claim of a token."""

    method = "token"

    def __init__(self, settings: Settings) -> None:
        self._key = TokenKey(secret=settings.tokenSecretKey, public=settings.tokenPublicKey)
        self._role_claim = settings.tokenAuthClaim or "sub"
        self._audience_claim = settings.tokenAudienceClaim
        self._audience = settings.tokenAudience
        if self._audience_claim and not self._audience:
            raise LocalError("tokenAudienceClaim requires tokenAudience")

    def authenticate(self, credentials: Credentials, now: int) -> Principal:
        """Return the principal of a token."""
        try:
            claims = self._key.claims(credentials.data.decode("utf-8"), now)
        except (UnicodeDecodeError, InvalidTokenError) as fault:
            raise AuthenticationError(f"invalid token: {fault}") from None
        if self._audience_claim:
            given = claims.get(self._audience_claim)
            if self._audience not in (given if isinstance(given, list) else [given]):
                raise AuthenticationError(f"invalid token: the audience {given!r} is not {self._audience!r}")
        role = claims.get(self._role_claim)
        if isinstance(role, list):
            role = role[0] if role else None
        if not isinstance(role, str) or not role:
            raise AuthenticationError(f"invalid token: the claim {self._role_claim} contains no role")
        expiry = claims.get("exp")
        return Principal(role, self.method, None if expiry is None else int(expiry * 1000))


class BasicProvider:
    """AuthenticationProviderBasic: users and passwords in an htpasswd file."""

    method = "basic"

    def __init__(self, settings: Settings) -> None:
        if not settings.basicAuthConf:
            raise LocalError("AuthenticationProviderBasic requires basicAuthConf")
        try:
            from passlib.context import CryptContext
        except ImportError:
            raise LocalError("passwords need the package libpass: pip install 'pulsar-pcli[crypto]'") from None
        self._context = CryptContext(["apr_md5_crypt", "md5_crypt", "sha256_crypt", "sha512_crypt", "des_crypt"])
        self._hashes: dict[str, str] = {}
        for line in key_bytes(settings.basicAuthConf).decode("utf-8", "replace").splitlines():
            user, separator, hashed = line.strip().partition(":")
            if user and separator:
                self._hashes[user] = hashed

    def authenticate(self, credentials: Credentials, now: int) -> Principal:
        """Return the principal of ``user:password``."""
        user, separator, password = credentials.data.decode("utf-8", "replace").partition(":")
        hashed = self._hashes.get(user)
        if not separator or hashed is None or not self._matches(password, hashed):
            raise AuthenticationError("unknown user or wrong password")
        return Principal(user, self.method)

    def _matches(self, password: str, hashed: str) -> bool:
        try:
            return bool(self._context.verify(password, hashed))
        except ValueError:
            return False  # not a hash in one of the formats


class TlsProvider:
    """AuthenticationProviderTls: the role is the common name of the client's certificate."""

    method = "tls"

    def __init__(self, settings: Settings) -> None:
        pass

    def authenticate(self, credentials: Credentials, now: int) -> Principal:
        """Return the principal of a client certificate."""
        if not credentials.certificate_role:
            raise AuthenticationError("the client presented no trusted certificate with a common name")
        return Principal(credentials.certificate_role, self.method)


_PROVIDERS: Final[Mapping[str, Callable[[Settings], _Provider]]] = {
    "AuthenticationProviderToken": TokenProvider,
    "AuthenticationProviderBasic": BasicProvider,
    "AuthenticationProviderTls": TlsProvider,
}


class AuthenticationService:
    """The enabled authentication providers of a broker."""

    def __init__(self, settings: Settings) -> None:
        """Load the keys. Raises LocalError for an unknown provider or an invalid key."""
        self._anonymous = settings.anonymousUserRole
        self._providers: dict[str, _Provider] = {}
        for name in settings.authenticationProviders:
            make = _PROVIDERS.get(name.rpartition(".")[2])
            if make is None:
                raise LocalError(f"authenticationProviders: {name} is not one of {', '.join(_PROVIDERS)}")
            provider = make(settings)
            self._providers[provider.method] = provider

    def authenticate(self, method: str, credentials: Credentials, now: int) -> Principal:
        """Return the principal of a client at ``now`` (ms since 1970). Raises AuthenticationError."""
        provider = self._providers.get(method)
        if provider is not None:
            return provider.authenticate(credentials, now)
        if self._anonymous:
            return Principal(self._anonymous, "")
        raise AuthenticationError(f"no provider for the method {method!r}")

    def authenticate_http(self, headers: Mapping[str, str], certificate_role: str, now: int) -> Principal:
        """Return the principal of a request. Raises AuthenticationError.

        Without an X-Pulsar-Auth-Method-Name header, the first provider that accepts the request is used. If none does,
        the role is ``anonymousUserRole``, also for a request with invalid credentials.
        """
        scheme, _, text = headers.get("authorization", "").partition(" ")
        data = {"token": b"", "basic": b""}
        if scheme == "Bearer":
            data["token"] = text.encode()
        elif scheme.lower() == "basic":
            with suppress(binascii.Error, ValueError):
                data["basic"] = base64.b64decode(text.strip(), validate=True)
        named = headers.get("x-pulsar-auth-method-name", "")
        reasons = []
        for method, provider in self._providers.items():
            if method == named or not named:
                try:
                    return provider.authenticate(Credentials(data.get(method, b""), certificate_role), now)
                except AuthenticationError as fault:
                    reasons.append(str(fault))
        if self._anonymous and not named:
            return Principal(self._anonymous, "")
        raise AuthenticationError("; ".join(reasons) or f"no provider for the method {named!r}")
