"""ACKs with many ids: a loop splits each ACK into ids, and the ids of all ACKs are decoded by their layouts.

Clients that group acknowledgements send up to several thousand ids in one ACK. These ACKs rarely share a layout, but
their ids have very few layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import numpy as np

from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.fields.byte_matrix import Matrix, gather
from pcli.spark.columnar.fields.column_buffers import FrameBuilder, GrowingIds
from pcli.spark.columnar.fields.command_layouts import CommandLayout, id_layout
from pcli.spark.columnar.fields.layout_groups import ID_COLUMNS, LayoutCache, by_key, pull_id, read_alike
from pcli.spark.columnar.fields.message_layouts import UnsupportedLayoutError, read_varint
from pcli.spark.columnar.frame_columns import Bools, Longs

_TYPE: Final = BY_NAME["ACK"].number
_OPEN: Final = bytes((8, _TYPE, _TYPE << 3 | 2))
_COLUMNS: Final = {0x08: "owner", 0x10: "ack_type", 0x30: "txn_least", 0x38: "txn_most", 0x40: "request"}
"""The columns of an ACK's numbers, by tag."""
_ID: Final = 0x1A
_WIDEST: Final = 255
"""Maximum size of an id that this module decodes."""
_LAYOUTS: Final = LayoutCache(id_layout, few=8, share=1 << 30)


def read_many_acks(frames: FrameBuilder, rows: Longs, target: GrowingIds) -> Longs:
    """Read complete ACKs into the columns, and the ids of these ACKs into ``target``; return the remaining rows."""
    numbers: list[dict[str, int]] = []
    done: list[int] = []
    odd: list[int] = []
    spans: list[int] = []
    counts: list[int] = []
    for row in rows.tolist():
        try:
            found, places = _cut(frames, row)
        except UnsupportedLayoutError:
            odd.append(row)
            continue
        numbers.append(found)
        done.append(row)
        spans += places
        counts.append(len(places) >> 1)
    owners = np.repeat(np.arange(len(done)), counts)
    columns, good = _read_ids(frames, np.array(spans, np.int64).reshape(-1, 2), target)
    whole = np.ones(len(done), np.bool_)
    whole[owners[~good]] = False
    read = np.array(done, np.int64)
    for place in np.flatnonzero(whole).tolist():
        frames.complete[done[place]] = True
        for name, value in numbers[place].items():
            frames.column(name)[done[place]] = value
    _put(frames, read[owners], columns, whole[owners], target)
    return np.concatenate((np.array(odd, np.int64), read[~whole]))


def _cut(frames: FrameBuilder, row: int) -> tuple[dict[str, int], list[int]]:
    """Return the numbers of an ACK by column, and the start and end of each id in ``data``."""
    base, end = int(frames.places.start[row]) + 8, int(frames.command_end[row])
    data = frames.places.data[base:end].tobytes()
    numbers: dict[str, int] = {}
    spans: list[int] = []
    size, at = read_varint(data, len(_OPEN), len(data))
    if not data.startswith(_OPEN) or at + size != len(data):
        raise UnsupportedLayoutError
    stop = len(data)
    while at < stop:
        tag = data[at]
        if tag == _ID and at + 1 < stop and data[at + 1] < 128:
            # The common case.
            spans.append(base + at + 2)
            at += 2 + data[at + 1]
            spans.append(base + at)
            continue
        value, behind = read_varint(data, at + 1, stop)
        if tag == _ID:
            spans += (base + behind, base + behind + value)
            behind += value
        elif tag in _COLUMNS and _COLUMNS[tag] not in numbers and not value >> 63:
            numbers[_COLUMNS[tag]] = value
        else:
            raise UnsupportedLayoutError
        at = behind
    if at != stop or "owner" not in numbers or numbers.get("ack_type", 2) > 1:
        raise UnsupportedLayoutError
    if ("txn_most" in numbers) != ("txn_least" in numbers):
        raise UnsupportedLayoutError
    return numbers, spans


def _read_ids(frames: FrameBuilder, spans: Longs, target: GrowingIds) -> tuple[Longs, Bools]:
    """Return rows of ID_COLUMNS for the ids at ``spans``, and which ids could be read."""
    data, starts, size = frames.places.data, spans[:, 0], spans[:, 1] - spans[:, 0]
    columns = np.full((len(ID_COLUMNS), len(spans)), -1, np.int64)
    good = np.zeros(len(spans), np.bool_)

    def put(found: CommandLayout, which: Longs, matrix: Matrix) -> None:
        for into, values in zip(columns, pull_id(matrix, found.numbers, found.words, target.words), strict=True):
            into[which] = values
        good[which] = True

    some = np.flatnonzero(size <= _WIDEST)
    for key, which in by_key(some, size[some].astype(np.uint16)):
        for one in read_alike(data, which, starts[which], key, _LAYOUTS, put).tolist():
            _try(data[starts[one] : starts[one] + key].tobytes(), one, put)
    return columns, good


def _try(data: bytes, which: int, put: Callable[[CommandLayout, Longs, Matrix], None]) -> None:
    """Decode one id, if it has a layout."""
    with suppress(UnsupportedLayoutError):
        found = _LAYOUTS.find(data)
        put(found, np.array([which]), gather(np.frombuffer(data, np.uint8), np.zeros(1, np.int64), len(data)))


def _put(frames: FrameBuilder, rows: Longs, columns: Longs, whole: Bools, target: GrowingIds) -> None:
    """Add the ids of completely read ACKs to ``target``, and the first id of each ACK to the columns of Frames."""
    rows, columns = rows[whole], columns[:, whole]
    target.put([rows, *columns])
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    for name, values in zip(ID_COLUMNS[:3], columns, strict=False):
        frames.column(name)[rows[first]] = values[first]
