"""The few frames of a split that are forwarded as bytes. `partial_tables.ROLES` lists the reasons.

Rules of this file
1. All infrequent commands are forwarded, except a REDELIVER with ids, because its ids are rows of ``consumed``.
2. The first SEND of each producer and the first MESSAGE or FLOW of each consumer are forwarded. The first of these
   frames after each command that opens or closes the producer or consumer is also forwarded. If that command was not
   captured, the forwarded frame is the first evidence of the owner.
3. An ACK with a request id and its response are one row of ``answered`` if no other frames of the window have that
   request id, the ACK precedes the response, and the response has no error.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.frame_columns import Bools, Frames, Longs
from pcli.spark.columnar.lifecycles.partial_tables import ANSWERED, FORWARDED, ROLES
from pcli.spark.columnar.lifecycles.row_operations import group_starts, joint_key, order_of, table_of, take
from pcli.spark.columnar.lifecycles.split_deliveries import REDELIVER, ids_of
from pcli.spark.columnar.observation.frame_header_rows import to_heads

__all__ = ["OPENING", "ForwardedFrames"]


def _numbers(*names: str) -> list[int]:
    return [BY_NAME[name].number for name in names]


_TRAFFIC: Final = _numbers("SEND", "SEND_RECEIPT", "SEND_ERROR", "MESSAGE", "ACK", "FLOW", "ACK_RESPONSE")
_ACK, _ACK_RESPONSE = _numbers("ACK", "ACK_RESPONSE")
_SEND: Final = BY_NAME["SEND"].number
_OPENERS: Final = _numbers("SEND", "MESSAGE", "FLOW")
_OF_PRODUCERS: Final = _numbers("PRODUCER", "CLOSE_PRODUCER")
_OF_CONSUMERS: Final = _numbers("SUBSCRIBE", "CLOSE_CONSUMER", "UNSUBSCRIBE")
OPENING: Final = frozenset(_OF_PRODUCERS + _OF_CONSUMERS)
"""Commands after which the first frame of a producer or consumer is forwarded again."""


_MOST: Final = 0x7FFFFFFF
"""Maximum value of a 32-bit column."""


class ForwardedFrames:
    """A selector of the forwarded frames of one split, window by window."""

    def __init__(self) -> None:
        self._forwarded: list[pa.Table] = []
        self._answered: list[pa.Table] = []
        self._opened: set[tuple[bool, int, int]] = set()

    def add(self, frames: Frames, numbers: Longs, unpaired: Longs) -> None:
        """Add a window; ``unpaired`` are the rows that `SplitSends` could not pair."""
        role = np.zeros(len(frames), np.int64)
        role[unpaired] |= 1 << ROLES["unpaired"]
        role[self._pair_acks(frames, numbers)] |= 1 << ROLES["acks"]
        role[_control(frames)] |= 1 << ROLES["control"]
        role[self._openers(frames)] |= 1 << ROLES["opener"]
        rows = np.flatnonzero(role)
        if len(rows):
            picked = take(frames, rows)
            heads = to_heads(picked, numbers[rows])
            # Only the payload's size matters, and the frame contains this size even if the capture truncated the
            # packet.
            kept = np.where(picked.payload_size >= 0, np.minimum(picked.size, _MOST), picked.places.kept)
            heads = heads.set_column(heads.schema.get_field_index("kept"), heads.schema.field("kept"), _ints(kept))
            first = [pa.array(role[rows])]
            self._forwarded.append(pa.Table.from_arrays([*first, *heads.columns], schema=FORWARDED))

    def _pair_acks(self, frames: Frames, numbers: Longs) -> Longs:
        """Add the pairs of ACK and response, and return the rows of unpaired frames."""
        types = frames.type
        rows = np.flatnonzero(((types == _ACK) & (frames.request != -1)) | (types == _ACK_RESPONSE))
        if not len(rows):
            return rows
        stream, request = frames.places.stream.take(rows), frames.request.take(rows)
        key = joint_key((stream, request))
        order = order_of(key)
        begins = np.append(group_starts(key[order]), True)
        acks = (types[rows] == _ACK)[order]
        complete = frames.complete[rows][order]
        first: Bools = begins[:-1] & ~begins[1:] & acks & complete
        first[:-1] &= begins[2:] & ~acks[1:] & complete[1:]
        first[-1:] = False
        at = np.flatnonzero(first)
        alone = np.ones(len(rows), np.bool_)
        alone[at] = alone[at + 1] = False
        self._answer(frames, numbers, rows[order[at]], rows[order[at + 1]])
        return rows[order[alone]]

    def _answer(self, frames: Frames, numbers: Longs, asked: Longs, answered: Longs) -> None:
        places = frames.places
        columns = {
            "stream": places.stream[asked],
            "consumer_id": frames.owner[asked],
            "request_id": frames.request[asked],
            "asked_number": numbers[asked],
            "asked_ns": places.time_ns[asked],
            "answered_number": numbers[answered],
            "answered_ns": places.time_ns[answered],
        }
        self._answered.append(table_of(ANSWERED, columns))

    def _openers(self, frames: Frames) -> list[int]:
        types = frames.type
        rows = np.flatnonzero(_is_in(types, _OPENERS) & (frames.owner >= 0))
        ends = np.flatnonzero(_is_in(types, _OF_PRODUCERS + _OF_CONSUMERS))
        both = np.concatenate([rows, ends])
        if not len(both):
            return []
        produces = _is_in(types[both], [_SEND, *_OF_PRODUCERS])
        key = joint_key((produces.astype(np.int64), frames.places.stream.take(both), frames.owner.take(both)))
        places = order_of(both) if len(ends) else np.arange(len(both))
        order = places.take(order_of(key.take(places)))
        begins, ending = group_starts(key.take(order)), order >= len(rows)
        # The first row of a group, the commands in it, and the first row after each command.
        marks = np.flatnonzero(begins | ending | np.append(False, ending[:-1]))
        found = []
        for place in marks.tolist():
            row = int(both[order[place]])
            one = (bool(produces[order[place]]), int(frames.places.stream[row]), int(frames.owner[row]))
            if ending[place]:
                self._opened.discard(one)
            elif one not in self._opened:
                self._opened.add(one)
                found.append(row)
        return found

    def finish(self, paired: Longs) -> tuple[pa.Table, pa.Table]:
        """Return FORWARDED and ANSWERED. ``paired`` contains the numbers of frames paired after their window."""
        forwarded = pa.concat_tables([FORWARDED.empty_table(), *self._forwarded])
        if len(paired):
            role = forwarded.column("role").to_numpy().copy()
            role[np.isin(forwarded.column("place").to_numpy(), paired)] &= ~(1 << ROLES["unpaired"])
            forwarded = forwarded.set_column(0, FORWARDED.field("role"), pa.array(role)).filter(pa.array(role != 0))
        return forwarded, pa.concat_tables([ANSWERED.empty_table(), *self._answered])


def _ints(values: Longs) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _control(frames: Frames) -> Longs:
    """Return the rows of all infrequent commands."""
    seldom = ~_is_in(frames.type, _TRAFFIC)
    for row in np.flatnonzero(frames.type == REDELIVER).tolist():
        seldom[row] = not ids_of(frames.head(row))
    return np.flatnonzero(seldom)


def _is_in(types: Longs, members: list[int]) -> Bools:
    """Return a mask of the types that are in ``members``."""
    table = np.zeros(max(members) + 2, np.bool_)
    table[members] = True
    # A negative type (unknown, or wider than 32 bits) is clipped to index 0, which no command has. A type beyond
    # the end of the table is clipped to the last index, whose value is False.
    found: Bools = table.take(types, mode="clip")
    return found
