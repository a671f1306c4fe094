"""Where `pcli` begins. It imports next to nothing, so that Ctrl-C is quiet from its first moment.

The commands take a third of a second to be imported, more on a busy machine: somebody may be tired of it by then.
"""

from __future__ import annotations

__all__ = ["main"]

_INTERRUPTED = 130
"""`pcli.cli.common.output.Exit.INTERRUPTED`, known before anything is imported."""


def main() -> None:
    """Run the command line; the entry point of ``pcli``."""
    try:
        from pcli.cli.commands import run

        run()
    except KeyboardInterrupt:  # while the commands are imported or put together, before one of them runs
        raise SystemExit(_INTERRUPTED) from None
