"""Messages about wrong arguments, without the wording of pydantic and click."""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["plain_usage_text"]

_BOUNDS: Final = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}

_KINDS: Final = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of this size",
    "float_parsing": "a number",
    "bool_parsing": "yes or no",
}


def plain_usage_text(error: Any) -> str:
    """Return the message of a usage error of typer in plain words."""
    text = str(error.message)
    errors = getattr(error.__cause__, "errors", None)
    if errors is not None and errors():
        return _plain(errors()[0])
    match = re.fullmatch(r"Got unexpected extra arguments?\(?s?\)? \((.*)\)", text)
    return f"Unexpected arguments: {match[1]}" if match else text


def _plain(found: dict[str, Any]) -> str:
    kind, value = found["type"], found.get("input")
    if kind in _KINDS:
        return f"{value!r} is not {_KINDS[kind]}."
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"{value!r} is out of range: it must be {words} {found['ctx'][name]}."
    return str(found["msg"]).removeprefix("Value error, ")
