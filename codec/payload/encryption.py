"""End-to-end encryption: opening payloads with private keys that somebody hands us.

Rules of this file
1. A payload is closed with AES-GCM under a data key of the producer (nonce: ``encryption_param``, tag behind the
   ciphertext, no associated data). The data key travels in the metadata, wrapped once per reader's key
   (``encryption_keys``): class MessageCryptoBc, and MessageCrypto of the C++ client.
2. RSA keys unwrap by OAEP with SHA-1. Elliptic keys (the Java client calls them ECDSA; the C++ client knows RSA
   only) unwrap by ECIES as Bouncy Castle does it, IEEE P1363a in stream mode with KDF2 and HMAC, both of SHA-1, a
   MAC key of 128 bits and no vectors (IESParameterSpec(null, null, 128))::

       ephemeral point V | data key xor K1 | HMAC(K2, ciphertext | eight zero bytes)
       K2 (16 bytes) | K1 = SHA1(V | Z | 1) | SHA1(V | Z | 2) | …   Z: x of the shared point, as long as the field

3. `cryptography` is asked for when the first key is loaded. Where it is missing, every encrypted payload says so.
4. Unwrapping is a matter of a millisecond and producers keep a data key for hours: what a wrapped key opened to,
   or that it did not open, is kept. Both that and the wrapped keys tried for one entry are bounded.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.codec.payload.texts import as_text
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

__all__ = ["MAC_KEY_SIZE", "PrivateKeys", "is_encrypted", "kdf2", "mac_of"]

MAC_KEY_SIZE: Final = 16
"""Bytes of K2."""

_MAC_SIZE: Final = 20

_MAX_DATA_KEY: Final = 32
"""Bytes of an AES-256 key."""

_MAX_WRAPPED: Final = 4096
"""Bytes of a wrapped key that is tried: an RSA key of 32,768 bits."""

_MAX_TRIED: Final = 32
"""Wrapped keys of one entry that are tried. Producers name a handful; a lie could name a hundred thousand."""

_MAX_KEPT: Final = 1000
"""Wrapped keys whose outcome is kept."""

_MISSING: Final = Problem("encryption", "the payload is encrypted; to decrypt it, install pulsar-pcli[crypto]")


def is_encrypted(metadata: pb.MessageMetadata) -> bool:
    """Whether the payload is ciphertext: the producer has named the keys that open it."""
    return bool(metadata.encryption_keys)


class PrivateKeys:
    """The private keys that we were given; opens payloads with whichever fits.

    ``pems`` are PEM files' contents: RSA or elliptic, PKCS#8 or the older forms, without a passphrase. LocalError
    says which of them is something else: by its name in ``names``, or counted from 1.
    """

    __slots__ = ("_elliptic", "_kept", "_missing", "_rsa")

    def __init__(self, pems: Iterable[bytes], names: Sequence[str] = ()) -> None:
        self._rsa: list[RSAPrivateKey] = []
        self._elliptic: list[EllipticCurvePrivateKey] = []
        self._kept: dict[bytes, bytes | None] = {}
        self._missing = False
        for number, pem in enumerate(pems, 1):
            self._load(pem, names[number - 1] if number <= len(names) else str(number))

    def open(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes | Problem:
        """The payload (or the chunk) behind the ciphertext; a Problem when none of the keys opens it."""
        if self._missing:
            return _MISSING
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        unwrapped = False
        for wrapped in metadata.encryption_keys[:_MAX_TRIED]:
            data_key = self._unwrap(wrapped.value)
            if data_key is None:
                continue
            unwrapped = True
            try:
                return AESGCM(data_key).decrypt(metadata.encryption_param, payload, None)
            except (InvalidTag, ValueError, OverflowError):
                # A wrong tag, a data key or a nonce of an impossible size: another key may still fit.
                continue
        names = ", ".join(
            sorted({repr(as_text(wrapped.key)[:80]) for wrapped in metadata.encryption_keys[:_MAX_TRIED]})
        )
        why = (
            "the data key can be decrypted but the payload cannot: it is damaged or truncated"
            if unwrapped
            else "no given key decrypts them"
        )
        return Problem("encryption", f"closed for {names}: {why}")

    def _load(self, pem: bytes, name: str) -> None:
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
            from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            self._missing = True
            return
        try:
            key = load_pem_private_key(pem, None)
        except TypeError:
            raise LocalError(f"private key {name} is protected by a passphrase: remove the passphrase") from None
        except (ValueError, UnsupportedAlgorithm):
            raise LocalError(f"private key {name} is not a private key in PEM format") from None
        if isinstance(key, RSAPrivateKey):
            self._rsa.append(key)
        elif isinstance(key, EllipticCurvePrivateKey):
            self._elliptic.append(key)
        else:
            raise LocalError(
                f"private key {name} is neither RSA nor elliptic: Pulsar does not support it for data keys"
            )

    def _unwrap(self, wrapped: bytes) -> bytes | None:
        if len(wrapped) > _MAX_WRAPPED:
            return None
        if wrapped not in self._kept:
            if len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[wrapped] = self._try(wrapped)
        return self._kept[wrapped]

    def _try(self, wrapped: bytes) -> bytes | None:
        for rsa in self._rsa:
            data_key = _unwrap_rsa(rsa, wrapped)
            if data_key is not None:
                return data_key
        for elliptic in self._elliptic:
            data_key = _unwrap_elliptic(elliptic, wrapped)
            if data_key is not None:
                return data_key
        return None


def _unwrap_rsa(key: RSAPrivateKey, wrapped: bytes) -> bytes | None:
    from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
    from cryptography.hazmat.primitives.hashes import SHA1

    if len(wrapped) != (key.key_size + 7) // 8:
        return None
    try:
        # SHA-1 is what the clients use; in OAEP its weakness does not matter.
        return key.decrypt(wrapped, OAEP(MGF1(SHA1()), SHA1(), None))  # noqa: S303
    except ValueError:
        return None


def _unwrap_elliptic(key: EllipticCurvePrivateKey, wrapped: bytes) -> bytes | None:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDH, EllipticCurvePublicKey

    field = (key.curve.key_size + 7) // 8
    # The first byte of a point says its form: 4 = both coordinates, 2 or 3 = compressed.
    point_size = 1 + (2 * field if wrapped[:1] == b"\x04" else field)
    size = len(wrapped) - point_size - _MAC_SIZE
    if not 0 < size <= _MAX_DATA_KEY:
        return None
    point = wrapped[:point_size]
    try:
        shared = key.exchange(ECDH(), EllipticCurvePublicKey.from_encoded_point(key.curve, point))
    except ValueError:
        return None
    stream = kdf2(point + shared, MAC_KEY_SIZE + size)
    ciphertext, mac = wrapped[point_size:-_MAC_SIZE], wrapped[-_MAC_SIZE:]
    if not hmac.compare_digest(mac_of(stream, ciphertext), mac):
        return None
    return bytes(a ^ b for a, b in zip(ciphertext, stream[MAC_KEY_SIZE:]))


def mac_of(stream: bytes, ciphertext: bytes) -> bytes:
    """What stands behind a data key wrapped by ECIES; ``stream`` begins with K2."""
    return hmac.digest(stream[:MAC_KEY_SIZE], ciphertext + bytes(8), "sha1")


def kdf2(secret: bytes, size: int) -> bytes:
    """KDF2 of IEEE P1363a and ISO 18033-2 with SHA-1: the hash of the secret with a counter from 1."""
    out = b""
    counter = 1
    while len(out) < size:
        out += hashlib.sha1(secret + counter.to_bytes(4, "big")).digest()  # noqa: S324  (as the Java client)
        counter += 1
    return out[:size]
