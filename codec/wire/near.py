"""Suggestions for error messages: the known words most similar to an unknown word."""

from __future__ import annotations

from collections.abc import Iterable


def near(word: str, known: Iterable[str]) -> str:
    """Return ``; near: a, b`` with at most three similar known words, or an empty string if there are none."""
    import difflib  # imported late: only errors need it

    found = difflib.get_close_matches(word, list(known), 3)
    return f"; near: {', '.join(found)}" if found else ""
