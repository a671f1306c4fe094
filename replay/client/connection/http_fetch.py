"""A blocking HTTP GET for lookups, to be called in a thread."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING

from pcli.replay.client.connection.connect_errors import reason_for

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["fetch"]


def fetch(url: str, headers: dict[str, str], timeout: float, context: SSLContext | None) -> tuple[int, bytes]:
    """Return the status and body after redirects, or status 0 and the reason if there is no response.

    ``timeout`` is in seconds.
    """
    no_proxies = urllib.request.ProxyHandler({})
    opener = urllib.request.build_opener(no_proxies, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=timeout) as response:  # noqa: S310
            return response.status, response.read()
    except urllib.error.HTTPError as fault:
        with fault:
            return fault.code, fault.read()
    except HTTPException:
        return 0, b"not an HTTP response"
    except OSError as fault:
        cause = fault.reason if isinstance(fault, urllib.error.URLError) else fault
        text = reason_for(cause, tls=url.startswith("https")) if isinstance(cause, Exception) else str(cause)
        return 0, text.encode()
