"""The entry point of `pcli`. It imports almost nothing, so that Ctrl-C prints no traceback from the start.

Importing the commands takes a third of a second, more on a busy machine. A user may press Ctrl-C meanwhile.
"""

from __future__ import annotations

__all__ = ["main"]

_INTERRUPTED = 130
"""`pcli.cli.common.output.Exit.INTERRUPTED`, available before anything is imported."""


def main() -> None:
    """Run the command line; the entry point of ``pcli``."""
    try:
        from pcli.cli.commands import run

        run()
    except KeyboardInterrupt:  # while the commands are imported, before one of them runs
        raise SystemExit(_INTERRUPTED) from None
