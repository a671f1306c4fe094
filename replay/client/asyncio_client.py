"""The asyncio client. It runs the engine with sockets, the clock, the event loop and random numbers.

Rules of this file
1. Each input starts one turn of the engine; its actions are then executed in order. One timer of the event loop serves
   all timers of the engine.
2. The engine limits the pending output: each message uses part of ``memoryLimitBytes`` until the broker acknowledges
   it. Writes therefore need no flow control in this module.
3. A connection that cannot be opened is reported to the engine with a message that contains the remedy.
4. A ClientFailure is raised as LocalError if the caller's arguments are invalid, or else as RemoteError. If an
   exception occurs in the engine, every call in progress raises it.
5. HTTP requests run in a thread and ignore proxy settings in the environment, because brokers are reached directly.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pcli.codec.errors import RemoteError
from pcli.replay.client.actions import Action, Connect, Disconnect, Fetch, Write
from pcli.replay.client.connection.connect_errors import reason_for
from pcli.replay.client.connection.errors import ClientFailure
from pcli.replay.client.engine import Engine
from pcli.replay.client.settings import ClientSettings
from pcli.replay.event_loop import new_event_loop, now_ms

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import ClientConnection
    from pcli.replay.client.consumer.consumer import Consumer
    from pcli.replay.client.consumer.incoming_entry import IncomingMessage
    from pcli.replay.client.consumer.multi_topics_consumer import MultiTopicsConsumer
    from pcli.replay.client.consumer.reader import Reader
    from pcli.replay.client.producer.partitioned_producer import PartitionedProducer
    from pcli.replay.client.producer.producer import Producer
    from pcli.replay.client.settings import ConsumerSettings, ProducerSettings, ReaderSettings
    from pcli.replay.service_url import ServiceUrl

_T = TypeVar("_T")

_LINGER: Final = 5.0
"""Maximum number of seconds that a closing client waits for the brokers' responses."""


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in a new event loop. The loop is from uvloop if uvloop is installed, otherwise from asyncio."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


class Client:
    """A client of one cluster. It belongs to the event loop in which its context is entered.

    Raises LocalError if the certificates are invalid.
    """

    def __init__(
        self, url: ServiceUrl, settings: ClientSettings | None = None, *, clock: Callable[[], int] | None = None
    ) -> None:
        self.settings = settings or ClientSettings()
        self.now = clock or now_ms
        """Return the time in milliseconds since 1970."""
        self.engine = Engine(url, self.settings, now=self.now(), random=random.random)
        self._tls = self.settings.security.context() if url.tls else None
        self._sockets: dict[ClientConnection, _Socket] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None
        self._waiting: set[asyncio.Future[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0

    # -- for applications ------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Check that a broker is reachable. The hosts of the service URL are tried in turn.

        Raises RemoteError if all hosts fail.
        """
        hosts = self.engine.url.hosts
        for left in range(len(hosts) - 1, -1, -1):
            try:
                await self.call(self.engine.lookup.reach)
            except RemoteError:
                if not left:
                    raise
            else:
                return

    async def produce(self, topic: str, settings: ProducerSettings) -> Producer | PartitionedProducer:
        """Create a producer and return it when the broker has accepted it."""
        made: Producer | PartitionedProducer = await self.call(lambda done: self.engine.produce(topic, settings, done))
        return made

    async def subscribe(self, settings: ConsumerSettings) -> Consumer | MultiTopicsConsumer:
        """Create a consumer and return it when the broker has accepted it."""
        made: Consumer | MultiTopicsConsumer = await self.call(lambda done: self.engine.subscribe(settings, done))
        return made

    async def read(self, settings: ReaderSettings) -> Reader:
        """Create a reader and return it when the broker has accepted it."""
        made: Reader = await self.call(lambda done: self.engine.read(settings, done))
        return made

    async def receive(self, consumer: Consumer | MultiTopicsConsumer) -> IncomingMessage:
        """Wait for the next message of a consumer. Raises RemoteError if the consumer fails."""
        return await self._next(consumer, consumer.receive)

    async def read_next(self, reader: Reader) -> IncomingMessage:
        """Wait for the next message of a reader. Raises RemoteError if the reader fails."""
        return await self._next(reader.consumer, reader.read_next)

    async def _next(
        self, consumer: Consumer | MultiTopicsConsumer, take: Callable[[], IncomingMessage | None]
    ) -> IncomingMessage:
        def set_callbacks(done: Callable[[Any], None]) -> None:
            consumer.on_message, consumer.on_fault = lambda: done(None), done

        while True:
            with self.turn():
                message = take()
            if message is not None:
                return message
            await self.call(set_callbacks)

    @contextmanager
    def turn(self) -> Iterator[Engine]:
        """Context of one turn. All output that calls to the engine's objects produce is written when the turn ends."""
        self.engine.advance(self.now())
        try:
            yield self.engine
        finally:
            self._flush()

    async def call(self, begin: Callable[[Callable[[Any], None]], object]) -> Any:
        """Call ``begin`` with a callback and return the callback's argument. A ClientFailure is raised as an error."""
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            with self.turn():
                begin(lambda result: None if future.done() else future.set_result(result))
            result = await future
        finally:
            self._waiting.discard(future)
        if isinstance(result, ClientFailure):
            raise result.to_error()
        return result

    async def close(self) -> None:
        """Close producers, consumers and connections. This takes a few seconds at most, even if no broker responds."""
        if self._failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LINGER):
                    await self.call(lambda done: self.engine.close(lambda: done(None)))
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for future in self._waiting:
            if not future.done():
                future.set_exception(RemoteError("the client is closed"))
        if self._sockets and self._failure is None:
            await asyncio.wait([socket.closed for socket in self._sockets.values()], timeout=1)
        for socket in list(self._sockets.values()):
            socket.abort()
        await asyncio.sleep(0)

    # -- turns -----------------------------------------------------------------------------------------------------

    def run_turn(self, action: Callable[[int], None]) -> None:
        """Run one turn of the engine. ``action`` is called with the current time."""
        try:
            action(self.now())
            self._flush()
        except Exception as fault:
            self._failure = fault
            for future in self._waiting:
                if not future.done():
                    future.set_exception(fault)

    def _flush(self) -> None:
        while actions := self.engine.take():
            for action in actions:
                self._do(action)
        self._arm()

    def _do(self, action: Action) -> None:
        match action:
            case Write(connection, data):
                if connection in self._sockets:
                    self._sockets[connection].write(data)
            case Connect():
                self._spawn(self._connect(action))
            case Disconnect(connection):
                if connection in self._sockets:
                    self._sockets[connection].close()
            case Fetch():
                self._spawn(self._fetch(action))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _arm(self) -> None:
        """Set the timer of the loop to the engine's first deadline.

        An earlier timer is kept. When it expires, it sets the next timer.
        """
        deadline = self.engine.deadline
        if deadline is None:
            return
        if self._timer is not None:
            if self._armed <= deadline:
                return
            self._timer.cancel()
        self._armed = deadline
        delay = max(0, deadline - self.now()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay, self._run_due)

    def _run_due(self) -> None:
        self._timer = None
        self.run_turn(self.engine.advance)

    # -- connections -----------------------------------------------------------------------------------------------

    async def _connect(self, action: Connect) -> None:
        connection, timeout = action.connection, self.settings.connectionTimeoutMs
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout / 1000):
                await loop.create_connection(
                    lambda: _Socket(self, connection), action.host, action.port, ssl=self._tls if action.tls else None
                )
        except OSError as fault:
            text = f"no connection within {timeout} ms" if isinstance(fault, TimeoutError) else ""
            self._lost(connection, text or reason_for(fault, tls=action.tls))
        else:
            self.run_turn(lambda now: self.engine.connected(connection, now))
            if connection.close_reason is not None and connection in self._sockets:
                self._sockets[connection].close()

    def came(self, connection: ClientConnection, socket: _Socket) -> None:
        """Register the socket of an open connection."""
        self._sockets[connection] = socket

    def went(self, connection: ClientConnection, fault: Exception | None) -> None:
        """Remove the socket of a closed connection, and report the reason to the engine."""
        self._sockets.pop(connection, None)
        text = "the broker closed the connection" if fault is None else reason_for(fault, tls=False)
        self._lost(connection, text)

    def _lost(self, connection: ClientConnection, reason: str) -> None:
        self.run_turn(lambda now: self.engine.disconnected(connection, now, reason))

    # -- HTTP ------------------------------------------------------------------------------------------------------

    async def _fetch(self, action: Fetch) -> None:
        from pcli.replay.client.connection.http_fetch import fetch

        timeout = self.settings.operationTimeoutMs / 1000
        status, body = await asyncio.to_thread(fetch, action.url, action.headers, timeout, self._tls)
        self.run_turn(lambda now: self.engine.fetched(action, status, body, now))


class _Socket(asyncio.Protocol):
    """The socket of one connection."""

    def __init__(self, client: Client, connection: ClientConnection) -> None:
        self._client = client
        self._connection = connection
        self._transport: Any = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """A future that is done when the socket is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the socket, on which TCP and, if requested, TLS are established."""
        self._transport = transport
        self._client.came(self._connection, self)

    def data_received(self, data: bytes) -> None:
        """Pass bytes from the broker to the engine."""
        client = self._client
        client.run_turn(lambda now: client.engine.received(self._connection, data, now))

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the socket was closed by either side."""
        if not self.closed.done():
            self.closed.set_result(None)
        self._client.went(self._connection, exc)

    def write(self, data: bytes) -> None:
        """Write bytes to the broker."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close the socket after the pending writes."""
        self._transport.close()

    def abort(self) -> None:
        """Close the socket immediately."""
        self._transport.abort()
