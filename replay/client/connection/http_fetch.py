"""A blocking HTTP GET for lookups, to be called in a thread."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final

from pcli.replay.client.connection.connect_errors import reason_for

if TYPE_CHECKING:
    from ssl import SSLContext

_MAX_BODY: Final = 64 << 20
"""Maximum bytes of a response, as in the proxy."""


def fetch(url: str, headers: dict[str, str], timeout: float, context: SSLContext | None) -> tuple[int, bytes]:
    """Return the status and body after redirects, or status 0 and the reason if there is no response.

    ``timeout`` is in seconds.
    """
    no_proxies = urllib.request.ProxyHandler({})
    opener = urllib.request.build_opener(no_proxies, urllib.request.HTTPSHandler(context=context))
    try:
        return _response(opener, urllib.request.Request(url, headers=headers), timeout)  # noqa: S310
    except HTTPException:
        return 0, b"not an HTTP response"
    except OSError as fault:
        cause = fault.reason if isinstance(fault, urllib.error.URLError) else fault
        text = reason_for(cause, tls=url.startswith("https")) if isinstance(cause, Exception) else str(cause)
        return 0, text.encode()


def _response(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, timeout: float
) -> tuple[int, bytes]:
    try:
        with opener.open(request, timeout=timeout) as response:
            return response.status, _body(response)
    except urllib.error.HTTPError as fault:
        with fault:
            return fault.code, _body(fault)


def _body(response: Any) -> bytes:
    body: bytes = response.read(_MAX_BODY + 1)
    if len(body) > _MAX_BODY:
        raise OSError(f"the response has more than {_MAX_BODY >> 20} MB")
    return body
