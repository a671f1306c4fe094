"""End-to-end encryption: decryption of payloads with given private keys.

Rules of this file
1. A payload is encrypted with AES-GCM under the producer's data key (nonce: ``encryption_param``, tag after the
   ciphertext, no associated data). The metadata contains the data key, wrapped once with each reader's key
   (``encryption_keys``). Sources: class MessageCryptoBc, and MessageCrypto of the C++ client.
2. RSA keys wrap the data key with OAEP and SHA-1. Elliptic-curve keys (ECDSA in the Java client; the C++ client
   supports only RSA) wrap it with Bouncy Castle's ECIES: IEEE P1363a in stream mode with KDF2 and HMAC, both with
   SHA-1, a MAC key of 128 bits and no derivation or encoding vector (IESParameterSpec(null, null, 128))::

       ephemeral point V | data key xor K1 | HMAC(K2, ciphertext | eight zero bytes)
       K2 (16 bytes) | K1 = SHA1(V | Z | 1) | SHA1(V | Z | 2) | …   Z: x of the shared point, as long as the field

3. `cryptography` is imported when the first key is loaded. If it is missing, every encrypted payload has a Problem.
4. Unwrapping takes about a millisecond, and producers keep a data key for hours. The result for each wrapped key,
   including a failure, is therefore cached. The cache and the number of wrapped keys tried per entry are limited.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.problems import Problem
from pcli.codec.wire.texts import as_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

MAC_KEY_SIZE: Final = 16
"""Size of K2 in bytes."""

_MAC_SIZE: Final = 20

_MAX_DATA_KEY: Final = 32
"""Size of an AES-256 key in bytes."""

_MAX_WRAPPED: Final = 4096
"""Maximum size in bytes of a wrapped key that is tried; enough for an RSA key of 32,768 bits."""

_MAX_TRIED: Final = 32
"""Maximum number of wrapped keys tried per entry. Producers use a few keys; a malicious entry could contain 100,000."""

_MAX_KEPT: Final = 1000
"""Maximum number of wrapped keys in the cache."""

_MISSING: Final = Problem("encryption", "the payload is encrypted; to decrypt it, install pulsar-pcli[crypto]")


def is_encrypted(metadata: pb.MessageMetadata) -> bool:
    """Whether the payload is encrypted: the metadata contains encryption keys."""
    return bool(metadata.encryption_keys)


class PrivateKeys:
    """A set of private keys that decrypts payloads with any matching key.

    ``pems`` are the contents of PEM files: RSA or elliptic-curve keys, in PKCS#8 or older formats, without a
    passphrase. A LocalError identifies an invalid file by its name in ``names``, or by its number, counted from 1.
    """

    __slots__ = ("_elliptic", "_kept", "_missing", "_rsa")

    def __init__(self, pems: Iterable[bytes], names: Sequence[str] = ()) -> None:
        self._rsa: list[RSAPrivateKey] = []
        self._elliptic: list[EllipticCurvePrivateKey] = []
        self._kept: BoundedDict[bytes, bytes | None] = BoundedDict(_MAX_KEPT)
        self._missing = False
        for number, pem in enumerate(pems, 1):
            self._load(pem, names[number - 1] if number <= len(names) else str(number))

    def open(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes | Problem:
        """Decrypt a payload or chunk. Return a Problem if no key matches."""
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
                # The tag is wrong, or the data key or nonce has an invalid size. A different key may still match.
                continue
        names = ", ".join(
            sorted({repr(as_text(wrapped.key)[:80]) for wrapped in metadata.encryption_keys[:_MAX_TRIED]})
        )
        why = (
            "the data key can be decrypted but the payload cannot: it is damaged or truncated"
            if unwrapped
            else "no given key decrypts the payload"
        )
        return Problem("encryption", f"encrypted for {names}: {why}")

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
        # The clients use SHA-1. Its weakness does not affect OAEP.
        return key.decrypt(wrapped, OAEP(MGF1(SHA1()), SHA1(), None))  # noqa: S303
    except ValueError:
        return None


def _unwrap_elliptic(key: EllipticCurvePrivateKey, wrapped: bytes) -> bytes | None:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDH, EllipticCurvePublicKey

    field = (key.curve.key_size + 7) // 8
    # The first byte of a point is its format: 4 = both coordinates, 2 or 3 = compressed.
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
    """Return the bytes that follow a data key wrapped by ECIES; ``stream`` begins with K2."""
    return hmac.digest(stream[:MAC_KEY_SIZE], ciphertext + bytes(8), "sha1")


def kdf2(secret: bytes, size: int) -> bytes:
    """Return KDF2 of IEEE P1363a and ISO 18033-2 with SHA-1: hashes of the secret with a counter from 1."""
    out = b""
    counter = 1
    while len(out) < size:
        out += hashlib.sha1(secret + counter.to_bytes(4, "big")).digest()  # noqa: S324  (as the Java client)
        counter += 1
    return out[:size]
