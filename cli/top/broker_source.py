"""Statistics of a broker for `pcli top`, from the REST API: ``GET …/namespaces/NS/topics``, then ``…/TOPIC/stats``.

Rules of this file
1. An error in the first poll ends the command. After a later error, the page shows the last statistics and the error.
2. A topic that was deleted meanwhile (404) is omitted. At most MAX_TOPICS topics are requested.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pcli.cli.common.admin_api import NOT_FOUND, AdminApi, topic_path
from pcli.cli.common.output import Exit
from pcli.cli.top.rows import Snapshot
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.service_url import Security

MAX_TOPICS: Final = 200
"""Maximum number of topics. Each topic takes one request."""


class BrokerSource:
    """A source that requests the topics of some namespaces from the web service at ``url``."""

    def __init__(self, url: str, namespaces: Sequence[str], security: Security) -> None:
        """Raise LocalError if the URL is invalid, a namespace is malformed, or a file cannot be read."""
        self._api = AdminApi("--broker", url, security)
        for one in namespaces:
            if one.count("/") != 1:
                raise LocalError(f"--namespace {one}: write tenant/namespace")
        self._namespaces = namespaces
        self._last = Snapshot(0)

    @property
    def title(self) -> str:
        """The name of the source."""
        return f"{self._api.url} {', '.join(self._namespaces)}"

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
        names = [name for one in self._namespaces for name in self._api.get(f"namespaces/{one}/topics")]
        found = {}
        for name in names[:MAX_TOPICS]:
            stats = self._api.get(f"{topic_path(name)}/stats?getPreciseBacklog=true", missing=(NOT_FOUND,))
            if stats is not None:
                found[name] = stats
        return found, f"{MAX_TOPICS} of {len(names)} topics" if len(names) > MAX_TOPICS else ""
