"""Output that `pcli broker` and `pcli proxy` share: the URLs at the start, and the log of live connections."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pcli.cli.common.output import json_text, write_line
from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.common.signals import StopEvent
    from pcli.cli.servers.live_log import LiveLog


def open_log(kind: str, filter_: str, stop: StopEvent, *, json: bool) -> LiveLog | None:
    """Return the log that prints ``frames`` or ``events`` on stdout, or None if ``kind`` is ``quiet``.

    ``stop`` is set when stdout is closed. Raises LocalError if the filter is invalid or combined with ``quiet``.
    """
    if kind == "quiet":
        if filter_:
            raise LocalError("-Y selects lines of the log: it cannot be used with --log quiet")
        return None
    from pcli.cli.servers.live_log import LiveLog

    return LiveLog(events=kind == "events", filter_=filter_, json=json, on_closed=stop.set)


def print_urls(name: str, urls: dict[str, Any], *, json: bool) -> None:
    """Print the URLs of a server that has started. ``name`` is ``broker`` or ``proxy``."""
    if json:
        write_line(json_text(urls))
    else:
        write_line(f"{name} service URL  {urls['service_url']}")
        for key, title in (
            ("http_url", "web service URL"),
            ("service_url_tls", f"{name} service URL"),
            ("http_url_tls", "web service URL"),
            ("control_url", "control URL"),
            ("metrics_url", "metrics URL"),
        ):
            if urls.get(key):
                write_line(f"{title:<{len(name) + 14}}{urls[key]}")
    sys.stdout.flush()
