"""The broker on sockets, with a clock, an event loop and ports.

Rules of this file
1. The broker works in turns: bytes are passed to `Broker.receive`, then all output is written, one write per
   connection. If a write allows more output to a client that exceeded the limit, that output is written in the same
   turn.
2. One timer of the loop serves all timers of the broker.
3. If a client does not read, no entries are sent above the high-water mark of its socket. If its responses also
   accumulate (up to `_FULL`), its requests are no longer read. This limits the memory of a connection. Output that
   waits for a commit counts like output that waits for the client, and the number of SENDs that wait is limited.
4. The HTTP packages are imported at the first HTTP connection.
5. Exceptions in the broker and the event loop are logged and kept in `failures`. A connection that is closed because of
   a client error is logged in one line.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.session import State
from pcli.minibroker.broker import Broker
from pcli.minibroker.errors import Refused
from pcli.minibroker.server.tls import ServerContext, certificate_role
from pcli.minibroker.settings import Settings
from pcli.minibroker.storage.broker_storage import DurableBrokerStorage

if TYPE_CHECKING:
    from pcli.codec.capture.tap import Address
    from pcli.minibroker.connection import Connection
    from pcli.minibroker.server.commit_gate import CommitGate
    from pcli.minibroker.server.http_server import HttpServer
    from pcli.minibroker.storage.broker_storage import Database
    from pcli.minibroker.storage.spilling_storage import Pool

_log = logging.getLogger("pcli.minibroker")

_FULL: Final = 8 << 20
"""Number of bytes waiting for one client above which its requests are no longer read."""

_LINGER: Final = 0.5
"""Maximum time in seconds for a closed connection to write its output."""

_BACKLOG: Final = 1024
"""Maximum number of connections waiting to be accepted (Netty's SO_BACKLOG)."""

_ANY: Final = ("0.0.0.0", "::", "")  # noqa: S104  (compared with, not bound to)


def wall_clock() -> Callable[[], int]:
    """Return a clock in milliseconds since 1970 that starts at the system time and never jumps."""
    start = time.time() * 1000 - time.monotonic() * 1000
    monotonic = time.monotonic
    return lambda: int(start + monotonic() * 1000)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if uvloop is installed, or else an asyncio event loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def socket_addresses(transport: asyncio.BaseTransport) -> tuple[Address, Address]:
    """Return the addresses and ports of client and server, or 0.0.0.0 and 0 if the client has already disconnected."""
    client, server = (transport.get_extra_info(name) or (_ANY[0], 0) for name in ("peername", "sockname"))
    return (client[0], client[1]), (server[0], server[1])


class Server:
    """A listening broker. It must be used from the loop that calls `start`."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        instance: int = 0,
        pool: Pool | None = None,
        clock: Callable[[], int] | None = None,
        database: Database | None = None,
    ) -> None:
        """If there is a ``database``, the broker restores its state from it and stores every change in it."""
        self.now = wall_clock() if clock is None else clock
        """The time in milliseconds since 1970."""
        self.settings = Settings() if settings is None else settings
        if note := self.settings.note():
            _log.warning("%s", note)
        self._instance, self._pool, self._database = instance, pool, database
        self._gate: CommitGate | None = None
        self._write_failure = ""
        """The last reason for which a batch could not be written; each reason is logged once."""
        self.broker = self._new_broker()
        self.failures: list[BaseException] = []
        """Exceptions caused by bugs."""
        self.latency = 0.0
        """Time in seconds by which the output of intercepted sockets and HTTP responses is delayed."""
        self.client_sockets: set[ClientSocket] = set()
        self._listeners: dict[str, asyncio.Server] = {}
        """The listening sockets, by the setting with the port."""
        self._tls: ServerContext | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0
        self._flushing = False
        self._http_server: HttpServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._emptied: asyncio.Event | None = None
        self._stopping: asyncio.Task[None] | None = None

    def _new_broker(self) -> Broker:
        """Return a broker with the state in the database, if there is one."""
        try:
            self._storage = None if self._database is None else DurableBrokerStorage(self._database)
            broker = Broker(
                self.settings, instance=self._instance, pool=self._pool, now=self.now(), storage=self._storage
            )
        except Refused as error:
            raise LocalError(f"{error.text}; nothing was changed. pcli broker --check describes the damage") from None
        broker.on_failure = self._on_failure
        broker.topic_registry.on_load_failure = partial(_log.error, "%s cannot be loaded: %s")
        broker.on_shutdown = self._shut_down
        return broker

    def _open_gate(self) -> None:
        if self._storage is not None:
            from pcli.minibroker.server.commit_gate import CommitGate

            self._gate = CommitGate(self._storage, self.flush, self._on_write_failure)

    def _on_write_failure(self, reason: str) -> None:
        """Close all connections, and continue with the state in the database."""
        import sqlite3

        if reason != self._write_failure:
            _log.error("the data directory cannot be written: %s; all clients are disconnected", reason)
        self._write_failure = reason
        for client_socket in list(self.client_sockets):
            client_socket.close()
        if self._http_server is not None:
            self._stopping = asyncio.get_running_loop().create_task(self._http_server.close(_LINGER))
            self._http_server = None
        before = self.broker
        try:
            self.broker = self._new_broker()
        except (Refused, sqlite3.Error) as error:
            _log.error("the data directory cannot be read: %s; the broker stops", error)
            self._shut_down()
            return
        self.broker.service_url, self.broker.http_url = before.service_url, before.http_url
        self.broker.service_url_tls, self.broker.http_url_tls = before.service_url_tls, before.http_url_tls
        self._open_gate()
        self._arm()

    @property
    def service_url(self) -> str:
        """The service URL, ``pulsar://host:port``."""
        return self.broker.service_url

    @property
    def http_url(self) -> str:
        """The URL of the REST API, ``http://host:port``."""
        return self.broker.http_url

    @property
    def service_url_tls(self) -> str:
        """The service URL of the TLS port, ``pulsar+ssl://host:port``, or an empty string."""
        return self.broker.service_url_tls

    @property
    def http_url_tls(self) -> str:
        """The URL of the REST API over TLS, ``https://host:port``, or an empty string."""
        return self.broker.http_url_tls

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen. Raises OSError if an address is in use."""
        loop = self._loop = asyncio.get_running_loop()
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(self._on_loop_failure)
        self._open_gate()
        settings, broker = self.settings, self.broker
        try:
            broker.service_url = await self._listen("pulsar", self.new_client_socket, "brokerServicePort")
            broker.http_url = await self._listen("http", self._http, "webServicePort")
            if settings.brokerServicePortTls >= 0 or settings.webServicePortTls >= 0:
                self._tls = ServerContext(settings)
                broker.service_url_tls = await self._listen(
                    "pulsar+ssl", self.new_client_socket, "brokerServicePortTls"
                )
                broker.http_url_tls = await self._listen("https", self._http, "webServicePortTls")
        except BaseException:
            await self._close_listeners()
            raise
        self._arm()

    def new_client_socket(self) -> ClientSocket:
        """Return the protocol of a new client. Subclasses can override this method."""
        return ClientSocket(self)

    async def _listen(self, scheme: str, factory: Callable[[], asyncio.BaseProtocol], setting: str) -> str:
        """Listen on the port in a setting. Return the URL, or an empty string if the port is -1."""
        port = getattr(self.settings, setting)
        if port < 0:
            return ""
        listener = await self._create_listener(factory, port, tls=scheme in ("pulsar+ssl", "https"))
        self._listeners[setting] = listener
        host = self.settings.advertisedAddress or self.settings.bindAddress
        host = "localhost" if host in _ANY else f"[{host}]" if ":" in host else host
        return f"{scheme}://{host}:{listener.sockets[0].getsockname()[1]}"

    async def _create_listener(
        self, factory: Callable[[], asyncio.BaseProtocol], port: int, *, tls: bool
    ) -> asyncio.Server:
        assert self._loop is not None
        host, context = self.settings.bindAddress or None, self._tls if tls else None
        return await self._loop.create_server(factory, host, port, backlog=_BACKLOG, ssl=context)

    def _shut_down(self) -> None:
        """Stop after the response to the current request."""
        assert self._loop is not None
        self._stopping = self._loop.create_task(self.stop())

    async def stop(self) -> None:
        """Notify the clients, and close all connections and ports. This takes less than a second."""
        await self._close_listeners()
        self.broker.begin_turn(self.now())
        self.broker.close()
        self.flush()
        if self._gate is not None:
            await self._gate.close()
        if self._http_server is not None:
            await self._http_server.close(_LINGER)
        if self.client_sockets:
            self._emptied = asyncio.Event()
            try:
                await asyncio.wait_for(self._emptied.wait(), _LINGER)
            except TimeoutError:
                for client_socket in list(self.client_sockets):
                    client_socket.abort()
                await asyncio.sleep(0)
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None and self._loop.get_exception_handler() == self._on_loop_failure:
            self._loop.set_exception_handler(None)
        self.broker.pool.close()

    async def _close_listeners(self) -> None:
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
        await asyncio.sleep(0)

    # -- turns -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all output of the broker, and close connections that are closing."""
        if self._flushing:
            # A write can call resume_writing; the resulting output waits for the earlier writes.
            return
        self._flushing = True
        try:
            self._write_all()
        finally:
            self._flushing = False
        self._arm()

    def _write_all(self) -> None:
        broker, gate = self.broker, self._gate
        while pieces := broker.drain():
            for connection, data in pieces:
                client_socket: ClientSocket = connection.client_socket
                sends, connection.sends = connection.sends, 0
                if gate is not None and gate.hold(client_socket, data, sends, close=connection.closing):
                    continue
                client_socket.write(data)
                if connection.closing:
                    client_socket.close()
            broker.finish_turn()
        if gate is not None:
            gate.submit()
        for connection in broker.take_reading_changes():
            connection.client_socket.set_reading()

    def run_due(self) -> None:
        """Run the due timers."""
        self._timer = None
        self.broker.advance(self.now())
        self.flush()

    def _arm(self) -> None:
        """Set the loop's timer to the time of the broker's first timer, unless it is set to an earlier time."""
        deadline = self.broker.deadline
        if deadline is None or self._loop is None:
            return
        if self._timer is not None:
            if self._armed <= deadline:
                return
            self._timer.cancel()
        self._armed = deadline
        self._timer = self._loop.call_later(max(0, deadline - self.now()) / 1000, self.run_due)

    def forget(self, client_socket: ClientSocket) -> None:
        """Remove a closed socket."""
        self.client_sockets.discard(client_socket)
        if self._emptied is not None and not self.client_sockets:
            self._emptied.set()

    # -- HTTP ------------------------------------------------------------------------------------------------------

    def _http(self) -> asyncio.BaseProtocol:
        if self._http_server is None:
            from pcli.minibroker.server.http_server import HttpServer

            self._http_server = HttpServer(self.broker, self.now, self.flush, self._written, self.latency)
        return self._http_server.protocol()

    async def _written(self) -> None:
        """Wait until the changes so far are written. Raises Refused (PersistenceError) if they cannot be written."""
        if self._gate is not None:
            await self._gate.written()

    # -- failures --------------------------------------------------------------------------------------------------

    def _on_failure(self, fault: BaseException, connection: Connection | None) -> None:
        where = "" if connection is None else f" (connection of {connection.peer[0]}:{connection.peer[1]})"
        self._report(f"an internal error of the broker{where}: {type(fault).__name__}: {fault}", fault)

    def _on_loop_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        fault = context.get("exception") or RuntimeError(context["message"])
        self._report(f"{context['message']}: {type(fault).__name__}: {fault}", fault)

    def _report(self, text: str, fault: BaseException) -> None:
        self.failures.append(fault)
        del self.failures[:-100]
        _log.error("%s", text)
        _log.debug("%s", text, exc_info=fault)


class ClientSocket(asyncio.Protocol):
    """The socket of one client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._high_water = server.settings.pulsarChannelWriteBufferHighWaterMark
        self._most_pending_sends = server.settings.maxPendingPublishRequestsPerConnection
        self._transport: Any = None
        self._pauses: set[str] = set()
        """The limits for which the client's requests are not read."""
        self._writing_paused = False
        """Whether the client reads too slowly."""
        self._held = self._pending_sends = 0
        """Number of bytes, and of SENDs, that wait for a commit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection."""
        server, settings = self._server, self._server.settings
        self._transport = transport
        self._transport.set_write_buffer_limits(
            high=settings.pulsarChannelWriteBufferHighWaterMark, low=settings.pulsarChannelWriteBufferLowWaterMark
        )
        server.client_sockets.add(self)
        self._broker = server.broker
        self.connection = self._broker.connect(socket_addresses(transport)[0], server.now())
        self.connection.client_socket = self
        self.connection.certificate_role = certificate_role(transport)
        server.flush()

    def data_received(self, data: bytes) -> None:
        """Process bytes from the client."""
        server = self._server
        self._broker.receive(self.connection, data, server.now())
        server.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self._transport = None
        server, connection = self._server, self.connection
        if connection.session.state is State.FAILED:
            _log.warning("%s:%d: %s; the connection is closed", *connection.peer, connection.reason)
        self._broker.disconnected(self.connection, server.now())
        server.flush()
        server.forget(self)

    def pause_writing(self) -> None:
        """Record that the client reads too slowly."""
        self._writing_paused = True
        self._apply_limits()

    def resume_writing(self) -> None:
        """Record that the client has caught up."""
        self._writing_paused = False
        self._apply_limits()
        self._server.flush()

    def _apply_limits(self) -> None:
        """Set whether entries may be sent to the client, and whether its requests are read.

        They are not read while too much output or too many SENDs wait. The first pause ends when entries may be sent
        again, the second one when half of the limit waits (ServerCnx.completedSendOperation).
        """
        writable = not self._writing_paused and self._held <= self._high_water
        if writable == self.connection.congested:
            self._broker.set_writable(self.connection, self._server.now(), yes=writable)
        unwritten = self._held + (0 if self._transport is None else self._transport.get_write_buffer_size())
        self._pause("output", begins=not writable and unwritten > _FULL, ends=writable)
        sends, most = self._pending_sends, self._most_pending_sends
        self._pause("sends", begins=0 < most <= sends, ends=sends <= most // 2)

    def _pause(self, limit: str, *, begins: bool, ends: bool) -> None:
        """Begin or end a pause of reading. The connection is read if there is no pause."""
        if begins and limit not in self._pauses:
            self._pauses.add(limit)
            self.connection.pause_reading()
        elif ends and limit in self._pauses:
            self._pauses.remove(limit)
            self.connection.resume_reading()

    # -- called by the server ------------------------------------------------------------------------------------------

    def hold(self, size: int, sends: int) -> None:
        """Count output, and the SENDs that it answers, which wait for a commit."""
        self._held += size
        self._pending_sends += sends
        self._apply_limits()

    def release(self, size: int, sends: int) -> None:
        """Undo `hold`."""
        self._held -= size
        self._pending_sends -= sends
        self._apply_limits()

    def write(self, data: bytes) -> None:
        """Write bytes to the client."""
        if data and self._transport is not None:
            self._transport.write(data)
            if self._writing_paused:
                self._apply_limits()

    def close(self) -> None:
        """Close after the pending output. If the client does not read, abort the connection after a time limit."""
        transport = self._transport
        if transport is not None:
            transport.close()
            if transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(_LINGER, transport.abort)

    def abort(self) -> None:
        """Close the socket at once."""
        if self._transport is not None:
            self._transport.abort()

    def set_reading(self) -> None:
        """Pause or resume reading, as the connection requires."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.connection.reading:
            transport.resume_reading()
        else:
            transport.pause_reading()
