"""Random names in the format of the Java client (RandomStringUtils.randomAlphanumeric, a shortened SHA-1)."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Final

_ALPHANUMERIC: Final = string.ascii_letters + string.digits


def alphanumeric(random: Callable[[], float], count: int = 5) -> str:
    """Return random letters and digits. ``random`` returns numbers in [0, 1)."""
    return "".join(_ALPHANUMERIC[int(random() * len(_ALPHANUMERIC))] for _ in range(count))


def hexadecimal(random: Callable[[], float], count: int = 10) -> str:
    """Return random hexadecimal digits. ``random`` returns numbers in [0, 1)."""
    return "".join(f"{int(random() * 16):x}" for _ in range(count))
