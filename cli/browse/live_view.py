"""The application on the capture that `pcli proxy --browse` and `pcli broker --browse` write."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.proxy import Proxy


def check_terminal(*, web: bool = False) -> None:
    """Raise LocalError if Textual is not installed, or if there is no terminal of a sufficient size.

    ``web`` states that the application is served to a web browser. The process that a page runs has no terminal either.
    """
    try:
        import numpy  # noqa: F401
        import textual  # noqa: F401
    except ModuleNotFoundError:
        raise LocalError("browse requires pulsar-pcli[tui]") from None
    if web or _is_served():
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LocalError("browse requires a terminal; pcli dissect prints frames as text")
    if not sys.stderr.isatty():
        raise LocalError("browse draws on stderr, which is redirected: omit 2>")
    from pcli.cli.browse.frame_views import size_error

    error = size_error(*os.get_terminal_size(sys.stdout.fileno()))
    if error:
        raise LocalError(error)


def _is_served() -> bool:
    """Return whether this process runs for a page of ``--web``."""
    return os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver")


def end_with_web_server() -> None:
    """End this process when the server of ``--web`` that has started it no longer exists."""
    server = os.getppid()

    def watch() -> None:
        while os.getppid() == server:
            time.sleep(1)
        os._exit(0)

    if _is_served():
        threading.Thread(target=watch, daemon=True).start()


def browse_server(path: str, title: str, proxy: Proxy | None = None) -> None:
    """Show the frames of a capture that a server in this process writes, until the user quits.

    ``proxy`` is the server if its network faults can be changed.
    """
    from pcli.cli.browse.browse_app import BrowseApp
    from pcli.cli.browse.frame_views import BrowseOptions
    from pcli.cli.browse.live_sources import follow_capture
    from pcli.codec.capture import ReadOptions
    from pcli.codec.observe.payload_contents import Contents

    source = follow_capture(path, ReadOptions(), Contents())
    try:
        options = BrowseOptions(title, follow=True, proxy=proxy)
        BrowseApp(source.frames, options, source.build, source.inputs).run()
    finally:
        source.close()
