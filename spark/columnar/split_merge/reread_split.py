"""A second reading of a split for a few connections, each from its true state, packet by packet.

Rules of this file
1. Packets of other connections are read only as columns. Packets that columns cannot represent (fragments, tunnels,
   options) are read with `pull_segment`, whichever connection they belong to.
2. The data packets of other connections are counted by their headers. The count affects only which retransmissions are
   still compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pcli.codec.capture.ip import Fragments
from pcli.codec.capture.tunnels import Segment, pull_segment
from pcli.spark.columnar.frame_columns import Longs
from pcli.spark.columnar.reading.packet_records import Records
from pcli.spark.columnar.reading.tcp_segments import Segments, read_segments
from pcli.spark.columnar.split_merge.connection_chains import Context, RereadOrder, RereadResult, load_carried
from pcli.spark.columnar.split_merge.held_packets import HeldSegment
from pcli.spark.columnar.split_merge.packet_replay import Replay
from pcli.spark.columnar.split_merge.split_reader import key_of


def reread_split(orders: Sequence[RereadOrder], context: Context, windows: Iterable[Records]) -> list[RereadResult]:
    """Execute the orders of one split; ``windows`` are all windows of this split."""
    split = orders[0].split
    replays = {order.key: Replay(context.options, load_carried(order.carried)) for order in orders}
    fragments, packet, fed = Fragments(), context.packets[split], context.fed[split]
    for records in windows:
        segments = read_segments(records)
        rows, data = _chosen(records, segments, replays)
        for row in rows.tolist():
            start, end, wire, time_ns, face = records.record(row)
            number = packet + row + 1
            segment = pull_segment(records.data, face.link, start, end, wire, number, fragments)
            replay = replays.get(key_of(segment.key)) if segment is not None else None
            if segment is not None and replay is not None:
                left_out = face.left_out is face
                replay.packet(_held(segment, number, time_ns, left_out=left_out), fed + int(data[row]))
        packet += len(records)
        fed += int(data[-1]) if len(data) else 0
    out = []
    for order in orders:
        replay = replays[order.key]
        out.append(RereadResult(split, order.key, replay.carried(), replay.extra, replay.met))
    return out


def _chosen(records: Records, segments: Segments | None, keys: Iterable[bytes]) -> tuple[Longs, Longs]:
    """Return the packets that may belong to these keys, and the number of data packets before each of these packets."""
    if segments is None:
        return np.arange(len(records)), np.zeros(len(records) + 1, np.int64)
    wanted = set(keys)
    mine = np.array([key_of(key) in wanted for key in segments.keys] + [True], np.bool_)
    data = (segments.direction >= 0) & (segments.stop > segments.at)
    return np.flatnonzero(mine[segments.direction]), np.concatenate((np.zeros(1, np.int64), np.cumsum(data)))


def _held(segment: Segment, packet: int, time_ns: int, *, left_out: bool) -> HeldSegment:
    data = bytes(segment.data[segment.start : segment.end])
    numbers = (segment.seq, segment.ack, segment.flags)
    return HeldSegment(packet, time_ns, segment.key, *numbers, data, segment.missing, segment.packets, left_out, 0)
