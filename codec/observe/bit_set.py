"""A set of frame or packet numbers that uses one bit for each number."""

from __future__ import annotations


class Bits:
    """A set of nonnegative numbers with one bit each."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> None:
        """Add a number."""
        place = number >> 3
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 + (place >> 3) - len(self._bits)))
        self._bits[place] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] >> (number & 7) & 1)
