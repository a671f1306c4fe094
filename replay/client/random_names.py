"""Names by chance, as the Java client makes them (RandomStringUtils.randomAlphanumeric, a shortened SHA-1)."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Final

__all__ = ["hexadecimal", "letters"]

_ALPHANUMERIC: Final = string.ascii_letters + string.digits


def letters(random: Callable[[], float], count: int = 5) -> str:
    """Letters and digits; ``random`` gives numbers in [0, 1)."""
    return "".join(_ALPHANUMERIC[int(random() * len(_ALPHANUMERIC))] for _ in range(count))


def hexadecimal(random: Callable[[], float], count: int = 10) -> str:
    """Hexadecimal digits."""
    return "".join(f"{int(random() * 16):x}" for _ in range(count))
