"""Service URLs, and the credentials for a connection: tokens and TLS settings.

Rules of this file
1. A URL has Pulsar's syntax (ServiceURI): ``pulsar://host:port,host:port``, ``pulsar+ssl://``, ``http://``,
   ``https://``. A bare ``host`` or ``host:port`` means ``pulsar://``. The default ports are 6650, 6651, 80 and 443.
2. A token file is read for every connection, because tokens expire. The Java client does the same
   (AuthenticationToken).
3. An invalid value raises a LocalError before a connection is attempted. If a file is unusable, the error contains its
   path.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.replay.sources.lazy_file import reason_of

if TYPE_CHECKING:
    from ssl import SSLContext

_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}
_URL: Final = re.compile(r"(?:(?P<scheme>[a-z+]+)://)?(?P<hosts>[^/\s]+)/?", re.ASCII)
_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.%\w]+)\]|(?P<name>[^:\[\]@]+))(?::(?P<port>\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServiceUrl:
    """A parsed service URL."""

    scheme: str
    """The scheme: ``pulsar``, ``pulsar+ssl``, ``http`` or ``https``."""
    hosts: tuple[tuple[str, int], ...]
    """One or more hosts with ports. IPv6 addresses have no brackets."""

    @classmethod
    def parse(cls, text: str) -> ServiceUrl:
        """Parse a service URL. Raises LocalError if it is invalid."""
        if "@" in text:  # not repeated, because it may contain a password
            raise LocalError(f"the URL of {text.rpartition('@')[2]} contains a user: give --token or --basic instead")
        match = _URL.fullmatch(text.strip())
        scheme = (match["scheme"] or "pulsar") if match else ""
        if match is None or scheme not in _PORTS:
            raise LocalError(f"{text!r} is not a service URL: write pulsar://host:6650, or pulsar+ssl:// for TLS")
        return cls(scheme, tuple(_host(part, text, _PORTS[scheme]) for part in match["hosts"].split(",")))

    @property
    def tls(self) -> bool:
        """Whether connections use TLS."""
        return self.scheme in ("pulsar+ssl", "https")

    @property
    def http(self) -> bool:
        """Whether lookups use HTTP."""
        return self.scheme in ("http", "https")

    def __str__(self) -> str:
        hosts = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{','.join(hosts)}"


def _host(part: str, text: str, default: int) -> tuple[str, int]:
    match = _HOST.fullmatch(part)
    if match is None:
        raise LocalError(f"{text!r}: {part!r} is not host:port")
    port = int(match["port"] or default)
    if not 0 < port < 65536:
        raise LocalError(f"{text!r}: {port} is not a port")
    return match["six"] or match["name"], port


@dataclass(frozen=True, slots=True)
class Security:
    """The client's credentials and trusted certificates."""

    token: str = ""
    """A token, or ``file:PATH`` for a token file; empty if there is none."""
    basic: str = ""
    """``user:password``, or ``file:PATH`` for a file that contains it; used if there is no token."""
    trust: str = ""
    """Path of a PEM file that contains trusted certificates; if empty, the system's certificates are trusted."""
    cert: str = ""
    """Path of a PEM file that contains the client's certificate, used for authentication (``tls``) if there is
    neither a token nor a password."""
    key: str = ""
    """Path of the certificate's private key."""

    @property
    def method(self) -> str:
        """The ``auth_method_name`` in CONNECT."""
        return "token" if self.token else "basic" if self.basic else "tls" if self.cert else "none"

    def data(self) -> bytes:
        """Return the ``auth_data`` for CONNECT. Raises LocalError if the file that contains it is unreadable."""
        given = self.token or self.basic
        if not given.startswith("file:"):
            return given.encode()
        path = given.removeprefix("file:").removeprefix("//")
        try:
            return Path(path).read_bytes().strip()
        except OSError as fault:
            raise LocalError(f"--{self.method} {given}: {reason_of(fault)}") from None

    def headers(self) -> dict[str, str]:
        """Return the HTTP header with the token or password; none without both. Raises LocalError like `data`."""
        if self.method == "token":
            return {"Authorization": f"Bearer {self.data().decode(errors='replace')}"}
        if self.method == "basic":
            return {"Authorization": f"Basic {b64encode(self.data()).decode()}"}
        return {}

    def context(self) -> SSLContext:
        """Return the TLS context for a broker. It checks the host name. Raises LocalError if a file is unusable."""
        import ssl

        if bool(self.cert) != bool(self.key):
            raise LocalError("a client certificate needs two files: --tls-cert and --tls-key")
        path = self.trust
        try:
            context = ssl.create_default_context(cafile=path or None)
            if self.cert:
                path = self.cert
                context.load_cert_chain(self.cert, self.key)
        except ssl.SSLError as fault:
            raise LocalError(f"{path}: no usable certificate or key ({fault.reason or fault})") from None
        except OSError as fault:
            raise LocalError(f"{path}: {reason_of(fault)}") from None
        return context
