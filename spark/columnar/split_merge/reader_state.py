"""Conversion between the state of one reader and the states of its connections.

Rules of this file
1. One reader and independent splits continue a recording from the same state and leave the same state. A recording may
   therefore be read in either way at any time.
2. An end that a start of a connection has caused (`deferred_tcp_ends`) is not part of the state.
3. The next packet of each connection takes the slow path, which selects the path of later packets: some values of the
   fast path differ between an assumed state and the true state.
4. Parts of an IP packet whose other fragments follow are not kept.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence

from pcli.codec.capture import fast_path
from pcli.codec.capture.flows import IGNORE, SLOW, Connection
from pcli.codec.capture.frames import Stream
from pcli.codec.capture.reading import ReadOptions
from pcli.codec.capture.recent_packets import Entry
from pcli.codec.capture.streams import TcpReassembly
from pcli.spark.columnar.reading.capture_reader import WindowReader
from pcli.spark.columnar.reading.recent_segments import RecentSegments
from pcli.spark.columnar.split_merge.boundary_states import direction_of
from pcli.spark.columnar.split_merge.connection_chains import EarlierPackets
from pcli.spark.columnar.split_merge.deferred_tcp_ends import DeferredEndsOutput, first_start
from pcli.spark.columnar.split_merge.packet_replay import CarriedState
from pcli.spark.columnar.split_merge.split_reader import Recent, key_of, recent_of


def earlier_packets(state: fast_path.Reader, frames: int, streams: Mapping[int, Stream]) -> EarlierPackets:
    """Return the packets that a reader has read, for `chain` and `merge_splits`.

    ``frames`` is the number of frames so far, and ``streams`` contains all connections so far. Their numbers are
    replaced: the states cannot be used by a reader afterwards.
    """
    tcp, packets, history = state.tcp, state.packet, state.tcp.history
    assert isinstance(history, RecentSegments)
    recent: dict[bytes, list[Recent]] = {}
    for one in recent_of(history, tcp.table):
        recent.setdefault(key_of(one[1]), []).append(one)
    timers = {connection: number for number, connection in enumerate(reversed(tcp.table.with_timers()))}
    connections = {}
    for connection in tcp.table.living:
        key = key_of(connection.keys[0])
        connection.stream.number = connection.stream.opening[0]
        ends = DeferredEndsOutput()
        if connection in tcp.closing:
            ends.record_intervals(connection, packets + 1)
        ready, timer_set_at = ends.open.get(connection, []), -timers.get(connection, 0)
        connections[key] = pickle.dumps(CarriedState(connection, recent.get(key, []), packets, ready, timer_set_at))
    born = {stream.opening[0]: stream for stream in streams.values()}
    return EarlierPackets(packets, history.fed, frames, born, connections)


def reader_state(
    options: ReadOptions, connections: Iterable[CarriedState], starts: Sequence[int], packets: int, fed: int
) -> fast_path.Reader:
    """Return the state of a reader that has read ``packets`` packets, of which ``fed`` contain data.

    ``connections`` contains the connections, with the numbers of the recording. ``starts`` contains the first packet of
    every connection so far, in ascending order.
    """
    reader = WindowReader(options)
    reader.packet, tcp = packets, reader.tcp
    tcp.table.count = len(starts)
    recent: list[tuple[int, Entry]] = []
    known = [(one, one.connection) for one in connections if one.connection is not None]
    for one, connection in sorted(known, key=lambda pair: pair[1].stream.number):
        tcp.table.living[connection] = None
        for key in connection.keys:
            direction = tcp.table.directions[key] = direction_of(connection, key)
            direction.next = direction.next if direction.next == IGNORE else SLOW
        if first_start(one.ready, starts, packets + 1) is not None:
            connection.ended = None
        for ordinal, key, at, data in one.recent:
            recent.append((ordinal, (direction_of(connection, key), at, data, 0, len(data))))
    assert isinstance(tcp.history, RecentSegments)
    tcp.history.restore(fed, recent)
    _restore_closed(tcp, known, packets)
    return reader.fast


def _restore_closed(tcp: TcpReassembly, known: Sequence[tuple[CarriedState, Connection]], packets: int) -> None:
    """Restore the closed connections and the timers."""
    for _, connection in sorted(known, key=lambda pair: pair[1].closing):
        if connection.finished:
            tcp.table.retire(connection)
        elif connection.closing >= 0:
            tcp.closing[connection] = None
    for _, connection in sorted(known, key=lambda pair: pair[0].timer_set_at):
        if not connection.finished and connection.timer >= 0:
            due, connection.timer = connection.timer, -1
            tcp.table.set_timer(connection, due, packets)
