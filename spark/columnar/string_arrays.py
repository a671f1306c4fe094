"""Strings of all rows as Arrow arrays, computed from their start and end positions without Python code for each row.

Rules of this file
1. Bytes that are not UTF-8 are decoded as U+FFFD, as `tracking.metadata.text_of` decodes them.
2. A row with a negative start is null.
"""

from __future__ import annotations

import base64
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pcli.spark.columnar.byte_arrays import binary_array
from pcli.spark.columnar.fields.byte_matrix import gather
from pcli.spark.columnar.frame_columns import ORDERING, Bytes, Frames, Longs

_SHORT: Final = 64
"""Maximum number of bytes in a string that is compared as words."""
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""Masks by the number of bytes of a word that belong to the string."""


def texts_of(data: Bytes, starts: Longs, ends: Longs) -> pa.StringArray:
    """Return data[start:end] of every row as a string."""
    pieces = binary_array(data, starts, ends)
    try:
        return pieces.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if one is None else one.decode(errors="replace") for one in pieces.to_pylist()], pa.string()
        )


def names_of(data: Bytes, starts: Longs, ends: Longs) -> pa.DictionaryArray:
    """Return the strings as a dictionary with int32 indices, for rows with few distinct strings."""
    coded = _coded(data, starts, ends)
    try:
        names = coded.dictionary.cast(pa.string())
    except pa.ArrowInvalid:
        names = pa.array([one.decode(errors="replace") for one in coded.dictionary.to_pylist()], pa.string())
        unique = names.dictionary_encode()
        return pa.DictionaryArray.from_arrays(unique.indices.take(coded.indices), unique.dictionary)
    return pa.DictionaryArray.from_arrays(coded.indices, names)


def _coded(data: Bytes, starts: Longs, ends: Longs) -> pa.DictionaryArray:
    """Return the bytes of every row as a dictionary of distinct values."""
    size = ends - starts
    if not len(starts) or int(starts.min()) < 0 or int(size.max()) > _SHORT:
        return binary_array(data, starts, ends).dictionary_encode()
    # A hash distinguishes strings of a few words. The code below checks for collisions.
    words = _words(data, starts, size)
    mixed = size.astype(np.uint64)
    for word in words:
        mixed = (mixed ^ word) * _FACTOR
        mixed ^= mixed >> _HALF
    codes = pa.array(mixed).dictionary_encode().indices
    code = codes.to_numpy()
    first = np.empty(int(code.max()) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    if any((one != one[first].take(code)).any() for one in (size, *words)):
        return binary_array(data, starts, ends).dictionary_encode()
    return pa.DictionaryArray.from_arrays(codes, binary_array(data, starts[first], ends[first]))


def _words(data: Bytes, starts: Longs, size: Longs) -> list[npt.NDArray[np.uint64]]:
    """Return the strings as words of eight bytes, padded with zeros."""
    longest = int(size.max())
    words = gather(data, starts, longest).view("<u8")
    count = (longest + 7) // 8
    if int(size.min()) == longest:
        last = _MASKS[longest - 8 * (count - 1)]
        return [words[:, place] if place + 1 < count else words[:, place] & last for place in range(count)]
    return [words[:, place] & _MASKS.take(size - 8 * place, mode="clip") for place in range(count)]


def keys_of(frames: Frames) -> pa.StringArray:
    """Return the keys of frames as tracking.metadata.key_of does (binary keys in base64); null if there is no key."""
    data, start, end = frames.places.data, frames.key_start, frames.key_end
    there = np.where(end > start, start, -1)
    pieces = binary_array(data, there, end)
    try:
        return pieces.cast(pa.string())
    except pa.ArrowInvalid:
        kinds = frames.key_kind.tolist()
        return pa.array([_key(one, kind) for one, kind in zip(pieces.to_pylist(), kinds, strict=True)], pa.string())


def _key(data: bytes | None, kind: int) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode() if kind == ORDERING else data.decode(errors="replace")
