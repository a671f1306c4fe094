"""Messages about wrong arguments, without the wording of typer and click."""

from __future__ import annotations

import re
from typing import Any, Final

_PLAIN: Final = (
    (re.compile(r"(.*) is not a valid (?:int|integer)(?: range)?\."), r"\1 is not a whole number."),
    (re.compile(r"(.*) is not a valid float(?: range)?\."), r"\1 is not a number."),
    (re.compile(r"Got unexpected extra arguments?\(?s?\)? \((.*)\)"), r"Unexpected arguments: \1"),
)

_RANGE: Final = re.compile(r"(.*) is not in the range (?:([^<>]*)(<=?))?x(?:(<=?|>=?)(.*))?\.")

_BOUNDS: Final = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


def plain_usage_text(error: Any) -> str:
    """Return the message of a usage error of typer in plain words."""
    text = str(error.message)
    if match := _RANGE.fullmatch(text):
        value, low, left, right, high = match.groups()
        bounds = [(left.replace("<", ">"), low)] if left else []
        bounds += [(right, high)] if right else []
        return f"{value} is out of range: it must be {' and '.join(f'{_BOUNDS[sign]} {one}' for sign, one in bounds)}."
    for pattern, plain in _PLAIN:
        if pattern.fullmatch(text):
            return pattern.sub(plain, text)
    return text
