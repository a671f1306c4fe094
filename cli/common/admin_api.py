"""GET requests to the admin API of a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.service_url import Security

_TIMEOUT: Final = 10.0
"""Seconds until a request times out."""

NOT_FOUND: Final = 404


class AdminApi:
    """The admin API of the web service at a URL."""

    def __init__(self, option: str, url: str, security: Security) -> None:
        """Raise LocalError if the URL is invalid or a file cannot be read. ``option`` is the option with the URL."""
        from pcli.replay.service_url import ServiceUrl

        service = ServiceUrl.parse(url)
        if not service.http:
            raise LocalError(f"{option} {url}: this is not the URL of a web service: write http://host:8080")
        self.url = str(service).partition(",")[0]
        self._security = security
        self._context = security.context() if service.tls else None

    def get(self, path: str, missing: tuple[int, ...] = ()) -> Any:
        """Return the JSON of a response; None for a status in ``missing`` and for an empty response.

        Raises LocalError for any other status, if there is no response, and if the response is not JSON.
        """
        from pcli.replay.client.connection.http_fetch import fetch

        headers = {"Accept": "application/json", **self._security.headers()}
        status, body = fetch(f"{self.url}/admin/v2/{path}", headers, _TIMEOUT, self._context)
        if status in missing or status == 204:
            return None
        if status != 200:
            raise LocalError(f"{self.url}: {_reason(status, body)}")
        try:
            return json.loads(body) if body else None
        except (ValueError, RecursionError):
            raise LocalError(f"{self.url} returned a response that is not JSON") from None


def topic_path(topic: str) -> str:
    """Return the path of a topic with this full name: ``persistent/public/default/orders``."""
    domain, _, rest = topic.partition("://")
    tenant, namespace, local = rest.split("/", 2)
    return f"{domain}/{quote(tenant, safe='')}/{quote(namespace, safe='')}/{quote(local, safe='')}"


def _reason(status: int, body: bytes) -> str:
    text = body.decode(errors="replace")
    if not status:
        return text
    try:
        return f"status {status}: {' '.join(str(json.loads(text)['reason']).split())[:200]}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"status {status}"
