"""Texts of all rows as Arrow arrays, from the places where they begin and end: no Python per row.

Rules of this file
1. Between the texts stands something else, so the offsets of an Arrow array would not do. Taken as texts of their own,
   what stands between makes them so: every second one is then taken, and nothing else is copied.
2. Bytes that are no UTF-8 become texts as `tracking.metadata.text_of` makes them: with U+FFFD.
3. A row whose place is -1 has none: null.
"""

from __future__ import annotations

import base64
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pcli.codec.bulk.columns import ORDERING, Bytes, Frames, Longs
from pcli.codec.bulk.fields.matrix import gather

__all__ = ["keys_of", "names_of", "pieces_of", "texts_of"]

_SHORT: Final = 64
"""Bytes of texts that are compared as words."""
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""By how many bytes of a word belong to the text."""


def pieces_of(data: Bytes, starts: Longs, ends: Longs) -> pa.BinaryArray:
    """The bytes data[start:end] of every row; null where ``start`` is negative. ``data`` is below 2 GiB."""
    there = starts >= 0
    some = np.flatnonzero(there)
    begin, stop = starts[some], ends[some]
    if (begin[1:] < stop[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, stop, some = begin[order], stop[order], some[order]
        if (begin[1:] < stop[:-1]).any():
            return _one_by_one(data, starts, ends)
    place = np.zeros(len(starts), np.int32)
    place[some] = np.arange(0, 2 * len(some), 2, dtype=np.int32)
    return _between(data, begin, stop).take(pa.array(place, mask=~there))


def texts_of(data: Bytes, starts: Longs, ends: Longs) -> pa.StringArray:
    """The same as texts."""
    pieces = pieces_of(data, starts, ends)
    try:
        return pieces.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if one is None else one.decode(errors="replace") for one in pieces.to_pylist()], pa.string()
        )


def names_of(data: Bytes, starts: Longs, ends: Longs) -> pa.DictionaryArray:
    """The same where few texts stand in many rows: a dictionary, its indices int32. No text is in it twice."""
    coded = _coded(data, starts, ends)
    try:
        names = coded.dictionary.cast(pa.string())
    except pa.ArrowInvalid:
        names = pa.array([one.decode(errors="replace") for one in coded.dictionary.to_pylist()], pa.string())
        unique = names.dictionary_encode()
        return pa.DictionaryArray.from_arrays(unique.indices.take(coded.indices), unique.dictionary)
    return pa.DictionaryArray.from_arrays(coded.indices, names)


def _coded(data: Bytes, starts: Longs, ends: Longs) -> pa.DictionaryArray:
    """The bytes, each different text once."""
    size = ends - starts
    if not len(starts) or int(starts.min()) < 0 or int(size.max()) > _SHORT:
        return pieces_of(data, starts, ends).dictionary_encode()
    # Texts of a few words are told apart by a sum of these. Whether it did is checked.
    words = _words(data, starts, size)
    mixed = size.astype(np.uint64)
    for word in words:
        mixed = (mixed ^ word) * _FACTOR
        mixed ^= mixed >> _HALF
    codes = pa.array(mixed).dictionary_encode().indices
    code = codes.to_numpy()
    first = np.empty(int(code.max()) + 1, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    if any((one != one[first][code]).any() for one in (size, *words)):
        return pieces_of(data, starts, ends).dictionary_encode()
    return pa.DictionaryArray.from_arrays(codes, pieces_of(data, starts[first], ends[first]))


def _words(data: Bytes, starts: Longs, size: Longs) -> list[npt.NDArray[np.uint64]]:
    """The texts as words of eight bytes, with zeros behind their ends."""
    longest = int(size.max())
    words = gather(data, starts, longest).view("<u8")
    count = (longest + 7) // 8
    return [words[:, place] & _MASKS[np.clip(size - 8 * place, 0, 8)] for place in range(count)]


def keys_of(frames: Frames) -> pa.StringArray:
    """The keys of frames, as tracking.metadata.key_of has them but for null in place of none: binary ones as base64."""
    data, start, end = frames.places.data, frames.key_start, frames.key_end
    there = np.where(end > start, start, -1)
    pieces = pieces_of(data, there, end)
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


def _between(data: Bytes, begin: Longs, stop: Longs) -> pa.BinaryArray:
    """Texts at the even places, what stands between them at the odd ones; places rise."""
    offsets = np.zeros(2 * len(begin) + 1, np.int32)
    offsets[0:-1:2] = begin
    offsets[1::2] = stop
    offsets[-1] = stop[-1] if len(stop) else 0
    whole = pa.py_buffer(np.ascontiguousarray(data))
    return pa.Array.from_buffers(pa.binary(), 2 * len(begin), [None, pa.py_buffer(offsets), whole])


def _one_by_one(data: Bytes, starts: Longs, ends: Longs) -> pa.BinaryArray:
    """Places that overlap: frames that were given twice."""
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return pa.array([data[start:end].tobytes() if start >= 0 else None for start, end in pairs], pa.binary())
