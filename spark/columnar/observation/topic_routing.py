"""Assignment of frame rows to the parts of topics that receive them (group_division.py).

Rules of this file
1. Traffic is sent to the part of its producer or consumer. Every other command, and the row of a connection, is sent to
   all parts related to the connection. Notes and ends are not sent: their effects are replayed (partial_trackers.py).
2. A part needs the time of the broker's last frame on a connection when a frame of the connection is processed, and at
   the end of the recording. The last traffic frame of each connection is therefore reported to the parts that do not
   receive it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from pcli.codec.wire.commands import BY_NAME
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.observation.frame_header_rows import BROKER_FRAME, FRAME, HEADS, STREAM
from pcli.spark.columnar.observation.group_division import Division

_TRAFFIC: Final = {
    "producer": ("SEND", "SEND_RECEIPT", "SEND_ERROR"),
    "consumer": ("MESSAGE", "ACK", "ACK_RESPONSE", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES"),
}
"""Commands that are traffic, by the side (producer or consumer) to which they belong."""

_SIDES: Final = ("", *_TRAFFIC)
_SIDE_OF: Final = {BY_NAME[name].number: _SIDES.index(side) for side, some in _TRAFFIC.items() for name in some}


def topic_rows(heads: pa.Table, division: Division) -> tuple[pa.Table, Longs]:
    """Return the rows of all parts, and the part of each row. Rows of one part are contiguous and sorted by place.

    ``heads`` contains the rows of HEADS for connections of the division, in order of place.
    """
    kind, stream = heads["kind"].to_numpy(), heads["stream"].to_numpy()
    sides = _sides(heads["type"].to_numpy())
    frames = kind == FRAME
    traffic = np.flatnonzero(frames & (sides > 0))
    parts = _parts(division, stream[traffic], sides[traffic], heads["owner"].to_numpy()[traffic])
    receivers, receiver_parts = _spread(division, np.flatnonzero((kind == STREAM) | (frames & (sides == 0))), stream)
    received, received_parts = _heard(heads, division, traffic, parts)
    rows = pa.concat_tables([heads.take(pa.array(np.concatenate([traffic, receivers]))), _blank(heads, received)])
    parts = np.concatenate([parts, receiver_parts, received_parts])
    order = np.lexsort((rows["place"].to_numpy(), parts))
    return rows.take(pa.array(order)), parts[order]


def _sides(types: Longs) -> Longs:
    """Return the sides of commands of these types, as indices into _SIDES."""
    found = np.zeros(len(types), np.int64)
    for number, side in _SIDE_OF.items():
        found[types == number] = side
    return found


def _parts(division: Division, stream: Longs, side: Longs, owner: Longs) -> Longs:
    """Return the part of each frame's producer or consumer."""
    owners, which = np.unique(owner, return_inverse=True)
    keys = (stream * len(_SIDES) + side) * max(1, len(owners)) + which
    _, first, back = np.unique(keys, return_index=True, return_inverse=True)
    whose = zip(stream[first].tolist(), side[first].tolist(), owner[first].tolist(), strict=True)
    found: Longs = np.array([division.part_of((one, _SIDES[two], three)) for one, two, three in whose], np.int64)
    return found[back]


def _spread(division: Division, rows: Longs, stream: Longs) -> tuple[Longs, Longs]:
    """Return each row once for each part of its connection, and the part of each returned row."""
    streams, which = np.unique(stream[rows], return_inverse=True)
    receivers = [np.array(division.receivers[one], np.int64) for one in streams.tolist()]
    counts = np.array([len(one) for one in receivers], np.int64)[which]
    parts = [receivers[one] for one in which.tolist()]
    return np.repeat(rows, counts), np.concatenate([np.zeros(0, np.int64), *parts])


def _heard(heads: pa.Table, division: Division, traffic: Longs, parts: Longs) -> tuple[Longs, Longs]:
    """Return the broker's last traffic frame on each connection, for the parts that do not receive it."""
    stream, broker = heads["stream"].to_numpy(), ~heads["from_client"].to_numpy(zero_copy_only=False)
    own = np.full(len(stream), -1)
    own[traffic] = parts
    rows = traffic[broker[traffic]][::-1]
    _, last = np.unique(stream[rows], return_index=True)
    found, receivers = _spread(division, rows[last], stream)
    others = receivers != own[found]
    return found[others], receivers[others]


def _blank(heads: pa.Table, rows: Longs) -> pa.Table:
    """Return these rows as rows of kind BROKER_FRAME, without bytes."""
    found = heads.take(pa.array(rows))
    blank = {"kind": np.full(len(rows), BROKER_FRAME, np.int8), "size": np.zeros(len(rows), np.int64)}
    columns = {name: found[name] for name in HEADS.names} | {
        **{name: pa.array(values) for name, values in blank.items()},
        **{name: pa.nulls(len(rows), HEADS.field(name).type) for name in ("data", "trouble", "keys", "digests")},
    }
    return pa.table(columns, schema=HEADS)
