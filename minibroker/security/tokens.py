"""JSON Web Tokens: keys, creation and validation (AuthenticationProviderToken, AuthTokenUtils).

Rules of this file
1. A key is given as ``data:;base64,…``, as ``file:///path``, as a path, or as base64. A file of a secret key contains
   its bytes. Public and private keys are DER or PEM.
2. A secret key validates HS tokens whose hash is not longer than the key; a public key validates RS, PS or ES tokens.
3. ``exp`` and ``nbf`` are compared with the broker's clock.
"""

from __future__ import annotations

import base64
import binascii
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Mapping

Claims = dict[str, Any]
_HMAC: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Minimum length of the secret key in bytes, by algorithm."""
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class InvalidTokenError(Exception):
    """A token that is malformed, has a wrong signature, or is not valid now."""


def _jwt() -> Any:
    try:
        import jwt
    except ImportError:
        raise LocalError("tokens need the package PyJWT: pip install 'pulsar-pcli[crypto]'") from None
    return jwt


def key_bytes(source: str) -> bytes:
    """Return the bytes of a key in one of the forms of rule 1. Raises LocalError if it cannot be read."""
    if source.startswith("data:"):
        header, separator, text = source.partition(",")
        try:
            return base64.b64decode(text, validate=True) if separator and "base64" in header else text.encode()
        except (binascii.Error, ValueError):
            raise LocalError("a key in a data: URL must be base64") from None
    try:
        return Path(source.removeprefix("file://")).read_bytes()
    except (OSError, ValueError) as fault:
        if source.startswith(("file:", "/", ".")):
            reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
            raise LocalError(f"{source.removeprefix('file://')}: {reason.lower()}") from None
    with suppress(binascii.Error, ValueError):
        return base64.b64decode(source, validate=True)
    # The text is not printed, because it may be a key.
    raise LocalError("a key is neither an existing file nor base64")


def _asymmetric(data: bytes, *, private: bool) -> Any:
    """Return a key object for a DER or PEM key. Raises LocalError if it is not one."""
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise LocalError("key pairs need the package cryptography: pip install 'pulsar-pcli[crypto]'") from None
    pem = data.lstrip().startswith(b"-----BEGIN")
    try:
        if private:
            load = serialization.load_pem_private_key if pem else serialization.load_der_private_key
            return load(data, None)
        return (serialization.load_pem_public_key if pem else serialization.load_der_public_key)(data)
    except (ValueError, TypeError):
        kind = "private" if private else "public"
        raise LocalError(f"not a {kind} key in the format {'PKCS #8' if private else 'X.509'} (DER or PEM)") from None


def _algorithms(key: Any) -> tuple[str, ...]:
    """Return the algorithms of a key, the default first. Raises LocalError if there is none."""
    if isinstance(key, bytes):
        fitting = tuple(name for name, length in _HMAC.items() if len(key) >= length)
        if not fitting:
            raise LocalError(f"a secret key must have at least 32 bytes; this one has {len(key)}")
        return fitting
    curve = getattr(getattr(key, "curve", None), "name", None)
    if curve is not None:
        if curve not in _CURVES:
            raise LocalError(f"the curve {curve} has no token algorithm")
        return (_CURVES[curve],)
    return _RSA


class TokenKey:
    """The key that validates tokens."""

    def __init__(self, *, secret: str = "", public: str = "") -> None:
        """Exactly one argument is given, in one of the forms of rule 1. Raises LocalError if it is invalid."""
        if bool(secret) == bool(public):
            raise LocalError("tokens require either tokenSecretKey or tokenPublicKey")
        self._decode = _jwt().decode
        self._error = _jwt().exceptions.PyJWTError
        self._key = key_bytes(secret) if secret else _asymmetric(key_bytes(public), private=False)
        self._algorithms = list(_algorithms(self._key))

    def claims(self, token: str, now: int) -> Claims:
        """Return the claims of a token at ``now`` (ms since 1970). Raises InvalidTokenError."""
        options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
        options |= {"verify_sub": False, "verify_jti": False, "verify_iss": False}
        try:
            claims: Claims = self._decode(token, self._key, algorithms=self._algorithms, options=options)
        except (self._error, ValueError) as fault:
            raise InvalidTokenError(str(fault)) from None
        expiry, start = claims.get("exp"), claims.get("nbf")
        for name, time in (("exp", expiry), ("nbf", start)):
            if time is not None and (
                isinstance(time, bool) or not isinstance(time, int | float) or not math.isfinite(time)
            ):
                raise InvalidTokenError(f"the claim {name} is not a number")
        if expiry is not None and now >= expiry * 1000:
            raise InvalidTokenError("the token has expired")
        if start is not None and now < start * 1000:
            raise InvalidTokenError("the token is not valid yet")
        return claims


def create_token(claims: Mapping[str, Any], *, secret: str = "", private: str = "", algorithm: str = "") -> str:
    """Return a signed token. Without ``algorithm``, the key's default is used (HS256, RS256 or the curve's).

    Raises LocalError if the key is invalid or does not fit the algorithm.
    """
    if bool(secret) == bool(private):
        raise LocalError("a token is signed with either a secret key or a private key")
    key = key_bytes(secret) if secret else _asymmetric(key_bytes(private), private=True)
    fitting = _algorithms(key)
    if algorithm and algorithm not in fitting:
        raise LocalError(f"algorithm {algorithm}: this key fits {', '.join(fitting)}")
    token: str = _jwt().encode(dict(claims), key, algorithm=algorithm or fitting[0])
    return token


def parts(token: str) -> tuple[Claims, Claims]:
    """Return the header and the claims of a token, without checking the signature. Raises LocalError."""
    jwt = _jwt()
    try:
        complete = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.exceptions.PyJWTError, ValueError) as fault:
        raise LocalError(f"not a token: {fault}") from None
    return complete["header"], complete["payload"]
