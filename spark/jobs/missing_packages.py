"""The error that reports that Spark is not installed."""

from __future__ import annotations

import sys
from typing import Final

from pcli.codec.errors import LocalError

FROZEN: Final = bool(getattr(sys, "frozen", False))
"""Whether this is the executable (`make executable`), which contains everything but Spark."""


def missing_packages(name: str, extra: str) -> LocalError:
    """Return the error for a command that needs ``name``. ``extra`` is the extra that contains it."""
    reason = "is not part of the executable: install the package" if FROZEN else "is not installed"
    return LocalError(f"{name} {reason}: pip install 'pulsar-pcli[{extra}]'")
