"""Frames and their facts, rebuilt one by one from the index and the bytes of the capture.

Rules of this file
1. The facts of a frame are those of a first pass over the capture, so lines, fields and filters give the same results
   as `pcli dissect`.
2. Payload contents need other frames: schemas are collected from the frames that contain schemas, and a chunk is joined
   with the earlier chunks of its message.
3. The last frames are kept, so moving back and forth does not decode again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

import numpy as np

from pcli.cli.browse.frame_index import CLIENT, EXTRA, LARGE_TYPE, SYNC_SHIFT, SYNCS, SYSTEM, FrameIndex, Peer, Row
from pcli.cli.browse.index_writer import pull_extra
from pcli.codec.capture import CapturedFrame
from pcli.codec.observe import Consumer, Facts, Producer
from pcli.codec.observe.command_ids import id_of
from pcli.codec.observe.connection_updates import apply_command, request_of
from pcli.codec.observe.observer_state import Connection
from pcli.codec.observe.payload_contents import WITH_SCHEMAS, Contents
from pcli.codec.payload import Entry
from pcli.codec.payload.chunks import is_chunk
from pcli.codec.wire.commands import BY_NAME, PAYLOAD_TYPES
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.problems import Problem

_KEPT: Final = 4096
"""Number of frames that are kept."""
_LARGE: Final = 64 * 1024
"""Frames above this size in bytes are not kept."""
_AHEAD: Final = 200_000
"""Number of frames after a request that are searched for its response."""
_MAX_CHUNKS: Final = 10_000
"""Maximum number of earlier frames of a producer or consumer that are searched for the chunks of a message."""

_UPDATE: Final = BY_NAME["SCALABLE_TOPIC_UPDATE"].number
_WITH_LAYOUT: Final = frozenset({_UPDATE, BY_NAME["SCALABLE_TOPIC_CLOSE"].number})
_OF_SESSIONS: Final = _WITH_LAYOUT | {BY_NAME["SCALABLE_TOPIC_LOOKUP"].number}

_NO_BYTES: Final = bytes(8)
"""The bytes of a frame that cannot be read any more."""


class StoredFrames:
    """The frames of an index."""

    def __init__(self, index: FrameIndex, contents: Contents | None = None) -> None:
        """``contents`` decodes payloads, with the keys of the user."""
        self.index = index
        self._contents = contents or Contents()
        self._schemas_until = 0
        self._kept: OrderedDict[int, Facts] = OrderedDict()
        self._lock = threading.Lock()

    def facts(self, number: int) -> Facts:
        """Return the facts of a frame. Raises IndexError if there is no such frame."""
        with self._lock:
            facts = self._kept.get(number)
            if facts is not None:
                self._kept.move_to_end(number)
                return facts
        facts = self.rebuilt(number, self.index.row(number))
        facts.answer_number = self.answer_of(number)
        if len(facts.frame.data) <= _LARGE:
            with self._lock:
                self._kept[number] = facts
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        return facts

    def rebuilt(self, number: int, row: Row) -> Facts:
        """Return the facts of a frame from its row, without the number of its response."""
        facts = Facts(self._frame(number, row), self._open)
        facts.system = bool(row.flags & SYSTEM)
        facts.peer = _peer(self.index.tables.peers[row.peer])
        if row.request:
            facts.request_number = row.request
            self._add_request(facts)
        if row.type in _WITH_LAYOUT:
            self._add_layout(facts)
        return facts

    def _add_layout(self, facts: Facts) -> None:
        """Add the layout of a frame, and the layout that its session had before."""
        connection = Connection(facts.frame.stream.number)
        for frame in (self._earlier_layout(facts), facts.frame):
            if frame is not None:
                observed = Facts(frame, self._open)
                apply_command(observed, connection, 1)
                facts.layout = observed.layout

    def _earlier_layout(self, facts: Facts) -> CapturedFrame | None:
        """Return the last SCALABLE_TOPIC_UPDATE of a frame's session before the frame, or None."""
        session, columns = id_of(facts.frame, "session_id"), self.index.columns
        own = self.index.row(facts.frame.number)
        for start in range(facts.frame.number - 1, 0, -8192):
            low = max(0, start - 8192)
            same = np.isin(columns["type"][low:start], list(_OF_SESSIONS)) & (
                columns["stream"][low:start] == own.stream
            )
            for place in np.flatnonzero(same)[::-1]:
                number = low + int(place) + 1
                other = self._frame(number, self.index.row(number))
                if id_of(other, "session_id") == session:
                    return other if other.type == _UPDATE else None
        return None

    def _frame(self, number: int, row: Row) -> CapturedFrame:
        data = self.index.read(row.source, row.offset, row.size)
        packets: tuple[int, ...] | None = None
        problems: tuple[Problem, ...] = ()
        if row.flags & EXTRA:
            data, packets, problems = self._with_extra(data)
        if len(data) < len(_NO_BYTES):
            data = _NO_BYTES
            problems = (Problem("cut", "the capture file has changed: the bytes of the frame cannot be read"),)
        return CapturedFrame(
            data, Frame.of(data).type if row.type == LARGE_TYPE else row.type, number, row.packet, row.time,
            self.index.tables.streams[row.stream], bool(row.flags & CLIENT), -1,
            SYNCS[min(row.flags >> SYNC_SHIFT & 3, 2)], problems, packets,
        )  # fmt: skip

    def _with_extra(self, data: bytes) -> tuple[bytes, tuple[int, ...] | None, tuple[Problem, ...]]:
        try:
            header, data = pull_extra(data)
        except ValueError:
            return b"", None, ()
        if "parts" in header:
            data = b"".join(self.index.read(*part) for part in header["parts"])
        return data, tuple(header["packets"]), tuple(Problem(*one) for one in header.get("problems", ()))

    def _add_request(self, facts: Facts) -> None:
        """Add the request that a frame answers, and the time since then."""
        row = self.index.row(facts.request_number)
        facts.latency_ns = facts.frame.time_ns - row.time
        asked = Facts(self._frame(facts.request_number, row), self._open)
        asked.peer = facts.peer
        asked.system = bool(row.flags & SYSTEM)
        if asked.frame.type not in PAYLOAD_TYPES:
            facts.request = request_of(asked, Connection(row.stream))

    def answer_of(self, number: int) -> int:
        """Return the number of the frame that answers a request, or 0 if it is not among the next frames."""
        requests = self.index.columns["request"]
        for start in range(number, min(number + _AHEAD, len(requests)), 8192):
            found = np.flatnonzero(requests[start : start + 8192] == number)
            if len(found):
                return start + int(found[0]) + 1
        return 0

    # -- payload contents

    def _open(self, facts: Facts) -> Entry | None:
        with self._lock:
            self._learn_schemas()
            contents = self._contents.without_chunks()
        metadata = facts.frame.metadata
        if metadata is not None and is_chunk(metadata):
            for number in self._earlier_chunks(facts):
                contents.open(self.rebuilt(number, self.index.row(number)))
        return contents.open(facts)

    def _learn_schemas(self) -> None:
        """Pass all frames with schemas to the decoder, once."""
        until = self.index.count
        if until == self._schemas_until:
            return
        types = self.index.columns["type"]
        for start in range(self._schemas_until, until, 1 << 20):
            chunk = types[start : min(start + (1 << 20), until)]
            for place in np.flatnonzero(np.isin(chunk, list(WITH_SCHEMAS))):
                number = start + int(place) + 1
                self._contents.see(Facts(self._frame(number, self.index.row(number)), self._open))
        self._schemas_until = until

    def _earlier_chunks(self, facts: Facts) -> list[int]:
        """Return the numbers of the frames with the earlier chunks of a frame's message, from its first chunk."""
        frame, metadata = facts.frame, facts.frame.metadata
        assert metadata is not None
        if not metadata.chunk_id:
            return []
        columns, own = self.index.columns, self.index.row(frame.number)
        found: list[int] = []
        searched = 0
        for start in range(frame.number - 1, 0, -8192):
            low = max(0, start - 8192)
            same = (columns["stream"][low:start] == own.stream) & (columns["type"][low:start] == own.type)
            same &= columns["peer"][low:start] == own.peer
            for place in np.flatnonzero(same)[::-1]:
                number = low + int(place) + 1
                other = self._frame(number, self.index.row(number)).metadata
                searched += 1
                if other is not None and is_chunk(other) and other.uuid == metadata.uuid:
                    found.append(number)
                    if not other.chunk_id:
                        return found[::-1]
                if searched > _MAX_CHUNKS:
                    return []
        return found[::-1]


def _peer(peer: Peer | None) -> Producer | Consumer | None:
    if peer is None:
        return None
    if peer.is_consumer:
        return Consumer(peer.id, peer.topic, peer.subscription, peer.name, peer.type, system=peer.system)
    return Producer(peer.id, peer.topic, peer.name, system=peer.system)
