"""Where a broker is, and how one proves who one is to it: service URLs, tokens, TLS.

Rules of this file
1. A URL is Pulsar's (ServiceURI): ``pulsar://host:port,host:port``, ``pulsar+ssl://``, ``http://``, ``https://``; a
   bare ``host`` or ``host:port`` is ``pulsar://``. Ports that are not named are 6650, 6651, 80 and 443.
2. A token in a file is read at every connection, as the clients do (AuthenticationToken): tokens expire.
3. What can't be read is one LocalError with the path, before any connection is tried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.replay.sources.lazy_file import reason_of

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["Security", "ServiceUrl"]

_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}
_URL: Final = re.compile(r"(?:(?P<scheme>[a-z+]+)://)?(?P<hosts>[^/\s]+)/?", re.ASCII)
_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.%\w]+)\]|(?P<name>[^:\[\]@]+))(?::(?P<port>\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServiceUrl:
    """A service URL, read."""

    scheme: str
    """``pulsar``, ``pulsar+ssl``, ``http`` or ``https``."""
    hosts: tuple[tuple[str, int], ...]
    """Host and port, one or more; IPv6 addresses without brackets."""

    @classmethod
    def parse(cls, text: str) -> ServiceUrl:
        """LocalError when this is none."""
        match = _URL.fullmatch(text.strip())
        scheme = (match["scheme"] or "pulsar") if match else ""
        if match is None or scheme not in _PORTS:
            raise LocalError(f"{text!r} is no service URL: write pulsar://host:6650, or pulsar+ssl:// for TLS")
        return cls(scheme, tuple(_host(part, text, _PORTS[scheme]) for part in match["hosts"].split(",")))

    @property
    def tls(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme in ("pulsar+ssl", "https")

    @property
    def http(self) -> bool:
        """Whether lookups go by HTTP."""
        return self.scheme in ("http", "https")

    def __str__(self) -> str:
        hosts = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{','.join(hosts)}"


def _host(part: str, text: str, default: int) -> tuple[str, int]:
    match = _HOST.fullmatch(part)
    if match is None:
        raise LocalError(f"{text!r}: {part!r} is no host:port")
    port = int(match["port"] or default)
    if not 0 < port < 65536:
        raise LocalError(f"{text!r}: {port} is not a port")
    return match["six"] or match["name"], port


@dataclass(frozen=True, slots=True)
class Security:
    """How to prove who one is, and whom to trust."""

    token: str = ""
    """A token, or ``file:PATH`` of one; empty: none."""
    trust: str = ""
    """Path of a PEM file with the certificates to trust; empty: those of the system."""
    cert: str = ""
    """Path of a PEM file with one's own certificate, which is the authentication (``tls``) where there is no token."""
    key: str = ""
    """Path of its private key."""

    @property
    def method(self) -> str:
        """``auth_method_name`` of CONNECT."""
        return "token" if self.token else "tls" if self.cert else "none"

    def data(self) -> bytes:
        """``auth_data`` of CONNECT, read now. LocalError when the token's file can't be read."""
        if not self.token.startswith("file:"):
            return self.token.encode()
        path = self.token.removeprefix("file:").removeprefix("//")
        try:
            return Path(path).read_bytes().strip()
        except OSError as fault:
            raise LocalError(f"--token {self.token}: {reason_of(fault)}") from None

    def context(self) -> SSLContext:
        """What a TLS connection to a broker is made with; the host's name is checked. LocalError: a file is no use."""
        import ssl

        if bool(self.cert) != bool(self.key):
            raise LocalError("a certificate of one's own takes two files: --tls-cert and --tls-key")
        path = self.trust
        try:
            context = ssl.create_default_context(cafile=path or None)
            if self.cert:
                path = self.cert
                context.load_cert_chain(self.cert, self.key)
        except ssl.SSLError as fault:
            raise LocalError(f"{path}: no certificate or key that can be used ({fault.reason or fault})") from None
        except OSError as fault:
            raise LocalError(f"{path}: {reason_of(fault)}") from None
        return context
