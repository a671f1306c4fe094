"""Frames that the columnar decoders reject, decoded one by one.

Rules of this file
1. The command is parsed by the object path (observe.walk) with its plans. A field without a column, or anything that
   the parser does not expect, makes ``complete`` false.
2. The metadata is parsed as `tracking.metadata.pull_fields` does, byte by byte, but the result contains positions
   instead of bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pcli.codec.observe.decoding.decode_plans import command_plan
from pcli.codec.observe.decoding.message_decoder import walk
from pcli.codec.observe.decoding.value_kinds import Values
from pcli.codec.observe.tracking.entry_metadata import FIELD
from pcli.codec.observe.tracking.subscriptions.dead_letters import MARK
from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.hot import pull_long
from pcli.codec.wire.message_id import signed
from pcli.spark.columnar.fields.column_buffers import FrameBuilder, GrowingIds, GrowingWords
from pcli.spark.columnar.fields.column_coverage import NUMBERS, OF_METADATA, MetadataColumn, is_covered
from pcli.spark.columnar.fields.message_layouts import UnsupportedLayoutError, body_of

_ACK: Final = BY_NAME["ACK"].number
_KINDS: Final = {"Individual": 0, "Cumulative": 1}
_REACH: Final = 24
"""Maximum size of a tag and a number together."""
_u32 = Struct(">I").unpack_from

Place = int | tuple[int, int]
"""A number, or the start and end of bytes."""


class RowReader:
    """A decoder of single rows that fills the columns of Frames and the growable columns of ids and words."""

    def __init__(self, frames: FrameBuilder, words: GrowingWords, ids: GrowingIds) -> None:
        self._frames = frames
        self._words = words
        self._ids = ids

    def command(self, row: int) -> None:
        """Fill the columns from owner to the ack sets, and ``complete``; the column type must be filled already."""
        frames = self._frames
        data = self._bytes(row, int(frames.command_end[row]))
        values: Values = {}
        type_ = int(frames.type[row])
        whole = len(data) >= 8 and walk(data, 8, 8 + _u32(data, 4)[0], command_plan(type_), values)
        for key, name in NUMBERS.get(type_, {}).items():
            if key in values:
                frames.column(name)[row] = signed(_KINDS.get(values[key], -1) if name == "ack_type" else values[key])
        if "pulsar.message.ack_set" in values:
            frames.column("set_start")[row], frames.column("set_end")[row] = self._words.put_list(
                values["pulsar.message.ack_set"]
            )
        if type_ == _ACK:
            self._put_ids(row, values)
        frames.complete[row] = whole and is_covered(type_, values) and _is_alone(data)

    def metadata(self, row: int) -> None:
        """Read the metadata between metadata_start and metadata_end."""
        frames = self._frames
        base = int(frames.places.start[row])
        start, end = int(frames.metadata_start[row]) - base, int(frames.metadata_end[row]) - base
        data = self._bytes(row, base + end)
        fields, plain = pull_places(data, start, end)
        plain = plain and frames.payload_size[row] >= 0 and data.find(MARK, start, end) < 0
        for number, where in OF_METADATA.items():
            found = fields.get(number)
            if found is not None:
                plain = _put(frames, row, base, where, found) and plain
        _put_key(frames, row, base, fields)
        frames.metadata_complete[row] = plain

    def _bytes(self, row: int, end: int) -> bytes:
        """Return the frame's bytes up to ``end``, and the following bytes that an invalid number could extend into."""
        places = self._frames.places
        start = int(places.start[row])
        return places.data[start : min(start + int(places.kept[row]), end + _REACH)].tobytes()

    def _put_ids(self, row: int, values: Values) -> None:
        """Store the ids of an ACK. The first id is also stored in the columns of Frames."""
        ids = []
        for one in values.get("pulsar.ack.message_id", ()):
            words = self._ids.words.put_list(one.get("ack_set", ()))
            place = [signed(one.get(name, -1)) for name in ("ledgerId", "entryId", "partition", "batch_index")]
            ids.append((place[0], place[1], place[2], place[3], *words))
        self._ids.put_lists(row, ids)
        if ids:
            frames = self._frames
            for name, value in zip(("ledger", "entry", "partition"), ids[0][:3], strict=True):
                frames.column(name)[row] = value


def _is_alone(data: bytes) -> bool:
    """Return whether a command consists of a type and one body. observe.walk skips a second type and merges bodies."""
    try:
        return body_of(data, 8, 8 + _u32(data, 4)[0]) > 0
    except UnsupportedLayoutError:
        return False


def pull_places(data: bytes, start: int, end: int) -> tuple[dict[int, Place], bool]:
    """Return the fields at data[start:end] as `pull_fields` finds them, and whether the last field ends at ``end``."""
    found: dict[int, Place] = {}
    position = start
    try:
        while position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if tag > 127:
                tag, position = pull_long(data, position - 1, tag)
                value = data[position]
                position += 1
            if value > 127:
                value, position = pull_long(data, position, value)
            wire = tag & 7
            if wire == 0:
                found[tag >> 3] = value
            elif wire == 2 and position + value <= end:
                found[tag >> 3] = (position, position + value)
                position += value
            else:
                return found, False
    except IndexError:
        return found, False
    return found, position == end


def _put(frames: FrameBuilder, row: int, base: int, where: MetadataColumn, found: Place) -> bool:
    """Store a field in its columns; return whether the columns represent it exactly."""
    if isinstance(found, int):
        if where.text:
            return False
        frames.column(where.column)[row] = signed(found)
        return signed(found) != -1
    if not where.text:
        return False
    frames.column(f"{where.column}_start")[row] = base + found[0]
    frames.column(f"{where.column}_end")[row] = base + found[1]
    return True


def _put_key(frames: FrameBuilder, row: int, base: int, fields: dict[int, Place]) -> None:
    """Choose the key as tracking.metadata.key_of does."""
    ordering, partition = fields.get(FIELD["ordering_key"]), fields.get(FIELD["partition_key"])
    if isinstance(ordering, tuple) and ordering[1] > ordering[0]:
        key, kind = ordering, 2
    elif isinstance(partition, tuple):
        key, kind = partition, 3 if _is_set(fields.get(FIELD["partition_key_b64_encoded"])) else 1
    else:
        return
    for name, value in (("key_start", base + key[0]), ("key_end", base + key[1]), ("key_kind", kind)):
        frames.column(name)[row] = value


def _is_set(flag: Place | None) -> bool:
    return flag[1] > flag[0] if isinstance(flag, tuple) else bool(flag)
