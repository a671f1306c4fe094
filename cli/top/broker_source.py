"""A broker's own figures for `pcli top`, asked by REST: ``GET …/namespaces/NS/topics``, then ``…/TOPIC/stats`` of each.

Rules of this file
1. What cannot be asked at the first time ends the command; later a line says so, and the last figures stay.
2. A topic that is gone meanwhile (404) is left out. Of more than MAX_TOPICS the first ones are asked.
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
"""Topics that are asked for each page: one request each."""

_TIMEOUT: Final = 10.0
"""Seconds for an answer."""

_GONE: Final = 404


class BrokerSource:
    """Asks the web service at ``url`` for the topics of some namespaces."""

    def __init__(self, url: str, namespaces: Sequence[str], security: Security) -> None:
        """LocalError for what is no web service URL or no namespace, and for files that are no use."""
        from pcli.replay.service_url import ServiceUrl

        service = ServiceUrl.parse(url)
        if not service.http:
            raise LocalError(f"--broker {url}: figures come from the web service: write http://host:8080")
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
        """What is looked at."""
        return f"{self._url} {', '.join(self._namespaces)}"

    def poll(self) -> Snapshot:
        """The figures of now. LocalError: the broker does not answer, and never has."""
        try:
            topics, note = self._topics()
        except LocalError as fault:
            if not self._last.time_ns:
                raise
            return Snapshot(self._last.time_ns, self._last.topics, note=str(fault))
        self._last = Snapshot(time.time_ns(), topics, note=note)
        return self._last

    def close(self) -> Exit:
        """Nothing is open between two questions."""
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
        """The answer's JSON; None: there is no such topic."""
        from pcli.replay.client.connection.http_fetch import fetch

        headers = {"Accept": "application/json"}
        if self._security.method == "token":
            headers["Authorization"] = f"Bearer {self._security.data().decode(errors='replace')}"
        status, body = fetch(f"{self._url}/admin/v2/{path}", headers, _TIMEOUT, self._context)
        if status == _GONE and path.endswith("true"):
            return None
        if status != 200:
            raise LocalError(f"{self._url}: {_reason(status, body)}")
        try:
            return json.loads(body)
        except ValueError:
            raise LocalError(f"{self._url} answers what is no answer of a broker") from None


def _reason(status: int, body: bytes) -> str:
    text = body.decode(errors="replace")
    if not status:
        return text
    try:
        return f"answers {status}: {json.loads(text)['reason']}"
    except (ValueError, KeyError, TypeError):
        return f"answers {status}"
