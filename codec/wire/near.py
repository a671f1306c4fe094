"""What somebody may have meant: the known words nearest to one that is not known, for the end of a message."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["near"]


def near(word: str, known: Iterable[str]) -> str:
    """``; near: a, b`` with at most three of the known words, or an empty text when none is like it."""
    import difflib  # late: only mistakes need it

    found = difflib.get_close_matches(word, list(known), 3)
    return f"; near: {', '.join(found)}" if found else ""
