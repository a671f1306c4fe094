"""End-to-end encryption of payloads with the public keys of their readers. See `encryption` for the formats.

Rules of this file (MessageCryptoBc, 4.2.4)
1. A producer generates a data key of 256 bits and wraps it once per public key. The metadata of every entry contains
   the wrapped keys, in the order of their names. `PublicKeys.renew` generates a new data key; the Java client does this
   every four hours.
2. Each payload has a new nonce, 96 random bits, which is stored as ``encryption_param``.
3. A public key is PEM: RSA or elliptic curve, SubjectPublicKeyInfo or an X.509 certificate. The parameters that
   OpenSSL writes before an elliptic-curve key are skipped. Named and explicit curves are supported as far as
   `cryptography` supports them.
4. An unusable key or a missing `cryptography` makes `close` and `renew` raise LocalError, so that the caller may choose
   to send the payload unencrypted.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.codec.payload.encryption import MAC_KEY_SIZE, kdf2, mac_of
from pcli.codec.proto import pb

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

_DATA_KEY_SIZE: Final = 32
_NONCE_SIZE: Final = 12
_PLAIN_PEM: Final = b"-----BEGIN PUBLIC KEY-----"
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


class PublicKeys:
    """The readers' public keys, from PEM files, by name, with methods to encrypt payloads for these readers."""

    __slots__ = ("_data_key", "_pems", "_wrapped")

    def __init__(self, pems: Mapping[str, bytes]) -> None:
        self._pems = dict(sorted(pems.items()))
        self._data_key = b""
        self._wrapped: list[pb.EncryptionKeys] = []

    def renew(self) -> None:
        """Generate and wrap a new data key. Raise LocalError if a key is unusable or `cryptography` is missing."""
        data_key = secrets.token_bytes(_DATA_KEY_SIZE)
        wrapped = [pb.EncryptionKeys(key=name, value=_wrap(name, pem, data_key)) for name, pem in self._pems.items()]
        self._data_key, self._wrapped = data_key, wrapped

    def close(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        """Encrypt a payload and store the wrapped keys and the nonce in the metadata. Raise LocalError like `renew`."""
        if not self._data_key:
            self.renew()
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = secrets.token_bytes(_NONCE_SIZE)
        del metadata.encryption_keys[:]
        metadata.encryption_keys.extend(self._wrapped)
        metadata.encryption_param = nonce
        return AESGCM(self._data_key).encrypt(nonce, payload, None)


def _wrap(name: str, pem: bytes, data_key: bytes) -> bytes:
    """Wrap a data key with one public key."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.hashes import SHA1
    except ImportError:
        raise LocalError("to encrypt, install pulsar-pcli[crypto]") from None
    key = _load(name, pem)
    if isinstance(key, RSAPublicKey):
        return key.encrypt(data_key, OAEP(MGF1(SHA1()), SHA1(), None))  # noqa: S303  (as the clients)
    if isinstance(key, EllipticCurvePublicKey):
        return _wrap_elliptic(key, data_key)
    raise LocalError(f"public key {name} is neither RSA nor elliptic: Pulsar does not support it for data keys")


def _load(name: str, pem: bytes) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from cryptography.x509 import load_pem_x509_certificate

    try:
        if _CERTIFICATE in pem:
            return load_pem_x509_certificate(pem).public_key()
        return load_pem_public_key(pem[max(0, pem.find(_PLAIN_PEM)) :])
    except (ValueError, UnsupportedAlgorithm):
        raise LocalError(f"public key {name} is not a public key in PEM format") from None


def _wrap_elliptic(key: EllipticCurvePublicKey, data_key: bytes) -> bytes:
    """Wrap a data key with ECIES and an ephemeral key, whose point is stored uncompressed."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDH, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    ephemeral = generate_private_key(key.curve)
    point = ephemeral.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    stream = kdf2(point + ephemeral.exchange(ECDH(), key), MAC_KEY_SIZE + len(data_key))
    ciphertext = bytes(a ^ b for a, b in zip(data_key, stream[MAC_KEY_SIZE:]))
    return point + ciphertext + mac_of(stream, ciphertext)
