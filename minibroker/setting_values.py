"""Reads the values of settings, which are written as in a conf file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from pcli.codec.errors import LocalError


def first_word(text: str) -> str:
    """Return the name in an invalid setting. The rest is not repeated, because it may be a key."""
    return text.replace(":", " ").partition(" ")[0]


def _bool(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise LocalError(f"setting {name}={value}: must be true or false")
    return value.lower() == "true"


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise LocalError(f"setting {name}={value}: must be an integer") from None


def _fraction(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise LocalError(f"setting {name}={value}: must be a number")
    return number


READ: Final[dict[Any, Callable[[str, str], Any]]] = {
    bool: _bool,
    int: _number,
    float: _fraction,
    str: lambda _, value: value,
    list[str]: lambda _, value: [word.strip() for word in value.split(",") if word.strip()],
}
"""The function that converts the text of a value to a type. It raises LocalError for an invalid value."""
