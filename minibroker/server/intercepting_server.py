"""A server whose connections are reported to taps and modified by faults.

Rules of this file
1. The plain server in `tcp_server` does not depend on this module. In this server, each client socket reports its bytes
   to the taps and, if there are faults, passes them to the injector.
2. Delayed bytes wait for a broker timer. A manual clock therefore also releases them.
3. The latency is real time: it delays all output, in order, and does not depend on the broker's clock.
4. Waiters (functions that `wait_until` registers) are called after each turn.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from pcli.codec.errors import LocalError
from pcli.minibroker.server.tcp_server import ClientSocket, Server, socket_addresses

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Tap
    from pcli.codec.faults import Injector, Step
    from pcli.minibroker.broker import Broker
    from pcli.minibroker.server.clock import Clock
    from pcli.minibroker.settings import Settings
    from pcli.minibroker.storage.broker_storage import Database
    from pcli.minibroker.storage.spilling_storage import Pool

_MS = 1_000_000


class InterceptingServer(Server):
    """A server with taps, faults and waiters."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        pool: Pool | None = None,
        database: Database | None = None,
        taps: Iterable[Tap] = (),
        http_taps: Iterable[Tap] = (),
        intercept: bool,
    ) -> None:
        """If ``intercept`` is False, plain client sockets without taps or faults are created.

        ``taps`` receive the binary protocol; ``http_taps`` receive HTTP. Connections of both kinds are numbered
        together.
        """
        super().__init__(settings, pool=pool, clock=clock.now, database=database)
        self.clock = clock
        self.taps = list(taps)
        self._http_taps = list(http_taps)
        self.injector: Injector | None = None
        """The injector of faults; None until a fault is added."""
        self.waiters: dict[Callable[[], None], None] = {}
        """Functions called after each turn."""
        self.intercept = intercept
        """Whether client sockets use taps and faults."""
        self._numbers = itertools.count()
        self._running_waiters = False

    def new_client_socket(self) -> ClientSocket:
        """Return an intercepted client socket if ``intercept`` is true."""
        return _InterceptedSocket(self, next(self._numbers)) if self.intercept else ClientSocket(self)

    def flush(self) -> None:
        """Write all output, then call the waiters."""
        super().flush()
        if self.waiters and not self._running_waiters:
            self._running_waiters = True  # a waiter can end a turn, which calls flush again
            for waiter in list(self.waiters):
                waiter()
            self._running_waiters = False

    def _http(self) -> asyncio.BaseProtocol:
        protocol = super()._http()
        if not self._http_taps:
            return protocol
        from pcli.minibroker.server.http_tap import TappedHttp

        return TappedHttp(protocol, next(self._numbers), self.clock, self._http_taps)

    async def _create_listener(
        self, factory: Callable[[], asyncio.BaseProtocol], port: int, *, tls: bool
    ) -> asyncio.Server:
        try:
            return await super()._create_listener(factory, port, tls=tls)
        except OSError as fault:
            # The loop adds text to the system's message; errors of name resolution have negative numbers.
            reason = (
                os.strerror(fault.errno)
                if fault.errno is not None and fault.errno > 0
                else fault.strerror or str(fault)
            )
            raise LocalError(f"port {port} of {self.settings.bindAddress}: {reason.lower()}") from None

    async def start(self) -> None:
        """Listen, and store the ports for restarts. Raises LocalError if a port is in use."""
        await super().start()
        for setting, listener in self._listeners.items():
            setattr(self.settings, setting, listener.sockets[0].getsockname()[1])

    async def restart(self) -> None:
        """Close the connections, and start again with the stored state.

        Without a database, the broker remains: its ledgers roll, and stored entries remain in memory.
        """
        await self._close_listeners()
        broker = self.broker
        broker.begin_turn(self.now())
        if self._storage is not None:
            self._storage.close()
        for connection in list(broker.connections):
            connection.close("the broker is restarting")
        broker.finish_turn()
        self.flush()
        if self._gate is not None:
            await self._gate.close()
            self.broker = self._new_broker()
        else:
            self._reload(broker)
        for client_socket in list(self.client_sockets):
            client_socket.abort()
        if self._http_server is not None:
            await self._http_server.close(0)
            self._http_server = None
        await self.start()

    def _reload(self, broker: Broker) -> None:
        """Roll the ledgers, and forget what a restart forgets."""
        for topic in list(broker.topics.values()):
            if topic.persistent:
                topic.unload()
            else:
                broker.delete_topic(topic.name, force=True)
        broker.transactions.close(list(broker.transactions.stores))
        for namespace in list(broker.policies.namespaces):
            broker.topic_registry.forget_namespace(namespace)
        broker.finish_turn()
        self.flush()


class _InterceptedSocket(ClientSocket):
    """The socket of one client, with taps and faults."""

    def __init__(self, server: InterceptingServer, number: int) -> None:
        super().__init__(server)
        self._watched = server
        self.number = number
        self._ended = False
        """Whether the server has closed the socket."""
        self._cut = False
        self._outgoing: deque[Callable[[], None]] = deque()
        """The writes, and the close, that are delayed by the latency."""
        self._delayed: dict[bool, deque[Step]] = {True: deque(), False: deque()}
        """Delayed steps in order; the first value of a step is True for the broker and False for the client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection."""
        addresses = socket_addresses(transport)
        now = self._watched.clock.time_ns()
        for tap in self._watched.taps:
            tap.opened(self.number, *addresses, now)
        if self._watched.injector is not None:
            self._watched.injector.open(self.number, *addresses)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Process bytes from the client."""
        server, now = self._watched, self._watched.clock.time_ns()
        for tap in server.taps:
            tap.passed(self.number, data, now, from_client=True)
        if server.injector is None:
            super().data_received(data)
            return
        for step in server.injector.feed(self.number, data, now, from_client=True):
            self._do(step)
        server.flush()

    def write(self, data: bytes) -> None:
        """Write bytes to the client, after the latency."""
        self._do_after_latency(partial(self._write_through_faults, data))

    def close(self) -> None:
        """Close when the delayed steps are done."""
        self._do_after_latency(self._close_after_steps)

    def _do_after_latency(self, action: Callable[[], None]) -> None:
        latency = self._watched.latency
        if not latency:
            action()
            return
        self._outgoing.append(action)
        asyncio.get_running_loop().call_later(latency, self._do_next)

    def _do_next(self) -> None:
        action = self._outgoing.popleft()
        if self._transport is not None:
            action()
            self._watched.flush()

    def _write_through_faults(self, data: bytes) -> None:
        injector = self._watched.injector
        if injector is None:
            self._report_and_write(data)
            return
        for step in injector.feed(self.number, data, self._watched.clock.time_ns(), from_client=False):
            self._do(step)

    def _close_after_steps(self) -> None:
        server = self._watched
        due = 0 if server.injector is None else server.injector.last_due(self.number, from_client=False)
        if due > server.clock.time_ns():
            server.broker.call_at(-(-due // _MS), self._end)
        else:
            self._end()

    def abort(self) -> None:
        """Close the socket at once."""
        self._ended = True
        super().abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        server = self._watched
        reset = self._cut or isinstance(exc, ConnectionResetError)
        reason = self.connection.reason
        for tap in server.taps:
            now = server.clock.time_ns()
            tap.closed(self.number, now, from_client=not self._ended, reset=reset, reason=reason)
        if server.injector is not None:
            server.injector.close(self.number)
        super().connection_lost(exc)

    def _end(self) -> None:
        self._ended = True
        super().close()

    def _report_and_write(self, data: bytes) -> None:
        if data and not self._cut and self._transport is not None:
            for tap in self._watched.taps:
                tap.passed(self.number, data, self._watched.clock.time_ns(), from_client=False)
            super().write(data)

    # -- faults ----------------------------------------------------------------------------------------------------

    def _do(self, step: Step) -> None:
        """Execute a step now, or when it is due."""
        delayed = self._delayed[step.to_broker]
        if delayed or step.due_ns > self._watched.clock.time_ns():
            delayed.append(step)
            self._watched.broker.call_at(-(-step.due_ns // _MS), lambda: self._do_delayed(delayed.popleft()))
        elif step.to_broker and not step.cut:
            super().data_received(bytes(step.data))
        else:
            self._do_delayed(step)

    def _do_delayed(self, step: Step) -> None:
        """Execute a step within a turn of the broker."""
        if step.cut:
            self._cut = True
            self.connection.close("closed by a fault")
            self.abort()
        elif step.to_broker:
            self.connection.receive(bytes(step.data))
        else:
            self._report_and_write(bytes(step.data))
