"""The client on sockets: the only place with a clock, a loop, chance and connections.

Rules of this file
1. The engine is asked in turns: bytes in, then everything that it wants done, in its order. One timer of the loop
   stands for all of its timers.
2. What waits to be written is bounded by the engine: messages hold their part of ``memoryLimitBytes`` until they are
   acknowledged. So writes are never held back here.
3. A connection that does not come to be is told to the engine in a line that says what to do about it.
4. A Refusal leaves as an error: LocalError where the caller asked wrongly, else RemoteError. An exception that is our
   own fault ends whatever is being waited for.
5. HTTP is asked in a thread, without proxies of the environment: brokers are asked directly.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pcli.codec.errors import RemoteError
from pcli.replay.client.actions import Action, Connect, Fetch, Shut, Write
from pcli.replay.client.client_settings import ClientSettings
from pcli.replay.client.connection.connect_errors import reason_for
from pcli.replay.client.connection.errors import Refusal
from pcli.replay.client.engine import Engine
from pcli.replay.event_loop import new_event_loop, now_ms

if TYPE_CHECKING:
    from pcli.replay.client.connection.client_connection import Link
    from pcli.replay.client.consumer.consumer import Consumer
    from pcli.replay.client.consumer.incoming_entry import Incoming
    from pcli.replay.client.consumer.multi_topics_consumer import MultiTopicsConsumer
    from pcli.replay.client.consumer.reader import Reader
    from pcli.replay.client.consumer_settings import ConsumerSettings, ReaderSettings
    from pcli.replay.client.producer.partitioned_producer import PartitionedProducer
    from pcli.replay.client.producer.producer import Producer
    from pcli.replay.client.producer_settings import ProducerSettings
    from pcli.replay.service_url import ServiceUrl

__all__ = ["Client", "run"]

_T = TypeVar("_T")

_LINGER: Final = 5.0
"""Seconds that a client waits for the broker's answer when it takes leave."""


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a program in a loop of its own: uvloop's where it is installed, else asyncio's."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


class Client:
    """A client of one cluster; all of it belongs to the loop that enters it.

    LocalError: its certificates are no use.
    """

    def __init__(
        self, url: ServiceUrl, settings: ClientSettings | None = None, *, clock: Callable[[], int] | None = None
    ) -> None:
        self.settings = settings or ClientSettings()
        self.now = clock or now_ms
        """Milliseconds since 1970."""
        self.engine = Engine(url, self.settings, now=self.now(), random=random.random)
        self._tls = self.settings.security.context() if url.tls else None
        self._sockets: dict[Link, _Socket] = {}
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
        """Be sure that a broker is there, host by host of the service URL. RemoteError: none takes us."""
        hosts = self.engine.url.hosts
        for left in range(len(hosts) - 1, -1, -1):
            try:
                await self.ask(self.engine.lookup.reach)
            except RemoteError:
                if not left:
                    raise
            else:
                return

    async def produce(self, topic: str, settings: ProducerSettings) -> Producer | PartitionedProducer:
        """The engine's producer, once the broker has taken it."""
        made: Producer | PartitionedProducer = await self.ask(lambda done: self.engine.produce(topic, settings, done))
        return made

    async def subscribe(self, settings: ConsumerSettings) -> Consumer | MultiTopicsConsumer:
        """The engine's consumer, likewise."""
        made: Consumer | MultiTopicsConsumer = await self.ask(lambda done: self.engine.subscribe(settings, done))
        return made

    async def read(self, settings: ReaderSettings) -> Reader:
        """The engine's reader, likewise."""
        made: Reader = await self.ask(lambda done: self.engine.read(settings, done))
        return made

    async def receive(self, consumer: Consumer | MultiTopicsConsumer) -> Incoming:
        """The next message of a consumer, waited for. RemoteError: there will be none."""
        return await self._next(consumer, consumer.receive)

    async def read_next(self, reader: Reader) -> Incoming:
        """The same of a reader."""
        return await self._next(reader.consumer, reader.read_next)

    async def _next(self, consumer: Consumer | MultiTopicsConsumer, take: Callable[[], Incoming | None]) -> Incoming:
        def tell(done: Callable[[Any], None]) -> None:
            consumer.on_message, consumer.on_fault = lambda: done(None), done

        while True:
            with self.turn():
                message = take()
            if message is not None:
                return message
            await self.ask(tell)

    @contextmanager
    def turn(self) -> Iterator[Engine]:
        """What is asked of the engine's objects in here is one turn: written together at its end."""
        self.engine.advance(self.now())
        try:
            yield self.engine
        finally:
            self._flush()

    async def ask(self, begin: Callable[[Callable[[Any], None]], object]) -> Any:
        """Begin something that takes a continuation, and wait for what it gets; a Refusal is raised as an error."""
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
        if isinstance(result, Refusal):
            raise result.to_error()
        return result

    async def close(self) -> None:
        """Take leave of all brokers, and let go of the sockets; takes a few seconds at most, whatever they do."""
        if self._failure is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LINGER):
                    await self.ask(lambda done: self.engine.close(lambda: done(None)))
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
        """One turn of the engine, begun by a socket, a timer or an answer; it gets the time."""
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
            case Write(link, data):
                if link in self._sockets:
                    self._sockets[link].write(data)
            case Connect():
                self._spawn(self._connect(action))
            case Shut(link):
                if link in self._sockets:
                    self._sockets[link].close()
            case Fetch():
                self._spawn(self._fetch(action))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _arm(self) -> None:
        """Set the loop's timer to the first of the engine's; one that is early is left, it looks again."""
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
        link, timeout = action.link, self.settings.connectionTimeoutMs
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout / 1000):
                await loop.create_connection(
                    lambda: _Socket(self, link), action.host, action.port, ssl=self._tls if action.tls else None
                )
        except OSError as fault:
            text = f"no connection within {timeout} ms" if isinstance(fault, TimeoutError) else ""
            self._lost(link, text or reason_for(fault, tls=action.tls))
        else:
            self.run_turn(lambda now: self.engine.connected(link, now))
            if link.gone is not None and link in self._sockets:
                self._sockets[link].close()

    def came(self, link: Link, socket: _Socket) -> None:
        """A connection is there."""
        self._sockets[link] = socket

    def went(self, link: Link, fault: Exception | None) -> None:
        """A connection is gone."""
        self._sockets.pop(link, None)
        text = "the broker closed the connection" if fault is None else reason_for(fault, tls=False)
        self._lost(link, text)

    def _lost(self, link: Link, reason: str) -> None:
        self.run_turn(lambda now: self.engine.disconnected(link, now, reason))

    # -- HTTP ------------------------------------------------------------------------------------------------------

    async def _fetch(self, action: Fetch) -> None:
        from pcli.replay.client.connection.http_fetch import fetch

        timeout = self.settings.operationTimeoutMs / 1000
        status, body = await asyncio.to_thread(fetch, action.url, action.headers, timeout, self._tls)
        self.run_turn(lambda now: self.engine.fetched(action, status, body, now))


class _Socket(asyncio.Protocol):
    """The socket of one link."""

    def __init__(self, client: Client, link: Link) -> None:
        self._client = client
        self._link = link
        self._transport: Any = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the socket is gone."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP, and TLS if wanted, are there."""
        self._transport = transport
        self._client.came(self._link, self)

    def data_received(self, data: bytes) -> None:
        """Bytes of the broker."""
        client = self._client
        client.run_turn(lambda now: client.engine.received(self._link, data, now))

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed, by whomever."""
        if not self.closed.done():
            self.closed.set_result(None)
        self._client.went(self._link, exc)

    def write(self, data: bytes) -> None:
        """Bytes to the broker."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close it after what was written."""
        self._transport.close()

    def abort(self) -> None:
        """Close it now."""
        self._transport.abort()
