"""The application on the capture that `pcli proxy --browse` and `pcli broker --browse` write."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pcli.codec.errors import LocalError

if TYPE_CHECKING:
    from pcli.replay.proxy import Proxy

__all__ = ["browse_server", "check_terminal"]


def check_terminal(*, web: bool = False) -> None:
    """Raise LocalError if Textual is not installed, or if there is no terminal of a sufficient size.

    ``web`` states that the application is served to a web browser. The process that a page runs has no terminal either.
    """
    try:
        import numpy  # noqa: F401
        import textual  # noqa: F401
    except ModuleNotFoundError:
        raise LocalError("browse requires pulsar-pcli[tui]") from None
    if web or os.environ.get("TEXTUAL_DRIVER", "").endswith(":WebDriver"):
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LocalError("browse requires a terminal; pcli dissect prints frames as text")
    from pcli.cli.browse.frame_views import size_error

    error = size_error(*os.get_terminal_size(sys.stdout.fileno()))
    if error:
        raise LocalError(error)


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
