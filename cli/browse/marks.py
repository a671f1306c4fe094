"""Marks and comments of frames, and their form as comments on packets of pcapng files.

Rules of this file
1. The comment of a frame is a comment on the packet in which the frame ends. If it is not the first frame there,
   the comment begins with the number of the frame.
2. A mark without a comment is the comment MARK.
3. Comments on packets in which no frame ends are kept and written again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np

from pcli.cli.browse.frame_index import FrameIndex

MARK: Final = "marked"
_NUMBERED: Final = re.compile(r"frame (\d{1,18}): (.*)", re.DOTALL)


class Marks:
    """The marked frames, and their comments. A frame with a comment is marked."""

    def __init__(self) -> None:
        self.comments: dict[int, str] = {}
        """The comment of each marked frame, by its number; empty if it has none."""
        self.others: dict[int, list[str]] = {}
        """The comments on packets in which no frame ends."""
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
        """Set the comment of a frame, or remove its mark if the text is empty."""
        self.changed = True
        self.comments.pop(number, None)
        if text:
            self.comments[number] = text

    def after(self, number: int) -> int:
        """Return the next marked frame, or the first if there is none after it; 0 if there is no mark."""
        marked = sorted(self.comments)
        return next((one for one in marked if one > number), marked[0] if marked else 0)

    def load(self, comments: Iterable[tuple[int, str]], index: FrameIndex) -> None:
        """Take the comments on packets of a capture."""
        packets = index.columns["packet"]
        for packet, text in comments:
            frames = (np.flatnonzero(packets == packet) + 1).tolist()
            match = _NUMBERED.fullmatch(text)
            number = int(match[1]) if match else 0
            if match and number in frames:
                text = match[2]
            elif frames:
                number = frames[0]
            else:
                self.others.setdefault(packet, []).append(text)
                continue
            text = "" if text == MARK else text
            earlier = self.comments.get(number, "")
            self.comments[number] = f"{earlier}\n{text}" if earlier and text else earlier or text

    def of_packets(self, index: FrameIndex) -> dict[int, list[str]]:
        """Return the comments to write, by packet."""
        packets = index.columns["packet"]
        found = {packet: list(texts) for packet, texts in self.others.items()}
        for number, text in sorted(self.comments.items()):
            packet = int(packets[number - 1])
            first = int(np.flatnonzero(packets == packet)[0]) + 1
            prefix = "" if first == number else f"frame {number}: "
            found.setdefault(packet, []).append(prefix + (text or MARK))
        return found
