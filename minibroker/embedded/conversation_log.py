"""The conversation of a broker with its clients, kept as bytes and read as frames when somebody asks.

Rules of this file
1. To keep a chunk costs an append. Chunks become frames when they are asked for, once, and then stay frames.
2. No more than so many bytes are kept: the oldest go. What they taught (whose consumer is 3?) stays known.
3. The broker's thread appends and any thread may ask: one lock, which nobody holds who only appends.
4. What reads frames is imported when the first frame is read: most brokers in tests are never asked.
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

__all__ = ["Frames", "LoggedFrame"]

_COST: Final = 400
"""Bytes of memory that a chunk or a frame takes beside its own bytes, roughly."""

_Chunk = tuple[int, bool, int, Any]
"""Connection, whether from the client, time, bytes; two addresses instead: it begins; None: it ends."""


class LoggedFrame:
    """One frame that crossed a socket."""

    __slots__ = ("_first_ns", "facts")

    def __init__(self, facts: Facts, first_ns: int) -> None:
        self.facts = facts
        """All that pcli.codec.observe knows of it."""
        self._first_ns = first_ns

    @property
    def number(self) -> int:
        """Frames are counted from 1 over all connections."""
        return self.facts.frame.number

    @property
    def type(self) -> str:
        """The command: ``SEND``, ``MESSAGE``."""
        return name_of(self.facts.frame.type)

    @property
    def from_client(self) -> bool:
        """Whether the client sent it."""
        return self.facts.frame.from_client

    @property
    def connection(self) -> int:
        """Number of its connection: they are counted from 0 in the order of their coming."""
        return self.facts.frame.stream.number

    @property
    def client(self) -> str:
        """``address:port`` of the client."""
        address, port = self.facts.frame.stream.client
        return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

    @property
    def time(self) -> float:
        """When it crossed the socket, in seconds since 1970 by the broker's clock."""
        return self.facts.frame.time_ns / 1e9

    @property
    def command(self) -> Any:
        """The command's own message, a ``CommandFlow`` for a FLOW; the BaseCommand where the type is unknown."""
        body = self.facts.frame.body
        return self.facts.frame.command if body is None else body

    @property
    def messages(self) -> list[Message]:
        """The messages in a SEND or MESSAGE, opened; empty for all others, and for a chunk that is not the last."""
        opened = self.facts.opened
        return [] if opened is None else opened.messages

    @property
    def text(self) -> str:
        """One line for people, as `pcli dissect` has it."""
        from pcli.codec.observe.output.frame_summary import describe

        frame = self.facts.frame
        seconds = (frame.time_ns - self._first_ns) / 1e9
        arrow = "→" if frame.from_client else "←"
        head = f"{frame.number:>6} {seconds:>12.6f}  {self.client} {arrow} {self.type:<20}"
        return f"{head} {describe(self.facts)}".rstrip()

    def __repr__(self) -> str:
        return f"<{self.text.strip()}>"


class Frames:
    """The log. It is a tap; iterate over it, or call it with a filter."""

    def __init__(self, limit: int, max_frame_size: int) -> None:
        """``limit``: bytes that are kept."""
        self._limit = limit
        self._added = 0
        """Bytes that chunks brought; only the broker's thread counts here."""
        self._removed = 0
        """Bytes that went, less what frames need more than their chunks; counted under the lock."""
        self._first_ns = 0
        self._max_frame_size = max_frame_size
        self._reader: LiveFrames | None = None
        self._chunks: deque[_Chunk] = deque()
        self._read: deque[Facts] = deque()
        self._lock = threading.RLock()

    def __call__(self, filter: str = "") -> list[LoggedFrame]:  # noqa: A002  (what it is called everywhere)
        """The frames that match a filter (``pulsar.type == 'ACK'``), all without one. LocalError: a wrong filter."""
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
        """How many frames there were so far, with those that are not kept any more: the number of the last one."""
        with self._lock:
            self._read_all()
            return self._live().count

    @property
    def text(self) -> str:
        """All of them, a line each."""
        return "".join(f"{frame.text}\n" for frame in self())

    def clear(self) -> None:
        """Forget the frames so far; numbers go on, and names stay known."""
        with self._lock:
            self._read_all()
            self._removed += sum(len(facts.frame.data) + _COST for facts in self._read)
            self._read.clear()

    def fork(self) -> LiveFrames:
        """What is known of all connections now, for one that goes on by itself."""
        with self._lock:
            self._read_all()
            return self._live().fork()

    # -- as a tap --------------------------------------------------------------------------------------------------

    def opened(self, number: int, client: Address, server: Address, time_ns: int) -> None:
        """A client has come."""
        self._first_ns = self._first_ns or time_ns
        self._chunks.append((number, True, time_ns, (client, server)))

    def passed(self, number: int, data: bytes, time_ns: int, *, from_client: bool) -> None:
        """Bytes crossed the socket."""
        self._chunks.append((number, from_client, time_ns, data))
        self._added += len(data) + _COST
        if self._added - self._removed > self._limit:
            with self._lock:
                self._make_room()

    def closed(self, number: int, time_ns: int, *, from_client: bool, reset: bool, reason: str) -> None:
        """The connection has ended."""
        self._chunks.append((number, from_client, time_ns, None))

    # -- chunks to frames ------------------------------------------------------------------------------------------

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
        """Read the frames that the oldest chunk completes, or only those of some types."""
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
        """Forget the oldest tenth; of what nobody has read, only what teaches names is looked at."""
        from pcli.codec.observe.live_frames import SELDOM

        goal = self._limit - self._limit // 10
        while self._added - self._removed > goal and (self._read or self._chunks):
            if self._read:
                self._removed += len(self._read.popleft().frame.data) + _COST
            else:
                self._read_one(SELDOM)
