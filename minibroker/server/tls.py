"""TLS of both ports: certificates that are reloaded when their files change, and one log line for a failed handshake.

Asyncio and uvloop call `ServerContext.wrap_bio` for each new connection. They report no failed handshakes, so the SSL
object logs them.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from typing import Self

    from pcli.minibroker.settings import Settings

_log: Final = logging.getLogger("pcli.minibroker")


class _Connection(ssl.SSLObject):
    """The TLS state of one connection."""

    def do_handshake(self) -> None:
        """Continue the handshake. Log an error that ends it."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as fault:
            _log.warning("a TLS handshake failed: %s", _reason(fault))
            raise


class ServerContext(ssl.SSLContext):
    """The context of the TLS ports. Each new connection uses the certificates that are in the files."""

    _settings: Settings
    _files: list[Path]
    _modified: list[int]
    _current: ssl.SSLContext
    _checked: float

    def __new__(cls, settings: Settings) -> Self:
        """Create a context for servers."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, settings: Settings) -> None:
        """Load the files. Raises LocalError if one is missing or invalid."""
        names = (settings.tlsCertificateFilePath, settings.tlsKeyFilePath, settings.tlsTrustCertsFilePath)
        if not names[0] or not names[1]:
            raise LocalError("a TLS port requires tlsCertificateFilePath and tlsKeyFilePath")
        self._settings = settings
        self._files = [Path(name) for name in names if name]
        self._load()

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Return the TLS state of a new connection.

        The files are checked for changes every ``tlsCertRefreshCheckDurationSec`` seconds, or for every connection if
        this setting is 0. If the changed files are invalid, the old certificate stays in use.
        """
        if time.monotonic() - self._checked >= self._settings.tlsCertRefreshCheckDurationSec:
            try:
                if self._modification_times() != self._modified:
                    self._load()
            except LocalError as fault:
                _log.error("the changed certificates are not used: %s", fault.text)
            self._checked = time.monotonic()
        return self._current.wrap_bio(*arguments, **options)

    def _modification_times(self) -> list[int]:
        times = []
        for file in self._files:
            try:
                times.append(file.stat().st_mtime_ns)
            except OSError as fault:
                raise LocalError(f"{file}: {_reason(fault)}") from None
        return times

    def _load(self) -> None:
        settings = self._settings
        modified = self._modification_times()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.sslobject_class = _Connection
        certificate, key, trusted = (
            settings.tlsCertificateFilePath,
            settings.tlsKeyFilePath,
            settings.tlsTrustCertsFilePath,
        )
        try:
            context.load_cert_chain(certificate, key, lambda: _refuse_encrypted(key))
        except OSError as fault:
            raise LocalError(
                f"{certificate} and {key}: not a certificate and its private key (PEM): {_reason(fault)}"
            ) from None
        if trusted:
            try:
                context.load_verify_locations(trusted)
            except OSError as fault:
                raise LocalError(f"{trusted}: not a file of certificates (PEM): {_reason(fault)}") from None
            context.verify_mode = ssl.CERT_OPTIONAL
        if settings.tlsRequireTrustedClientCertOnConnect:
            context.verify_mode = ssl.CERT_REQUIRED
        self._current, self._modified, self._checked = context, modified, time.monotonic()


def certificate_role(transport: asyncio.BaseTransport) -> str:
    """Return the common name of the client's verified certificate, or an empty string."""
    certificate = transport.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    return names[0] if names else ""


def _refuse_encrypted(key: str) -> str:
    """Raise LocalError instead of returning the password of a key. OpenSSL would read it from the terminal."""
    raise LocalError(f"{key}: the private key is encrypted: decrypt it, for example with openssl pkey")


def _reason(fault: OSError) -> str:
    """Return the reason of an SSLError without its library and source line, or else the text of an OSError."""
    if isinstance(fault, ssl.SSLError) and fault.reason:
        return fault.reason.lower().replace("_", " ")
    return (fault.strerror or str(fault)).lower()
