"""Frames of connections that are open right now: bytes as they pass, facts as `Observer` gives them.

Rules of this file
1. Each direction of each connection is cut by a reader of its own; one observer sees them all.
2. A direction whose bytes can't be frames is given up, quietly: ``broken`` says so, and nothing more comes of it.
3. A fork goes on from here by itself: it knows all that was learned, and shares nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Container
from typing import Final

from pcli.codec.capture.frames import START, CapturedFrame, Stream
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.observer_state import Facts, open_frame
from pcli.codec.observe.payload_contents import Contents
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.constants import MAX_FRAME_SIZE
from pcli.codec.wire.reader import FrameReader

__all__ = ["SELDOM", "LiveFrames"]

_KIND: Final = "pulsar"

SELDOM: Final = frozenset(COMMANDS) - {
    BY_NAME[name].number for name in ("SEND", "SEND_RECEIPT", "MESSAGE", "ACK", "ACK_RESPONSE", "FLOW", "PING", "PONG")
}
"""The command types without those of which traffic consists: they teach all names, and cost little to follow."""


class LiveFrames:
    """All connections of one broker, or of one proxy."""

    def __init__(
        self,
        *,
        types: Container[int] | None = None,
        contents: Contents | None = None,
        max_frame_size: int = MAX_FRAME_SIZE,
    ) -> None:
        """``types``: the only command types wanted, None: all; ``contents``: what joins chunks and learns schemas."""
        self.count = 0
        """Frames seen, wanted or not; the number of the last one."""
        self._types = types
        self._limit = max_frame_size
        self._contents = contents
        self._observer = Observer(opener=open_frame if contents is None else contents.open)
        self._streams: dict[int, Stream] = {}
        self._readers: dict[tuple[int, bool], FrameReader] = {}

    def open(self, number: int, client: tuple[str, int], server: tuple[str, int]) -> None:
        """A connection begins: its number, and (address, port) of both ends."""
        stream = self._streams[number] = Stream(number, client, server, midstream=False)
        stream.kind = _KIND
        for from_client in (True, False):
            self._readers[number, from_client] = FrameReader(self._limit)

    def close(self, number: int) -> None:
        """It has ended."""
        self._streams.pop(number, None)
        self._observer.close(number)
        for from_client in (True, False):
            self._readers.pop((number, from_client), None)

    def feed(
        self, number: int, data: bytes, time_ns: int, *, from_client: bool, types: Container[int] | None = None
    ) -> list[Facts]:
        """Bytes of one direction; what is known of the frames that are whole now. Unknown connections give none.

        ``types``: the only command types wanted this time.
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
        """Bytes that have come of a frame that is not whole yet."""
        reader = self._readers.get((number, from_client))
        return 0 if reader is None else reader.pending

    def broken(self, number: int, *, from_client: bool) -> bool:
        """Whether a direction has left the protocol; an unknown connection has."""
        reader = self._readers.get((number, from_client))
        return reader is None or reader.error is not None

    def fork(self) -> LiveFrames:
        """One more that knows all that this one does, and goes its own way from here on."""
        return copy.deepcopy(self)
