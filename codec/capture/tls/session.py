"""The decryption of one TLS connection, from its handshake on.

Rules of this file
1. The bytes of both directions are added in the order of their packets, so that ServerHello precedes the encrypted
   records.
2. In TLS 1.2 a direction is encrypted after its ChangeCipherSpec. In TLS 1.3 all records after ServerHello are
   encrypted: with the handshake secret up to Finished, then with the traffic secret, which KeyUpdate replaces.
3. A record that cannot be decrypted ends the decryption of its direction, because later records depend on it. A
   ServerHello with an unsupported version or cipher suite ends the decryption of both directions.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

from pcli.codec.capture.tls.key_log import KeyLog
from pcli.codec.capture.tls.record_cipher import (
    SUITES,
    CipherSuite,
    RecordCipher,
    next_secret,
    record_cipher_of_secret,
    record_ciphers_of_master,
)

_CHANGE_CIPHER_SPEC: Final = 20
_HANDSHAKE: Final = 22
_APPLICATION_DATA: Final = 23

_CLIENT_HELLO: Final = 1
_SERVER_HELLO: Final = 2
_FINISHED: Final = 20
_KEY_UPDATE: Final = 24

_TLS12: Final = 0x0303
_TLS13: Final = 0x0304
_SUPPORTED_VERSIONS: Final = 43
_MAX_RECORD: Final = 16384 + 2048
_MAX_HANDSHAKE: Final = 1 << 18

_RETRY: Final = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a HelloRetryRequest (RFC 8446, 4.1.3)."""

_record = Struct(">BHH").unpack_from
_u16 = Struct(">H").unpack_from


MISSING: Final = "the decryption of TLS needs cryptography: pip install 'pulsar-pcli[crypto]'"


class TlsError(Exception):
    """A connection or a direction that cannot be decrypted; the text is the reason."""


class _Side:
    """One direction."""

    def __init__(self, name: str) -> None:
        self.name = name
        """CLIENT or SERVER."""
        self.bytes = bytearray()
        self.handshake = bytearray()
        self.cipher: RecordCipher | None = None
        self.secret = b""
        """The current traffic secret of TLS 1.3."""


class TlsSession:
    """The state of one TLS connection."""

    def __init__(self, key_log: KeyLog) -> None:
        self._key_log = key_log
        self._sides = {True: _Side("CLIENT"), False: _Side("SERVER")}
        self._client_random = b""
        self._server_random = b""
        self._suite: CipherSuite | None = None
        self._version = 0
        self._unsupported = ""
        """Why neither direction can be decrypted, or an empty string."""

    def feed(self, data: bytes, *, from_client: bool) -> bytes:
        """Add the next bytes of a direction. Return the application data that they complete. Raise TlsError."""
        side = self._sides[from_client]
        side.bytes += data
        found = bytearray()
        position = 0
        while len(side.bytes) - position >= 5:
            kind, version, size = _record(side.bytes, position)
            if size > _MAX_RECORD:
                raise TlsError(f"a TLS record of {size} bytes: bytes are missing or damaged")
            if len(side.bytes) - position < 5 + size:
                break
            fragment = bytes(side.bytes[position + 5 : position + 5 + size])
            position += 5 + size
            try:
                found += self._process(side, kind, version, fragment)
            except ImportError:
                raise TlsError(MISSING) from None
        del side.bytes[:position]
        return bytes(found)

    def _process(self, side: _Side, kind: int, version: int, fragment: bytes) -> bytes:
        """Process one record; return its application data."""
        if self._unsupported:
            raise TlsError(self._unsupported)
        if kind == _CHANGE_CIPHER_SPEC:
            if self._version == _TLS12:
                self._encrypt_tls12(side)
            return b""
        if side.cipher is None and self._version == _TLS13 and kind == _APPLICATION_DATA:
            self._use_secret(side, self._secret(f"{side.name}_HANDSHAKE_TRAFFIC_SECRET"))
        if side.cipher is not None:
            try:
                kind, fragment = side.cipher.decrypt(kind, version, fragment)
            except ValueError as error:
                raise TlsError(f"a TLS record cannot be decrypted with the key log: {error}") from None
        elif kind == _APPLICATION_DATA:
            raise TlsError("the capture does not contain the TLS handshake of this connection")
        if kind == _APPLICATION_DATA:
            return fragment
        if kind == _HANDSHAKE:
            self._handshake(side, fragment)
        return b""

    # -- handshake messages

    def _handshake(self, side: _Side, fragment: bytes) -> None:
        buffer = side.handshake
        buffer += fragment
        while len(buffer) >= 4:
            size = int.from_bytes(buffer[1:4], "big")
            if size > _MAX_HANDSHAKE:
                raise TlsError(f"a TLS handshake message of {size} bytes")
            if len(buffer) < 4 + size:
                return
            kind, body = buffer[0], bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            if kind == _CLIENT_HELLO and len(body) >= 34:
                self._client_random = body[2:34]
            elif kind == _SERVER_HELLO:
                self._server_hello(body)
            elif kind == _FINISHED and self._version == _TLS13:
                self._use_secret(side, self._secret(f"{side.name}_TRAFFIC_SECRET_0"))
            elif kind == _KEY_UPDATE and self._suite is not None and side.secret:
                self._use_secret(side, next_secret(self._suite, side.secret))

    def _server_hello(self, body: bytes) -> None:
        if body[2:34] == _RETRY:
            return
        try:
            place = 35 + body[34]
            number = _u16(body, place)[0]
            version = _selected_version(body, place + 3)
        except (IndexError, struct_error) as error:
            raise TlsError("the ServerHello of the TLS handshake is damaged") from error
        self._server_random, self._version, self._suite = body[2:34], version, SUITES.get(number)
        if version not in (_TLS12, _TLS13):
            self._unsupported = f"TLS version {version:#06x} cannot be decrypted, only TLS 1.2 and 1.3"
        elif self._suite is None:
            self._unsupported = (
                f"the cipher suite {number:#06x} cannot be decrypted, only AES-GCM, AES-CCM and ChaCha20"
            )
        if self._unsupported:
            raise TlsError(self._unsupported)

    # -- keys

    def _secret(self, label: str) -> bytes:
        secret = self._key_log.secret(self._client_random, label)
        if secret is None:
            raise TlsError(
                f"the key log has no {label} for this connection (client random {self._client_random.hex()[:16]}…)"
            )
        return secret

    def _use_secret(self, side: _Side, secret: bytes) -> None:
        assert self._suite is not None
        side.secret, side.cipher = secret, record_cipher_of_secret(self._suite, secret)

    def _encrypt_tls12(self, side: _Side) -> None:
        assert self._suite is not None
        master = self._secret("CLIENT_RANDOM")
        ciphers = record_ciphers_of_master(self._suite, master, self._client_random, self._server_random)
        side.cipher = ciphers[side.name == "SERVER"]


def _selected_version(body: bytes, place: int) -> int:
    """Return the version of a ServerHello: that of its extension supported_versions, or else its version field."""
    if place + 2 <= len(body):
        end = place + 2 + _u16(body, place)[0]
        place += 2
        while place + 4 <= min(end, len(body)):
            kind, size = _u16(body, place)[0], _u16(body, place + 2)[0]
            if kind == _SUPPORTED_VERSIONS and size == 2:
                return int(_u16(body, place + 4)[0])
            place += 4 + size
    return int(_u16(body, 0)[0])
