"""Marks and comments of frames."""

from __future__ import annotations

__all__ = ["Marks"]


class Marks:
    """The marked frames, and their comments. A frame with a comment is marked."""

    def __init__(self) -> None:
        self.comments: dict[int, str] = {}
        """The comment of each marked frame, by its number; empty if it has none."""
        self.changed = False
        """Whether there are marks that are not saved."""

    def sign(self, number: int) -> str:
        """Return the first column of a line: ``*`` for a mark, ``#`` for a comment, or a space."""
        comment = self.comments.get(number)
        return " " if comment is None else "#" if comment else "*"

    def toggle(self, number: int) -> bool:
        """Mark a frame, or remove its mark and its comment. Return whether it is marked now."""
        self.changed = True
        if number in self.comments:
            del self.comments[number]
            return False
        self.comments[number] = ""
        return True

    def comment(self, number: int, text: str) -> None:
        """Set the comment of a frame."""
        self.comments[number] = text
        self.changed = True

    def after(self, number: int) -> int:
        """Return the next marked frame, or the first if there is none after it; 0 if there is no mark."""
        marked = sorted(self.comments)
        return next((one for one in marked if one > number), marked[0] if marked else 0)
