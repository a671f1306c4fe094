"""The raw connections of a run, and the state of the producers and consumers that use them.

Rules of this file
1. A step ends when all requests have their responses, nothing has arrived for ``quiet`` seconds and, if there is an
   earlier recording, at least as many frames have arrived as in that recording. The last wait is limited to
   ``patience`` seconds.
2. A frame of the broker updates the state of its producer or consumer as soon as it arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from scenarios.recording import Recording

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout
from pcli.codec.session import ClientSession, Event
from pcli.replay.service_url import ServiceUrl

_CONNECT_S = 10
_NO_LEDGER = (1 << 64) - 1


@dataclass(frozen=True)
class Broker:
    """The addresses of a broker."""

    service_url: str
    http_url: str
    name: str = ""
    advance: Callable[[float], object] | None = None
    """Advances the broker's clock by seconds; None if the broker has a real clock."""
    token: str = ""
    """Token of a superuser; empty if the broker has no authentication."""
    kill: Callable[[], object] | None = None
    """Kills the broker's process; None if the broker cannot be restarted with its data."""
    restart: Callable[[], object] | None = None
    """Starts a killed broker with its data, and waits until it is ready."""


@dataclass(frozen=True)
class Pace:
    """Waiting times in seconds."""

    quiet: float = 0.2
    patience: float = 10.0


@dataclass
class Held:
    """An entry that a consumer has received and has not acknowledged."""

    id: pb.MessageIdData
    size: int
    left: int
    """Bits of the unacknowledged messages of a batch."""


@dataclass
class Connection:
    """One connection and the entries that its consumer holds."""

    stream: int
    session: ClientSession
    writer: asyncio.StreamWriter
    alive: bool = True
    usable: bool = False
    """Whether its producer or consumer exists."""
    target: str = ""
    subscription: str = ""
    kind: str = ""
    schema_version: bytes = b""
    """The version of the producer's schema; empty if it has no schema."""
    transaction: dict[str, int] = field(default_factory=dict)
    """The fields with the id of the last transaction that began on this connection."""
    waiting_acks: dict[int, pb.CommandAck] = field(default_factory=dict)
    held: dict[tuple[int, int], Held] = field(default_factory=dict)
    layouts: dict[int, Layout] = field(default_factory=dict)
    """The last layout of each session of a scalable topic."""
    assignment: pb.ScalableConsumerAssignment | None = None
    """The last assignment of the stream or checkpoint consumer that is registered on this connection."""

    def unanswered(self) -> set[int]:
        """Return the identities of the requests without a response."""
        if not self.alive:
            return set()
        return {id(body) for body in (*self.session.open_requests, *self.waiting_acks.values())}


class Connections:
    """The connections of one run, and the entries that its producers have stored."""

    def __init__(
        self, broker: Broker, recording: Recording, pace: Pace, expected: Mapping[tuple[int, int], int]
    ) -> None:
        """``expected`` is the number of the broker's frames in an earlier run, by wait and connection."""
        self._broker, self._recording, self._pace, self._expected = broker, recording, pace, expected
        self._all: list[Connection] = []
        self._readers: list[asyncio.Task[None]] = []
        self._given_up: set[int] = set()
        self._last = 0.0
        self._loop = asyncio.get_running_loop()
        self.stored: dict[str, list[pb.MessageIdData]] = {}
        """The ids of the stored entries by topic."""

    async def open(self) -> Connection:
        """Open a connection, and wait for its CONNECTED."""
        address = ServiceUrl.parse(self._broker.service_url).hosts[0]
        reader, writer = await asyncio.open_connection(*address)
        connection = Connection(len(self._all), ClientSession(), writer)
        self._all.append(connection)
        self._readers.append(asyncio.create_task(self._read(connection, reader)))
        connection.session.connect()
        self.flush(connection)
        async with asyncio.timeout(_CONNECT_S):
            while connection.alive and connection.session.connected is None:
                await asyncio.sleep(0.002)
        return connection

    def close(self) -> None:
        """Close all connections without a record."""
        for connection in self._all:
            connection.alive = False
            connection.writer.close()
        for reader in self._readers:
            reader.cancel()

    def end(self, connection: Connection) -> None:
        """Close a connection as a client that ends."""
        self._recording.ended(connection.stream, from_client=True)
        connection.alive = connection.usable = False
        connection.writer.close()

    async def send(self, connection: Connection, body: Any, entry: bytes = b"") -> None:
        """Send a command and settle."""
        connection.session.send(body, entry)
        self.flush(connection)
        await self.settle()

    async def request(self, connection: Connection, body: Any) -> None:
        """Send a request without effects, and wait only for its response."""
        connection.session.send(body)
        self.flush(connection)
        until = self._loop.time() + self._pace.patience
        while connection.unanswered() and self._loop.time() < until:
            await asyncio.sleep(0.002)

    def flush(self, connection: Connection) -> None:
        """Send the frames that wait in the session of a connection."""
        data = connection.session.output()
        if data and connection.alive:
            self._recording.sent(connection.stream, data)
            connection.writer.write(data)

    async def settle(self, at_least: float = 0, until: Callable[[], bool] | None = None) -> None:
        """Wait until the broker has nothing more to send (rule 1), at least for some seconds.

        ``until`` is a condition that is expected to become true, and that is awaited like a response.
        """
        if at_least and self._broker.advance is not None:
            await asyncio.to_thread(self._broker.advance, at_least)
            at_least = 0
        start = self._last = self._loop.time()
        while True:
            now = self._loop.time()
            left = max(self._last + self._pace.quiet - now, start + at_least - now)
            if left > 0:
                await asyncio.sleep(left)
                continue
            missing = {one for connection in self._all for one in connection.unanswered()} - self._given_up
            if not missing and not self._is_incomplete() and (until is None or until()):
                break
            if now - max(self._last, start + at_least) >= self._pace.patience:
                self._given_up |= missing
                break
            await asyncio.sleep(0.02)
        self._recording.wait += 1

    def _is_incomplete(self) -> bool:
        wait, found = self._recording.wait, self._recording.counts
        return any(found[wait, one.stream] < self._expected.get((wait, one.stream), 0) for one in self._all)

    async def _read(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                for event in connection.session.receive(data):
                    if event.name not in ("PING", "PONG"):
                        self._last = self._loop.time()
                        self._recording.received(connection.stream, event.frame.data, event.frame.type)
                        self._note(connection, event)
                if connection.alive and (pong := connection.session.output()):
                    connection.writer.write(pong)
        if connection.alive:
            connection.alive = connection.usable = False
            self._last = self._loop.time()
            self._recording.ended(connection.stream, from_client=False)

    def _note(self, connection: Connection, event: Event) -> None:
        """Update the state of a producer or consumer after a frame of the broker."""
        name, body = event.name, event.body
        if name == "PRODUCER_SUCCESS" and not body.producer_ready:
            self._given_up.add(id(event.request))
        elif name in ("PRODUCER_SUCCESS", "SUCCESS"):
            connection.usable = True
            connection.schema_version = body.schema_version if name == "PRODUCER_SUCCESS" else b""
        elif name in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
            connection.usable = False
            connection.held.clear()
        elif name == "SEND_RECEIPT" and body.message_id.ledgerId != _NO_LEDGER:
            self.stored.setdefault(connection.target, []).append(body.message_id)
        elif name == "ACK_RESPONSE":
            connection.waiting_acks.pop(body.request_id, None)
        elif name == "NEW_TXN_RESPONSE" and not body.HasField("error"):
            connection.transaction = {
                "txnid_most_bits": body.txnid_most_bits,
                "txnid_least_bits": body.txnid_least_bits,
            }
        elif name == "MESSAGE":
            _hold(connection, event)
        elif name == "SCALABLE_TOPIC_UPDATE":
            connection.layouts[body.session_id] = Layout.of(body.dag)
        elif name in ("SCALABLE_TOPIC_SUBSCRIBE_RESPONSE", "SCALABLE_TOPIC_ASSIGNMENT_UPDATE"):
            connection.assignment = body.assignment


def _hold(connection: Connection, event: Event) -> None:
    body, metadata = event.body, event.frame.metadata
    size = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 0
    left = sum(word << 64 * at for at, word in enumerate(body.ack_set)) if body.ack_set else (1 << size) - 1
    key = body.message_id.ledgerId, body.message_id.entryId
    connection.held.pop(key, None)
    connection.held[key] = Held(body.message_id, size, left)
