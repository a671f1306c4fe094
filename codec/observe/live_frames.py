"""Frames of open connections: bytes are converted to `Facts` as they arrive.

Rules of this file
1. Each direction of each connection has a frame reader. One observer receives all frames.
2. After bytes that cannot be a frame, the direction is ignored, and ``broken`` returns True for it.
3. A fork starts with a copy of the state. After that, the fork and the original are independent.
"""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Final

from pcli.codec.capture.frames import START, CapturedFrame, Stream, StreamEnd
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.observer_state import Facts, open_frame
from pcli.codec.observe.payload_contents import Contents
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.constants import MAX_FRAME_SIZE
from pcli.codec.wire.reader import FrameReader

_KIND: Final = "pulsar"

INFREQUENT: Final = frozenset(COMMANDS) - {
    BY_NAME[name].number for name in ("SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "ACK_RESPONSE", "FLOW", "PING", "PONG")
}
"""The infrequent command types. They contain all names and take little time to process."""


class LiveFrames:
    """All connections of a broker or a proxy."""

    def __init__(
        self,
        *,
        types: Container[int] | None = None,
        contents: Contents | None = None,
        max_frame_size: int = MAX_FRAME_SIZE,
    ) -> None:
        """``types`` are the command types to return (None for all). ``contents`` joins chunks and collects schemas."""
        self.count = 0
        """Number of the last frame. Frames that are not returned are also counted."""
        self._types = types
        self._limit = max_frame_size
        self._contents = contents
        self._observer = Observer(opener=open_frame if contents is None else contents.open)
        self._streams: dict[int, Stream] = {}
        self._readers: dict[tuple[int, bool], FrameReader] = {}

    def open(self, number: int, client: tuple[str, int], server: tuple[str, int]) -> None:
        """Open a connection, given its number and the (address, port) of both ends."""
        stream = self._streams[number] = Stream(number, client, server, midstream=False)
        stream.kind = _KIND
        for from_client in (True, False):
            self._readers[number, from_client] = FrameReader(self._limit)

    def close(self, number: int) -> None:
        """Close a connection."""
        self._streams.pop(number, None)
        self._observer.close(number)
        for from_client in (True, False):
            self._readers.pop((number, from_client), None)

    def end(self, number: int, time_ns: int, *, from_client: bool, reset: bool) -> StreamEnd:
        """Close an open connection and return its end, with the side that ended it and whether it was reset."""
        stream = self._streams[number]
        readers = (self._readers[number, side] for side in (True, False))
        silent = not any(one.offset or one.pending or one.error for one in readers)
        self.close(number)
        return StreamEnd(stream, self.count, time_ns, from_client, reset, refused=False, silent=silent)

    def feed(
        self, number: int, data: bytes, time_ns: int, *, from_client: bool, types: Container[int] | None = None
    ) -> list[Facts]:
        """Process bytes of one direction and return the facts about the frames that they complete.

        The result is empty for an unknown connection. ``types`` overrides the command types to return.
        """
        reader, found = self._readers.get((number, from_client)), []
        if reader is None:
            return []
        stream = self._streams[number]
        offset, types = reader.offset, self._types if types is None else types
        for frame in reader.feed(data):
            self.count += 1
            if types is None or frame.type in types:
                seen = CapturedFrame(
                    frame.data, frame.type, self.count, self.count, time_ns, stream, from_client, offset, START
                )
                facts = self._observer.see(seen)
                if self._contents is not None:
                    self._contents.see(facts)
                found.append(facts)
            offset += len(frame.data)
        return found

    def pending(self, number: int, *, from_client: bool) -> int:
        """Return the number of received bytes of an incomplete frame."""
        reader = self._readers.get((number, from_client))
        return 0 if reader is None else reader.pending

    def broken(self, number: int, *, from_client: bool) -> bool:
        """Whether a direction contained bytes that cannot be a frame. True for an unknown connection."""
        reader = self._readers.get((number, from_client))
        return reader is None or reader.error is not None

    def fork(self) -> LiveFrames:
        """Return an independent copy with the same state."""
        return copy.deepcopy(self)
