"""The CRC-32C of the last bytes of a sequence, computed from the CRC-32C of the whole and of the first bytes.

A CRC is linear: the checksum of two joined sequences is the sum of the second checksum and of the first checksum,
multiplied by a power of x that depends only on the length of the second sequence (zlib: crc32_combine). The checksum of
a payload therefore follows from the checksum in the frame and from the metadata, without the payload.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_POLYNOMIAL: Final = 0x82F63B78
"""The polynomial of CRC-32C; the highest bit is the coefficient of 1."""

_ONE: Final = 1 << 31


def crc_of_suffix(whole: int, prefix: int, length: int) -> int:
    """Return the CRC-32C of the last ``length`` bytes.

    ``whole`` is the CRC-32C of all bytes, and ``prefix`` the CRC-32C of the bytes before the last ``length`` bytes.
    """
    return whole ^ _multiply(_power(length), prefix)


@lru_cache(4096)
def _power(length: int) -> int:
    """Return x to the power of 8 * ``length``, modulo the polynomial."""
    power, square = _ONE, _ONE >> 8
    while length:
        if length & 1:
            power = _multiply(square, power)
        square = _multiply(square, square)
        length >>= 1
    return power


def _multiply(first: int, second: int) -> int:
    """Return the product of two polynomials, modulo the polynomial."""
    product, bit = 0, _ONE
    while bit:
        if first & bit:
            product ^= second
        bit >>= 1
        second = second >> 1 ^ (_POLYNOMIAL if second & 1 else 0)
    return product
