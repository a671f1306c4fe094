"""The few frames of a split that are forwarded as bytes. `partial_tables.ROLES` lists the reasons.

Rules of this file
1. All infrequent commands are forwarded, except a REDELIVER with ids, because its ids are rows of ``consumed``.
2. The first SEND of each producer and the first MESSAGE or FLOW of each consumer are forwarded. The first of these
   frames after each command that opens or closes the producer or consumer is also forwarded. If that command was not
   captured, the forwarded frame is the first evidence of the owner.
3. An ACK with a request id and its response are one row of ``answered`` if no other frames of the split have that
   request id, the ACK precedes the response, and the response has no error. An ACK or a response without a counterpart
   is a row of ``ack_halves``. If the columns lack a frame of that request id, such as a response with an error, all
   frames of the window with that request id are forwarded as bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.frame_columns import Bools, Frames, Longs
from pcli.spark.columnar.lifecycles.pairs_across_splits import pair_acks
from pcli.spark.columnar.lifecycles.partial_tables import ANSWERED, FORWARDED, ROLES
from pcli.spark.columnar.lifecycles.row_operations import group_starts, joint_key, order_of, table_of, take
from pcli.spark.columnar.lifecycles.split_deliveries import REDELIVER, ids_of
from pcli.spark.columnar.observation.frame_header_rows import to_heads


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
        self._halves: list[pa.Table] = []
        self._opened: set[tuple[bool, int, int]] = set()

    def add(self, frames: Frames, numbers: Longs, unusual: Longs) -> None:
        """Add a window; ``unusual`` are the rows that `SplitSends` cannot express as columns."""
        role = np.zeros(len(frames), np.int64)
        role[unusual] |= 1 << ROLES["unusual"]
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
        """Add the pairs of ACK and response and the frames without a counterpart; return the rows of all others."""
        types = frames.type
        rows = np.flatnonzero(((types == _ACK) & (frames.request != -1)) | (types == _ACK_RESPONSE))
        if not len(rows):
            return rows
        key = joint_key((frames.places.stream.take(rows), frames.request.take(rows)))
        order = order_of(key)
        rows, begins = rows[order], group_starts(key[order])
        starts = np.flatnonzero(begins)
        acks = types[rows] == _ACK
        whole = np.logical_and.reduceat(frames.complete[rows], starts)
        pairs = starts[whole & (np.diff(starts, append=len(rows)) == 2) & acks[starts]]
        pairs = pairs[~acks[pairs + 1]]
        left = np.ones(len(rows), np.bool_)
        left[pairs] = left[pairs + 1] = False
        self._answered.append(_acks(frames, numbers, rows[pairs], rows[pairs + 1]))
        columns = whole[np.cumsum(begins) - 1] & left
        self._halves += [
            _acks(frames, numbers, rows[columns & acks], None),
            _acks(frames, numbers, None, rows[columns & ~acks]),
        ]
        others: Longs = rows[left & ~columns]
        return others

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

    def finish(self) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return FORWARDED, and the tables ``answered`` and ``ack_halves``."""
        forwarded = pa.concat_tables([FORWARDED.empty_table(), *self._forwarded])
        paired = pair_acks(pa.concat_tables([ANSWERED.empty_table(), *self._halves]))
        answered = pa.concat_tables([*self._answered, paired.answered])
        return forwarded, answered, pa.concat_tables([paired.alone, paired.ambiguous])


def _acks(frames: Frames, numbers: Longs, asked: Longs | None, answered: Longs | None) -> pa.Table:
    """Return ANSWERED of ACKs and their responses; None if one of the two is missing."""
    places = frames.places
    rows = asked if asked is not None else answered
    assert rows is not None
    columns: dict[str, Any] = {
        "stream": places.stream[rows],
        "consumer_id": frames.owner[rows],
        "request_id": frames.request[rows],
    }
    for name, some in (("asked", asked), ("answered", answered)):
        columns[f"{name}_number"] = -1 if some is None else numbers[some]
        columns[f"{name}_ns"] = -1 if some is None else places.time_ns[some]
    return table_of(ANSWERED, columns)


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
