"""TCP connections between clients and the broker under virtual time.

Rules of this file
1. Each direction delivers its bytes in order, in chunks, each after a random delay. A chunk can be split.
2. A stalled direction delivers nothing until the stall ends. A paused client receives nothing.
3. A break ends the connection on both sides and loses the bytes in flight. A half-close ends it on one side only: the
   other side finds out by its keep-alive. A regular close delivers the bytes before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

_DELAYS_MS = (0, 0, 1, 1, 2, 5, 20)
_SPLIT_ONE_IN = 12


class Schedule(Protocol):
    """The virtual time."""

    now: int

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Call a function at a time."""


class Endpoint(Protocol):
    """One side of a connection."""

    def opened(self, link: Link) -> None:
        """Handle the open connection."""

    def received(self, link: Link, data: bytes) -> None:
        """Process bytes."""

    def ended(self, link: Link, reason: str) -> None:
        """Handle the end of the connection."""


class _Direction:
    """The bytes in flight in one direction."""

    def __init__(self, link: Link, deliver: Callable[[bytes], None]) -> None:
        self._link, self._deliver = link, deliver
        self._chunks: deque[tuple[int, bytes | None]] = deque()
        self._last_due = 0
        self.held_until = 0

    def send(self, data: bytes | None) -> None:
        """Send bytes, or the end of the stream (None)."""
        link, schedule = self._link, self._link.schedule
        if data and len(data) > 1 and link.random.randrange(_SPLIT_ONE_IN) == 0:
            middle = link.random.randrange(1, len(data))
            self.send(data[:middle])
            data = data[middle:]
        due = max(self._last_due, schedule.now + link.random.choice(_DELAYS_MS))
        self._last_due = due
        self._chunks.append((due, data))
        schedule.at(due, self.pump)

    def hold(self, until: int) -> None:
        """Deliver nothing until a time."""
        self.held_until = max(self.held_until, until)
        self._link.schedule.at(self.held_until, self.pump)

    def pump(self) -> None:
        """Deliver the chunks that are due."""
        now = self._link.schedule.now
        while self._chunks and self._chunks[0][0] <= now >= self.held_until:
            data = self._chunks.popleft()[1]
            if data is None:
                self._link.stream_ended(self)
            else:
                self._deliver(data)

    def clear(self) -> None:
        """Lose the bytes in flight."""
        self._chunks.clear()


class Link:
    """One connection. Both sides call `write` and `close` for their own side."""

    def __init__(self, number: int, schedule: Schedule, client: Endpoint, broker: Endpoint, seed: int) -> None:
        self.number = number
        self.schedule = schedule
        self.random = Random(seed)
        self.client, self.broker = client, broker
        self.handle: Any = None
        """The client's object for this connection."""
        self.broker_connection: Any = None
        self.client_open = self.broker_open = False
        self.to_broker = _Direction(self, self._to_broker)
        self.to_client = _Direction(self, self._to_client)

    def write(self, data: bytes, *, from_client: bool) -> None:
        """Send bytes from one side."""
        if data:
            (self.to_broker if from_client else self.to_client).send(data)

    def close(self, *, from_client: bool) -> None:
        """Close one side; the other side finds out after the bytes in flight."""
        if from_client:
            self.client_open = False
            self.to_broker.send(None)
        else:
            self.broker_open = False
            self.to_client.send(None)

    def stream_ended(self, direction: object) -> None:
        """Report the end of a stream to its receiver."""
        if direction is self.to_broker:
            self._end_broker()
        else:
            self._end_client("the broker closed the connection")

    def cut(self, *, client: bool = True, broker: bool = True) -> None:
        """End the connection on one side or both; lose the bytes in flight."""
        self.to_broker.clear()
        self.to_client.clear()
        if broker:
            self._end_broker()
        if client:
            self._end_client("the connection was reset")

    def _to_broker(self, data: bytes) -> None:
        if self.broker_open:
            self.broker.received(self, data)

    def _to_client(self, data: bytes) -> None:
        if self.client_open:
            self.client.received(self, data)

    def _end_broker(self) -> None:
        if self.broker_open:
            self.broker_open = False
            self.broker.ended(self, "")

    def _end_client(self, reason: str) -> None:
        if self.client_open:
            self.client_open = False
            self.client.ended(self, reason)
