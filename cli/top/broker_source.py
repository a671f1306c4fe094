"""Statistics of a broker for `pcli top`, from the REST API: ``GET …/namespaces/NS/topics``, then ``…/TOPIC/stats``.

Rules of this file
1. An error in the first poll ends the command. After a later error, the page shows the last statistics and the error.
2. A topic that was deleted meanwhile (404) is omitted. At most MAX_TOPICS topics are requested.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pcli.cli.common.output import Exit
from pcli.cli.top.rows import Snapshot
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.service_url import Security

__all__ = ["MAX_TOPICS", "BrokerSource"]

MAX_TOPICS: Final = 200
"""Maximum number of topics. Each topic takes one request."""

_TIMEOUT: Final = 10.0
"""Seconds until a request times out."""

_GONE: Final = 404


class BrokerSource:
    """A source that requests the topics of some namespaces from the web service at ``url``."""

    def __init__(self, url: str, namespaces: Sequence[str], security: Security) -> None:
        """Raise LocalError if the URL is invalid, a namespace is malformed, or a file cannot be read."""
        from pcli.replay.service_url import ServiceUrl

        service = ServiceUrl.parse(url)
        if not service.http:
            raise LocalError(f"--broker {url}: this is not the URL of a web service: write http://host:8080")
        for one in namespaces:
            if one.count("/") != 1:
                raise LocalError(f"--namespace {one}: write tenant/namespace")
        self._url = str(service).partition(",")[0]
        self._namespaces = namespaces
        self._security = security
        self._context = security.context() if service.tls else None
        self._last = Snapshot(0)

    @property
    def title(self) -> str:
        """The name of the source."""
        return f"{self._url} {', '.join(self._namespaces)}"

    def poll(self) -> Snapshot:
        """Return the current statistics. Raises LocalError if the first request fails."""
        try:
            topics, note = self._topics()
        except LocalError as fault:
            if not self._last.time_ns:
                raise
            return Snapshot(self._last.time_ns, self._last.topics, note=str(fault))
        self._last = Snapshot(time.time_ns(), topics, note=note)
        return self._last

    def close(self) -> Exit:
        """Return the exit code. No connection is open between polls."""
        return Exit.FINE

    def _topics(self) -> tuple[dict[str, Any], str]:
        names = [name for one in self._namespaces for name in self._get(f"namespaces/{one}/topics")]
        found = {}
        for name in names[:MAX_TOPICS]:
            domain, _, rest = name.partition("://")
            tenant, namespace, local = rest.split("/", 2)
            path = f"{domain}/{tenant}/{namespace}/{quote(local, safe='')}/stats?getPreciseBacklog=true"
            stats = self._get(path)
            if stats is not None:
                found[name] = stats
        return found, f"{MAX_TOPICS} of {len(names)} topics" if len(names) > MAX_TOPICS else ""

    def _get(self, path: str) -> Any:
        """Return the JSON of a response, or None if the topic does not exist."""
        from pcli.replay.client.connection.http_fetch import fetch

        headers = {"Accept": "application/json", **self._security.headers()}
        status, body = fetch(f"{self._url}/admin/v2/{path}", headers, _TIMEOUT, self._context)
        if status == _GONE and path.endswith("true"):
            return None
        if status != 200:
            raise LocalError(f"{self._url}: {_reason(status, body)}")
        try:
            return json.loads(body)
        except ValueError:
            raise LocalError(f"{self._url} returned a response that is not JSON") from None


def _reason(status: int, body: bytes) -> str:
    text = body.decode(errors="replace")
    if not status:
        return text
    try:
        return f"status {status}: {json.loads(text)['reason']}"
    except (ValueError, KeyError, TypeError):
        return f"status {status}"
