"""Conversion of request bodies to integers by the rules of the real broker's JSON library (Jackson)."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from pcli.minibroker.admin.endpoint import RestError, empty_body

__all__ = ["integer"]

_DIGITS: Final = re.compile(r"[+-]?[0-9]+")
_SOURCE: Final = "Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 1"
_TOKENS: Final = {
    bool: ("Boolean value", "VALUE_{}"),
    list: ("Array value", "START_ARRAY"),
    dict: ("Object value", "START_OBJECT"),
}


def integer(body: Any) -> int:
    """Return a body as a 32-bit integer.

    A number in a string is converted, a fraction is cut off, and ``""`` and ``"null"`` are 0. Raises 400 if there is no
    body, 400 with Jackson's text for all other values, and 500 if a number (not a string) exceeds 32 bits.
    """
    if body is None:
        raise empty_body()
    if isinstance(body, str):
        return _from_text(body)
    if isinstance(body, bool | list | dict):
        kind, token = _TOKENS[type(body)]
        raise _mismatch(f"{kind} (token `JsonToken.{token.format(str(body).upper())}`)")
    if not math.isfinite(body) or not _fits(int(body)):
        raise RestError(500, f"Numeric value ({body}) out of range of int")
    return int(body)


def _from_text(text: str) -> int:
    stripped = text.strip()
    if stripped in ("", "null"):
        return 0
    if not _DIGITS.fullmatch(stripped):
        raise _mismatch(f'String "{text}": not a valid `int` value')
    if not _fits(int(stripped)):
        limits = "Overflow: numeric value ({}) out of range of int (-2147483648 -2147483647)"
        raise _mismatch(f'String "{text}": {limits.format(stripped)}')
    return int(stripped)


def _fits(value: int) -> bool:
    return -(1 << 31) <= value < 1 << 31


def _mismatch(what: str) -> RestError:
    text = f"Cannot deserialize value of type `int` from {what}\n at [{_SOURCE}]"
    return RestError(400, text, media="text/plain")
