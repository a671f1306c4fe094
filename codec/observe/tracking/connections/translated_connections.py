"""Connections that the capture contains twice, because a host translates addresses (DNAT, SNAT, load balancers).

Rules of this file
1. A translation changes addresses and ports, but neither the sequence numbers of TCP nor the payload. Two connections
   are copies if their first sequence numbers agree in both directions, and if the first frame of one is among the first
   frames of the other, at most PATIENCE_NS earlier.
2. If a connection began before the capture, the first packets of its copies may be different packets. Its sequence
   numbers agree if they are close in both directions. The capture may begin between the two copies of a frame; then the
   next frame is first captured on the other connection, and the sequence numbers must suffice.
3. If the capture lacks a direction of one copy, the numbers of the other direction must be equal.
4. Random sequence numbers of two connections agree once in 2^32 pairs in one direction. Equal payloads alone prove
   nothing: clients of one application send equal bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from pcli.codec.capture.frames import Stream
from pcli.codec.observe.observer_state import ObservedFrame
from pcli.codec.observe.tracking.connections.connection_state import ConnectionState

__all__ = ["TranslatedConnections", "may_be_copies", "possible_copies"]

PATIENCE_NS: Final = 1_000_000_000
"""Maximum time in ns between the two captures of a frame."""

_MAX_CONNECTIONS: Final = 256
_MAX_FRAMES: Final = 64
"""Number of connections, and of their first frames, that are kept for comparison."""

_MISALIGNED: Final = 2
"""Maximum number of frames of a connection before the capture contains frames of its copy."""

_HEAD: Final = 64
"""Number of bytes of a frame that are compared, in addition to its length."""

_CLOSE: Final = 1 << 18
"""Maximum difference of the first sequence numbers of connections that began before the capture, in bytes."""

_Key = tuple[bool, int, bytes]
"""Sender, length and first bytes of a frame."""


class TranslatedConnections:
    """A detector of connections that repeat another connection."""

    def __init__(self) -> None:
        self._first_frames: OrderedDict[int, tuple[ConnectionState, Stream, dict[_Key, int]]] = OrderedDict()
        """The last new connections by number: the times of their first frames."""

    def begin(self, connection: ConnectionState, stream: Stream, frame: ObservedFrame) -> ConnectionState | None:
        """Process the first frame of a connection. Return the connection that it repeats, or None."""
        key = _key(frame)
        for other, its_stream, frames in reversed(self._first_frames.values()):
            time_ns = frames.get(key, -PATIENCE_NS)
            if len(frames) <= _MISALIGNED and its_stream.midstream and stream.midstream and -1 not in stream.bases:
                time_ns = max(time_ns, other.record.first_ns)
            if frame.time_ns - time_ns <= PATIENCE_NS and may_be_copies(its_stream, stream):
                return other
        self._first_frames[stream.number] = connection, stream, {}
        if len(self._first_frames) > _MAX_CONNECTIONS:
            self._first_frames.popitem(last=False)
        return None

    def add(self, frame: ObservedFrame) -> bool:
        """Process a frame of a connection that repeats no other. Return whether its next frames are needed."""
        found = self._first_frames.get(frame.stream.number)
        if found is None:
            return False
        found[2].setdefault(_key(frame), frame.time_ns)
        return len(found[2]) < _MAX_FRAMES


def _key(frame: ObservedFrame) -> _Key:
    return frame.from_client, frame.length, frame.data[:_HEAD]


def may_be_copies(one: Stream, other: Stream) -> bool:
    """Return whether the sequence numbers of two connections between different addresses agree."""
    if (one.client, one.server) == (other.client, other.server):
        return False
    known = [
        (mine - its + 0x80000000 & 0xFFFFFFFF) - 0x80000000
        for mine, its in zip(one.bases, other.bases)
        if mine >= 0 and its >= 0
    ]
    close = _CLOSE if len(known) == 2 and (one.midstream or other.midstream) else 0
    return bool(known) and all(abs(distance) <= close for distance in known)


def possible_copies(streams: Iterable[Stream]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of pairs of connections whose sequence numbers agree."""
    places: dict[tuple[int, int], list[Stream]] = {}
    for stream in streams:
        for side, base in enumerate(stream.bases):
            place = base // _CLOSE
            if base >= 0:
                near = (one for shift in (-1, 0, 1) for one in places.get((side, place + shift), ()))
                yield from ((one.number, stream.number) for one in near if may_be_copies(one, stream))
                places.setdefault((side, place), []).append(stream)
