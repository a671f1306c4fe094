"""Texts from the wire, made harmless: nothing that a peer sends may steer a terminal or break a line."""

from __future__ import annotations

from typing import Any

__all__ = ["printable"]


def printable(value: Any) -> str:
    r"""A value as one line of visible characters; everything else as ``\x1b``, ``\n``, ``\u202e`` and the like.

    ``str.isprintable`` is the rule: it refuses control characters, line ends, surrogates, and the format characters
    that turn the direction of writing.
    """
    text = value if isinstance(value, str) else str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
