"""The entry point of `pcli`. It imports almost nothing, so that Ctrl-C prints no traceback from the start.

The imports of a command take up to a third of a second, and longer on a busy machine. The user may press Ctrl-C during
this time.
"""

from __future__ import annotations

import atexit
import gc

_INTERRUPTED = 130
"""The value of `pcli.cli.common.output.Exit.INTERRUPTED`, repeated here to avoid the import."""


def main() -> None:
    """Run the command line. This is the entry point of ``pcli``."""
    # There are many frames, and they form no cycles. With the default threshold, collection takes 10 % of the time.
    gc.set_threshold(50_000)
    # The last collection would free what the process frees anyway; after a diagnosis it takes a tenth of the time.
    atexit.register(gc.freeze)
    try:
        from pcli.cli.commands import run

        run()
    except KeyboardInterrupt:  # raised while the commands are imported, before a command runs
        raise SystemExit(_INTERRUPTED) from None
