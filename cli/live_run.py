"""What `broker` and `proxy` have in common while they run: a log as things happen, and an end when somebody says so."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.cli.live_log import LiveLog

__all__ = ["open_log", "stop_event"]


def stop_event() -> threading.Event:
    """What is set by Ctrl-C and SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def open_log(kind: str, filter_: str, stop: threading.Event, *, json: bool) -> LiveLog | None:
    """The log on stdout, ``frames`` or ``events``; None for ``quiet``. LocalError: the filter is wrong, or for nothing.

    ``stop`` is set when stdout takes no more.
    """
    if kind == "quiet":
        if filter_:
            raise LocalError("-Y chooses from what is shown: it does not go with --log quiet")
        return None
    from pcli.cli.live_log import LiveLog

    return LiveLog(events=kind == "events", filter_=filter_, json=json, on_closed=stop.set)
