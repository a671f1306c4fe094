"""Decryption of the records of one direction, and the derivation of their keys.

Rules of this file
1. Only AEAD cipher suites are supported: AES-GCM, AES-CCM and ChaCha20-Poly1305 (RFC 5288, 6655, 7905, 8446).
2. Keys of TLS 1.2 are derived from the master secret (RFC 5246, 6.3), keys of TLS 1.3 from a traffic secret (RFC 8446,
   7.3).
3. `cryptography` is imported when the first key is derived.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

_header = Struct(">BHH").pack
_sequence = Struct(">Q").pack
_length = Struct(">H").pack


class CipherSuite(NamedTuple):
    """What a cipher suite means for decryption."""

    aead: str
    """AESGCM, AESCCM or ChaCha20Poly1305."""
    key_size: int
    digest: str
    """SHA256 or SHA384."""
    tag_size: int = 16

    @property
    def explicit_nonce(self) -> int:
        """Number of nonce bytes at the start of each record in TLS 1.2."""
        return 0 if self.aead == "ChaCha20Poly1305" else 8


_AES128: Final = CipherSuite("AESGCM", 16, "SHA256")
_AES256: Final = CipherSuite("AESGCM", 32, "SHA384")
_CHACHA: Final = CipherSuite("ChaCha20Poly1305", 32, "SHA256")

SUITES: Final[dict[int, CipherSuite]] = {
    0x1301: _AES128,
    0x1302: _AES256,
    0x1303: _CHACHA,
    0x1304: CipherSuite("AESCCM", 16, "SHA256"),
    0x1305: CipherSuite("AESCCM", 16, "SHA256", 8),
    **dict.fromkeys((0x009C, 0x009E, 0xC02B, 0xC02F), _AES128),
    **dict.fromkeys((0x009D, 0x009F, 0xC02C, 0xC030), _AES256),
    **dict.fromkeys((0xCCA8, 0xCCA9, 0xCCAA), _CHACHA),
}
"""Supported cipher suites by their number in the TLS registry of IANA."""


class RecordCipher:
    """The cipher of one direction, with its sequence number."""

    def __init__(self, suite: CipherSuite, key: bytes, iv: bytes, *, tls13: bool) -> None:
        self._suite = suite
        self._key = key
        self._iv = iv
        self._tls13 = tls13
        self._sequence = 0
        self._aead = _aead(suite, key)

    def __getstate__(self) -> tuple[Any, ...]:
        """Return the state to pickle: the cipher itself is an object of OpenSSL."""
        return self._suite, self._key, self._iv, self._tls13, self._sequence

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._suite, self._key, self._iv, self._tls13, self._sequence = state
        if self._suite not in SUITES.values():
            raise ValueError(f"unknown cipher suite {self._suite}")
        self._aead = _aead(self._suite, self._key)

    def decrypt(self, kind: int, version: int, fragment: bytes) -> tuple[int, bytes]:
        """Return content type and plaintext of the next record. Raise ValueError if the record is not authentic."""
        from cryptography.exceptions import InvalidTag

        suite = self._suite
        explicit = 0 if self._tls13 else suite.explicit_nonce
        size = len(fragment) - explicit - suite.tag_size
        if size < 0:
            raise ValueError("the record is too short")
        if self._tls13:
            about = _header(kind, version, len(fragment))
        else:
            about = _sequence(self._sequence) + _header(kind, version, size)
        nonce = self._iv + fragment[:explicit] if explicit else self._counted_nonce()
        try:
            plain = self._aead.decrypt(nonce, fragment[explicit:], about)
        except InvalidTag:
            raise ValueError("the record is not authentic") from None
        self._sequence += 1
        if not self._tls13:
            return kind, plain
        content = plain.rstrip(b"\0")
        if not content:
            raise ValueError("the record has no content type")
        return content[-1], content[:-1]

    def _counted_nonce(self) -> bytes:
        number = int.from_bytes(self._iv, "big") ^ self._sequence
        return number.to_bytes(len(self._iv), "big")


def _aead(suite: CipherSuite, key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import aead

    kind: Any = getattr(aead, suite.aead)
    return kind(key, suite.tag_size) if suite.aead == "AESCCM" else kind(key)


def record_ciphers_of_master(
    suite: CipherSuite, master: bytes, client_random: bytes, server_random: bytes
) -> tuple[RecordCipher, RecordCipher]:
    """Return the ciphers of the client and of the server for TLS 1.2."""
    iv_size = 12 - suite.explicit_nonce
    block = _prf(suite, master, b"key expansion" + server_random + client_random, 2 * (suite.key_size + iv_size))
    keys, ivs = block[: 2 * suite.key_size], block[2 * suite.key_size :]
    client, server = (
        RecordCipher(
            suite,
            keys[side * suite.key_size : (side + 1) * suite.key_size],
            ivs[side * iv_size : (side + 1) * iv_size],
            tls13=False,
        )
        for side in (0, 1)
    )
    return client, server


def record_cipher_of_secret(suite: CipherSuite, secret: bytes) -> RecordCipher:
    """Return the cipher of a traffic secret for TLS 1.3."""
    key, iv = _expand(suite, secret, "key", suite.key_size), _expand(suite, secret, "iv", 12)
    return RecordCipher(suite, key, iv, tls13=True)


def next_secret(suite: CipherSuite, secret: bytes) -> bytes:
    """Return the traffic secret after a KeyUpdate."""
    return _expand(suite, secret, "traffic upd", len(secret))


def _digest(suite: CipherSuite) -> HashAlgorithm:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA384() if suite.digest == "SHA384" else hashes.SHA256()


def _prf(suite: CipherSuite, secret: bytes, seed: bytes, size: int) -> bytes:
    """Return bytes of the pseudorandom function of TLS 1.2 (RFC 5246, 5)."""
    from cryptography.hazmat.primitives.hmac import HMAC

    def mac(data: bytes) -> bytes:
        hmac = HMAC(secret, _digest(suite))
        hmac.update(data)
        return hmac.finalize()

    found, block = b"", seed
    while len(found) < size:
        block = mac(block)
        found += mac(block + seed)
    return found[:size]


def _expand(suite: CipherSuite, secret: bytes, label: str, size: int) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446, 7.1)."""
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    name = b"tls13 " + label.encode("ascii")
    info = _length(size) + bytes((len(name),)) + name + b"\0"
    return HKDFExpand(_digest(suite), size, info).derive(secret)
