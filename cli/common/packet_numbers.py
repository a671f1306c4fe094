"""Packet numbers after frame numbers in text: ``frame 12`` becomes ``frame 12 (packet 40)``."""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pcli.codec.observe.observer_state import ObservedFrame

_FRAMES: Final = re.compile(r"\bframes? (\d+(?:(?:, | and )\d+)*)\b(?! \(packet)")


class PacketIndex:
    """The packet number (Wireshark's frame.number) of each frame. Each number takes eight bytes."""

    def __init__(self) -> None:
        self._packets = array("Q", [0])

    def add(self, frame: ObservedFrame) -> None:
        """Record the packet number of a frame."""
        while len(self._packets) <= frame.number:
            self._packets.append(0)
        self._packets[frame.number] = frame.packet

    def packet_of(self, frame: int) -> int:
        """Return the packet number of a frame; 0 if unknown."""
        return self._packets[frame] if 0 <= frame < len(self._packets) else 0

    def label(self, text: str) -> str:
        """Insert the packet numbers of all frames that the text mentions."""
        return _FRAMES.sub(self._labelled, text)

    def _labelled(self, match: re.Match[str]) -> str:
        numbers = [self.packet_of(int(number)) for number in re.findall(r"\d+", match[1])]
        if not all(numbers):
            return match[0]
        return f"{match[0]} (packet{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))})"
