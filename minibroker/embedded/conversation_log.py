"""The frames between the broker and its clients. They are kept as bytes and decoded on demand.

Rules of this file
1. A chunk of bytes is recorded with a single append. It is decoded to frames once, when frames are requested.
2. The number of kept bytes is limited; the oldest bytes are dropped. Names that dropped frames define (for example the
   name of consumer 3) remain known.
3. The broker's thread appends, and any thread may read. There is one lock, which an append does not acquire.
4. The decoder is imported at the first request, because most brokers in tests never need it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.wire.commands import name_of

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Address
    from pcli.codec.observe.live_frames import LiveFrames
    from pcli.codec.observe.observer_state import Facts
    from pcli.codec.payload import Message

_COST: Final = 400
"""Approximate memory of a chunk or a frame in addition to its bytes."""

_Chunk = tuple[int, bool, int, Any]
"""Connection, whether from the client, time, bytes (two addresses at the start of a connection, None at its end)."""


class LoggedFrame:
    """One frame that was sent or received."""

    __slots__ = ("_first_ns", "facts")

    def __init__(self, facts: Facts, first_ns: int) -> None:
        self.facts = facts
        """The decoded frame of pcli.codec.observe."""
        self._first_ns = first_ns

    @property
    def number(self) -> int:
        """The number of the frame, from 1 across all connections."""
        return self.facts.frame.number

    @property
    def type(self) -> str:
        """The name of the command, for example ``SEND`` or ``MESSAGE``."""
        return name_of(self.facts.frame.type)

    @property
    def from_client(self) -> bool:
        """Whether the client sent the frame."""
        return self.facts.frame.from_client

    @property
    def connection(self) -> int:
        """The number of the connection, from 0, in the order in which the clients connected."""
        return self.facts.frame.stream.number

    @property
    def client(self) -> str:
        """``address:port`` of the client."""
        address, port = self.facts.frame.stream.client
        return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

    @property
    def time(self) -> float:
        """The time of transfer, in seconds since 1970 by the broker's clock."""
        return self.facts.frame.time_ns / 1e9

    @property
    def command(self) -> Any:
        """The command's message, for example ``CommandFlow`` for a FLOW, or the BaseCommand if the type is unknown."""
        body = self.facts.frame.body
        return self.facts.frame.command if body is None else body

    @property
    def messages(self) -> list[Message]:
        """The decoded messages in a SEND or MESSAGE. Empty for other commands, and for a chunk that is not the last."""
        opened = self.facts.opened
        return [] if opened is None else opened.messages

    @property
    def text(self) -> str:
        """One line of text, as `pcli dissect` prints it."""
        from pcli.codec.observe.output.frame_summary import describe

        frame = self.facts.frame
        seconds = (frame.time_ns - self._first_ns) / 1e9
        arrow = "→" if frame.from_client else "←"
        head = f"{frame.number:>6} {seconds:>12.6f}  {self.client} {arrow} {self.type:<20}"
        return f"{head} {describe(self.facts)}".rstrip()

    def __repr__(self) -> str:
        return f"<{self.text.strip()}>"


class Frames:
    """The log of all frames. It is a tap. To get frames, iterate over it or call it with a filter."""

    def __init__(self, limit: int, max_frame_size: int) -> None:
        """``limit`` is the maximum number of kept bytes."""
        self._limit = limit
        self._added = 0
        """Number of bytes in all added chunks; only the broker's thread writes it."""
        self._removed = 0
        """Number of removed bytes, minus the additional memory of frames; written under the lock."""
        self._first_ns = 0
        self._max_frame_size = max_frame_size
        self._reader: LiveFrames | None = None
        self._chunks: deque[_Chunk] = deque()
        self._read: deque[Facts] = deque()
        self._lock = threading.RLock()

    def __call__(self, filter: str = "") -> list[LoggedFrame]:  # noqa: A002  (what it is called everywhere)
        """Return the frames that match a filter (``pulsar.type == 'ACK'``), or all frames.

        Raises LocalError for an invalid filter.
        """
        from pcli.codec.observe.filters.filter import compile_filter

        match = compile_filter(filter).match if filter else None
        with self._lock:
            self._read_all()
            found = [facts for facts in self._read if match is None or match(facts)]
        return [LoggedFrame(facts, self._first_ns) for facts in found]

    def __iter__(self) -> Iterator[LoggedFrame]:
        return iter(self())

    def __len__(self) -> int:
        with self._lock:
            self._read_all()
            return len(self._read)

    @property
    def count(self) -> int:
        """Number of frames so far, including dropped frames. It equals the number of the last frame."""
        with self._lock:
            self._read_all()
            return self._live().count

    @property
    def text(self) -> str:
        """All frames, one line each."""
        return "".join(f"{frame.text}\n" for frame in self())

    def clear(self) -> None:
        """Remove all frames so far. The numbering continues, and names remain known."""
        with self._lock:
            self._read_all()
            self._removed += sum(len(facts.frame.data) + _COST for facts in self._read)
            self._read.clear()

    def fork(self) -> LiveFrames:
        """Return a copy of the decoder's state for all connections."""
        with self._lock:
            self._read_all()
            return self._live().fork()

    # -- tap -----------------------------------------------------------------------------------------------------------

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """Record a new connection."""
        self._first_ns = self._first_ns or time_ns
        self._chunks.append((number, True, time_ns, (client, server)))

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Record transferred bytes."""
        self._chunks.append((number, from_client, time_ns, data))
        self._added += len(data) + _COST
        if self._added - self._removed > self._limit:
            with self._lock:
                self._make_room()

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """Record the end of a connection."""
        self._chunks.append((number, from_client, time_ns, None))

    # -- decoding ------------------------------------------------------------------------------------------------------

    def _live(self) -> LiveFrames:
        if self._reader is None:
            from pcli.codec.observe.live_frames import LiveFrames
            from pcli.codec.observe.payload_contents import Contents

            self._reader = LiveFrames(contents=Contents(), max_frame_size=self._max_frame_size)
        return self._reader

    def _read_all(self) -> None:
        while self._chunks:
            self._read_one()

    def _read_one(self, types: frozenset[int] | None = None) -> None:
        """Decode the frames that the oldest chunk completes. If ``types`` is given, decode only these types."""
        number, from_client, time_ns, data = self._chunks.popleft()
        if data is None:
            self._live().close(number)
        elif isinstance(data, tuple):
            self._live().open(number, *data)
        else:
            found = self._live().feed(number, data, time_ns, from_client=from_client, types=types)
            self._removed += len(data) + _COST - sum(len(facts.frame.data) + _COST for facts in found)
            self._read += found

    def _make_room(self) -> None:
        """Drop the oldest tenth of the bytes. In undecoded chunks, only commands that define names are decoded."""
        from pcli.codec.observe.live_frames import INFREQUENT

        goal = self._limit - self._limit // 10
        while self._added - self._removed > goal and (self._read or self._chunks):
            if self._read:
                self._removed += len(self._read.popleft().frame.data) + _COST
            else:
                self._read_one(INFREQUENT)
