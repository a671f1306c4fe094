"""Counts of the packets that cannot be decoded, and the notes about them.

Rules of this file
1. A note concerns a file and a reason: an unknown link type, or packets that end inside their headers.
"""

from __future__ import annotations

from collections import Counter

from pcli.codec.capture.frames import Note
from pcli.codec.capture.link_names import link_name


class UnreadPackets:
    """The packets of a file, or of a part of it, that cannot be decoded."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, bool]] = Counter()
        """Number of packets by link type, and whether the link type is unknown."""

    def add(self, link: int, *, unknown: bool) -> None:
        """Count a packet of an unknown link type, or a packet of this link type that ends inside its headers."""
        self.counts[link, unknown] += 1

    def take(self, source: str, packet: int) -> list[Note]:
        """Return the notes about a file and forget its counts. ``packet`` is the file's last packet."""
        counts, self.counts = sorted(self.counts.items()), Counter()
        return [Note("unread", _text(count, *key), packet, source=source) for key, count in counts]


def _text(count: int, link: int, unknown: bool) -> str:
    packets = "1 packet" if count == 1 else f"{count:,} packets"
    if unknown:
        return f"{packets} not decoded: the link type {link_name(link)} is not supported"
    return f"{packets} not decoded: truncated or damaged headers (link type {link_name(link)})"
