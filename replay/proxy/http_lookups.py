"""The web service through the proxy, for clients with an ``http://`` service URL. Only lookups are changed.

Rules of this file
1. A connection carries one request with its body and one response. The response contains ``Connection: close``.
2. The proxy itself follows the redirect of a lookup, because the final response must also contain proxy addresses.
3. If the web service does not respond, the proxy responds with status 502 and the reason.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urlsplit

from pcli.codec.errors import LocalError
from pcli.replay.event_loop import now_ns
from pcli.replay.proxy.address_rewriting import rewritten_lookup
from pcli.replay.proxy.listener import reason_of
from pcli.replay.service_url import ServiceUrl

if TYPE_CHECKING:
    import ssl

    from pcli.codec.capture.tap import Address, Tap
    from pcli.replay.proxy.listener import Listener

_LOOKUP: Final = ("/lookup/v2/topic/", "/lookup/v2/destination/")
_HOP: Final = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "content-length", "upgrade", "host", "accept-encoding")
)
"""Headers that apply to a single connection (RFC 9110, 7.6.1) or that the proxy sets. Accept-Encoding is removed
because the proxy rewrites response bodies."""
_LARGEST: Final = 64 << 20
"""Maximum size of a response in bytes."""
_BODILESS: Final = ("204", "304")
"""Status codes of responses without a body. Like responses to HEAD, these responses are sent without a length (RFC
9110, 8.6)."""
_REDIRECTS: Final = 20
"""Maximum number of redirects; the Java client's HttpClient has the same limit."""
_REQUEST_TIMEOUT: Final = 30.0
"""Seconds to wait for a request."""
_TIMEOUT: Final = 60.0
"""Seconds to wait for the web service's response."""
_Response = tuple[str, list[tuple[str, str]], bytes]
"""Status, headers and body of a response."""


class Lookups:
    """The HTTP listener."""

    def __init__(self, listener: Listener, to: ServiceUrl, http_to: ServiceUrl, tls: ssl.SSLContext | None) -> None:
        """Create a listener. ``to`` is its broker, whose address most lookup responses contain.

        ``http_to`` is the web service.
        """
        self._listener = listener
        self._to = to
        self._http_to = http_to
        self._tls = tls
        self.taps: list[Tap] = []
        """Taps, which receive all bytes."""

    def start(self, port: int) -> str:
        """Listen and return the URL for clients. Raises LocalError if the port is in use."""
        sock = self._listener.bound_socket(port)
        self._listener.serve(sock, self._serve)
        return f"http://{self._listener.host}:{sock.getsockname()[1]}"

    async def _serve(self, client: socket.socket, address: Address) -> None:
        number = self._listener.number()
        for tap in self.taps:
            tap.opened(number, address, client.getsockname()[:2], now_ns())
        reader, writer = await asyncio.open_connection(sock=client)
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                request = await _Request.read(reader)
            self._pass_to_taps(number, request.raw, from_client=True)
            response = await self._respond(request)
            self._pass_to_taps(number, response, from_client=False)
            writer.write(response)
            await writer.drain()
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # no response is possible: the client disconnected or sent no valid request, or the proxy stops
        finally:
            writer.close()
            for tap in self.taps:
                tap.closed(number, now_ns(), from_client=False, reset=False, reason="")

    def _pass_to_taps(self, number: int, data: bytes, *, from_client: bool) -> None:
        for tap in self.taps:
            tap.passed(number, data, now_ns(), from_client=from_client)

    async def _respond(self, request: _Request) -> bytes:
        """Return the complete response, consisting of head and body."""
        try:
            async with asyncio.timeout(_TIMEOUT):
                status, headers, body = await self._request_from_service(request)
        except (OSError, ValueError, HTTPException, LocalError) as fault:
            reason = reason_of(fault) if isinstance(fault, OSError) else str(fault)
            self._listener.note(f"no web service at {self._http_to}: {reason}")
            status, headers, body = "502 Bad Gateway", [], f"{self._http_to}: {reason}\n".encode()
        if request.is_lookup and status.startswith("200"):
            body = rewritten_lookup(body, self._listener.addresses, self._to)
        own = [("Connection", "close")]
        if request.method != "HEAD" and not status.startswith(_BODILESS):
            own.append(("Content-Length", str(len(body))))
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in [*headers, *own]), "", ""]
        return "\r\n".join(lines).encode("latin-1") + body

    async def _request_from_service(self, request: _Request) -> _Response:
        """Return the web service's response. Raises OSError, ValueError, HTTPException or LocalError."""
        url, target = self._http_to, request.target
        for _ in range(_REDIRECTS):
            response = await self._exchange(url, target, request)
            status, headers, _ = response
            location = next((value for name, value in headers if name.lower() == "location"), "")
            if not request.is_lookup or not status.startswith("3") or not location:
                return response
            there = urlsplit(location)
            target = f"{there.path}?{there.query}" if there.query else there.path
            if there.netloc:
                url = ServiceUrl.parse(f"{there.scheme}://{there.netloc}")
        raise HTTPException(f"more than {_REDIRECTS} redirects")

    async def _exchange(self, url: ServiceUrl, target: str, request: _Request) -> _Response:
        """Send one request on a new connection and return the response."""
        host, port = url.hosts[0]
        reader, writer = await asyncio.open_connection(host, port, ssl=(self._tls or True) if url.tls else None)
        try:
            writer.write(request.to(target, str(ServiceUrl(url.scheme, url.hosts[:1])).partition("://")[2]))
            data = await _read_to_end(reader)
        finally:
            writer.close()
        with HTTPResponse(cast("Any", _BytesSocket(data)), method=request.method) as response:
            response.begin()
            headers = [pair for pair in response.getheaders() if pair[0].lower() not in _HOP]
            return f"{response.status} {response.reason}", headers, response.read()


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    """Read to the end of the stream. Raises ValueError if it is too large."""
    try:
        await reader.readexactly(_LARGEST)
    except asyncio.IncompleteReadError as end:
        return end.partial
    raise ValueError("its response is too large")


class _BytesSocket:
    """Bytes with the method `makefile`, the only socket method that HTTPResponse uses."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        """Return the data as a file."""
        return BytesIO(self._data)


@dataclass(frozen=True, slots=True)
class _Request:
    """A parsed request."""

    raw: bytes
    """Head and body of the request."""
    method: str
    target: str
    headers: list[tuple[str, str]]
    """The headers, except headers that apply to a single connection."""
    body: bytes

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> Self:
        """Read a request. Raises ValueError, EOFError or LimitOverrunError if it is invalid or has no length."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, _ = first.split(" ")
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        given = {name.lower(): value for name, value in headers}
        if given.get("transfer-encoding", "").lower() == "chunked":
            raw, body = await _chunks(reader)
        elif "transfer-encoding" in given or not 0 <= (size := int(given.get("content-length", 0))) <= _LARGEST:
            raise ValueError("no known length")
        else:
            raw = body = await reader.readexactly(size)
        return cls(head + raw, method, target, [pair for pair in headers if pair[0].lower() not in _HOP], body)

    def to(self, target: str, host: str) -> bytes:
        """Return the bytes of the request for this target and host."""
        own = [("Host", host), ("Connection", "close")]
        if self.body:
            own.append(("Content-Length", str(len(self.body))))
        lines = [f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in [*own, *self.headers])]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body

    @property
    def is_lookup(self) -> bool:
        """Whether the response contains a broker's address."""
        return self.target.startswith(_LOOKUP)


async def _chunks(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return a chunked body (RFC 9112, 7.1), raw and decoded. Raises ValueError if it is invalid or too large."""
    raw, body = bytearray(), bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if not 0 <= size <= _LARGEST - len(body):
            raise ValueError("too large")
        if size == 0:
            break
        data = await reader.readexactly(size + 2)
        body += data[:-2]
        raw += line + data
    while line != b"\r\n":  # trailers up to the empty line
        raw += line
        line = await reader.readuntil(b"\r\n")
    return bytes(raw + line), bytes(body)
