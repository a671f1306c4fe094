"""The simulated network: virtual time, the broker, and the connections of all clients.

Rules of this file
1. Time passes only in `run`. Events at the same time run in the order in which they were scheduled, after the timers of
   the broker: a turn of the broker runs these first, and their output precedes what the turn receives.
2. After each turn of the broker, its output is sent and the history and the checks of the turn are updated.
3. The broker stores its state in a database. As in CommitGate, output waits until the batch with the changes before it
   is written, which takes a random time. `kill` loses the output that waits, and can lose what is not written.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from simulation.history import History, WireFrame
from simulation.links import Endpoint, Link

from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.broker import Broker
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.broker_storage import Batch, DurableBrokerStorage
from tests.minibroker.storage.memory_database import MemoryDatabase

START = 1_700_000_000_000
_CONNECT_MS = 2
_WRITE_MS = (0, 0, 1, 3, 10)
_KILL_MS = 300
_FLUSH_MS = 1000
"""The interval in which changes are written that no response waits for."""


class Timed(Protocol):
    """A client with timers."""

    @property
    def deadline(self) -> int | None:
        """The time of its next timer, or None."""

    def advance(self) -> None:
        """Run the timers that are due."""


class Network:
    """One broker and its clients."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.now = START
        self.seed = seed
        self.links: list[Link] = []
        self.clients: list[Timed] = []
        self.refuses_until = 0
        """The time until which the broker accepts no connections."""
        self.on_turn: Callable[[], None] = lambda: None
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._settings = settings
        self._random = Random(seed)
        self._database = MemoryDatabase()
        self.held: deque[tuple[int, Any, bytes, list[WireFrame]]] = deque()
        """Output that waits: the number of its batch, the connection, the bytes and their frames."""
        self.broker = self._start_broker()
        self.history = History(self.broker)

    def _start_broker(self) -> Broker:
        """Return a broker with the state in the database."""
        self._storage = DurableBrokerStorage(self._database)
        self._written = 0
        self._writing: Batch | None = None
        self._flushing = False
        self._kill_pending: Callable[[], None] | None = None
        self.held.clear()
        urls = {"service_url": "pulsar://127.0.0.1:6650", "http_url": "http://127.0.0.1:8080"}
        return Broker(self._settings, storage=self._storage, now=self.now, **urls)

    # -- time ----------------------------------------------------------------------------------------------------------

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Call a function at a time."""
        self._scheduled += 1
        heapq.heappush(self._queue, (max(time, self.now), self._scheduled, action))

    def run(self, milliseconds: int) -> None:
        """Advance the time."""
        end = self.now + milliseconds
        while (due := self._next_time()) <= end:
            self.now = max(self.now, due)
            self._run_due()
        self.now = end

    def _next_time(self) -> int:
        times = [self._queue[0][0]] if self._queue else []
        for one in (self.broker, *self.clients):
            deadline = one.deadline
            if deadline is not None:
                times.append(deadline)
        return min(times, default=1 << 62)

    def _run_due(self) -> None:
        deadline = self.broker.deadline
        if deadline is not None and deadline <= self.now:
            self.broker.advance(self.now)
            self.finish_turn()
        while self._queue and self._queue[0][0] <= self.now:
            heapq.heappop(self._queue)[2]()
        for client in list(self.clients):
            due = client.deadline
            if due is not None and due <= self.now:
                client.advance()

    # -- connections ---------------------------------------------------------------------------------------------------

    def connect(self, client: Endpoint, handle: Any) -> Link:
        """Open a connection of a client. The client is notified later."""
        link = Link(len(self.links), self, client, self, self.seed * 1009 + len(self.links))
        link.handle = handle
        self.links.append(link)
        link.client_open = True
        self.at(self.now + _CONNECT_MS, lambda: self._accept(link))
        return link

    def _accept(self, link: Link) -> None:
        if not link.client_open:
            return
        if self.now < self.refuses_until:
            link.client_open = False
            link.client.ended(link, "connection refused")
            return
        link.broker_connection = self.broker.connect(("10.0.0.1", 40000 + link.number % 20000), self.now)
        link.broker_connection.client_socket = link
        link.broker_open = True
        self.history.opened(link, self.now)
        self.finish_turn()
        link.client.opened(link)

    def live_links(self) -> list[Link]:
        """Return the connections that are open on both sides."""
        return [link for link in self.links if link.client_open and link.broker_open]

    # -- the broker ----------------------------------------------------------------------------------------------------

    def opened(self, link: Link) -> None:
        """Do nothing: the broker has accepted the connection."""

    def received(self, link: Link, data: bytes) -> None:
        """Process bytes of a client."""
        self.history.bytes_passed(link, data, self.now, from_client=True)
        self.broker.receive(link.broker_connection, data, self.now)
        self.finish_turn()

    def ended(self, link: Link, reason: str) -> None:
        """Release a connection whose socket was closed."""
        del reason
        self.history.closed(link, self.now, from_client=True)
        self.broker.disconnected(link.broker_connection, self.now)
        self.finish_turn()

    def change(self, action: Callable[[Broker], object]) -> None:
        """Run an administrative change as one turn of the broker."""
        self.broker.begin_turn(self.now)
        action(self.broker)
        self.broker.finish_turn()
        self.finish_turn()

    def finish_turn(self) -> None:
        """Send the output of the broker that need not wait, and check the turn."""
        self.history.read_ledgers(self.now)
        while pieces := self.broker.drain():
            for connection, data in pieces:
                frames = self.history.produced(connection.client_socket, data, self.now, closing=connection.closing)
                self.held.append((self._storage.required, connection, data, frames))
            self._release()
            self.broker.finish_turn()
            self.history.read_ledgers(self.now)
        self._write()
        self.history.turn += 1
        self.on_turn()

    def _release(self) -> None:
        """Send the output whose batch is written."""
        while self.held and self.held[0][0] <= self._written:
            _, connection, data, _ = self.held.popleft()
            link: Link = connection.client_socket
            if link.broker_open:
                self.history.bytes_passed(link, data, self.now, from_client=False)
                link.write(data, from_client=False)
                if connection.closing:
                    self.history.closed(link, self.now, from_client=False)
                    link.close(from_client=False)

    # -- the database --------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Start to write the batch if output can wait for it, or schedule a flush of the other changes."""
        storage = self._storage
        if self._writing is not None:
            return
        if storage.required > self._written:
            self._writing = storage.seal()
            end = self.now + self._random.choice(_WRITE_MS)
            if self._kill_pending is not None:
                self.at(self._random.randint(self.now, end), self._kill_pending)
            self.at(end, lambda: self._finish_write(storage))
        elif storage.dirty and not self._flushing:
            self._flushing = True
            self.at(self.now + _FLUSH_MS, lambda: self._flush(storage))

    def _finish_write(self, storage: DurableBrokerStorage) -> None:
        if storage is self._storage:
            self._write_now()
            self._release()
            self._write()
            self.on_turn()

    def _write_now(self) -> None:
        """Write the batch that is being written."""
        batch, self._writing = self._writing, None
        if batch is not None:
            self._database.write(batch)
            self._storage.written(batch)
            self._written = batch.number

    def write_all(self) -> None:
        """Write all changes."""
        self._write_now()
        self._writing = self._storage.seal()
        self._write_now()

    def _flush(self, storage: DurableBrokerStorage) -> None:
        if storage is self._storage:
            self._flushing = False
            storage.require()
            self._write()

    def kill_in_next_write(self, down_ms: int) -> None:
        """Kill the broker while it writes its next batch, or after 300 ms without a batch, and start it again."""

        def kill() -> None:
            if self._kill_pending is kill:
                self.kill(down_ms, written=False)

        self._kill_pending = kill
        self.at(self.now + _KILL_MS, kill)

    def heal(self) -> None:
        """Accept connections, and do not kill the broker any more."""
        self.refuses_until = 0
        self._kill_pending = None

    def kill(self, down_ms: int, *, written: bool) -> None:
        """Kill the broker and start it again; it accepts connections after ``down_ms``.

        ``written`` means that all changes are written before. Otherwise the batch that is being written is lost or not,
        and all later changes are lost.
        """
        self.refuses_until = self.now + down_ms
        self.history.mark("kill", self.now)
        if written:
            self.write_all()
        elif self._random.random() < 0.5:
            self._write_now()
        for _, _, _, frames in self.held:
            for frame in frames:
                frame.lost = True
        links = [link for link in self.links if link.broker_open]
        for link in links:
            self.history.closed(link, self.now, from_client=False)
            link.broker_open = False
        failures = self.broker.failures
        self.broker = self._start_broker()
        self.broker.failures = failures
        self.change(_load_topics)
        self.history.restarted(self.broker, self.now, complete=written)
        for link in links:
            link.cut(broker=False)


def _load_topics(broker: Broker) -> None:
    for name in sorted(broker.stored):
        broker.topic_registry.load(TopicName.parse(name))
