"""The proxy's listening ports: one for the broker of ``--to``, and one for each further broker in a response.

Rules of this file
1. All objects belong to the event loop that calls `start`.
2. The hosts of a broker are tried in the order of its URL.
3. A problem that no connection can report to the client is reported as a one-line note. The same note is repeated only
   after a success.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.replay.proxy.broker_addresses import BrokerAddresses
from pcli.replay.proxy.byte_faults import ByteFault
from pcli.replay.proxy.relay import Relay

if TYPE_CHECKING:
    import ssl
    from random import Random

    from pcli.codec.capture.tap import Address, Tap
    from pcli.codec.faults import Injector
    from pcli.replay.service_url import ServiceUrl

_ClientHandler = Callable[[socket.socket, "Address"], Coroutine[None, None, None]]
"""A function that handles an accepted client."""

_ANY: Final = ("0.0.0.0", "::", "")  # noqa: S104  (compared with, not bound to)
_BACKLOG: Final = 1024
"""Maximum number of connections that wait to be accepted. Brokers have the same maximum."""
_PAUSE: Final = 1.0
"""Seconds before the next attempt to accept."""
_CONNECT: Final = 10.0
"""Maximum number of seconds to connect to one host of a broker, including TLS (clients' connectionTimeoutMs)."""
_TEXTS: Final = {True: "it took too long", False: "no TLS: it closed the connection"}
"""Messages for errors without text. The key is True for a timeout of asyncio and False for the end of a handshake."""
_MAX_LISTENERS: Final = 1000
"""Maximum number of brokers besides ``--to``. Each broker uses a port, and no real cluster has so many brokers."""


class Listener:
    """All connections of a proxy."""

    def __init__(
        self,
        to: ServiceUrl,
        *,
        client_tls: ssl.SSLContext | None,
        broker_tls: ssl.SSLContext | None,
        taps: list[Tap],
        injector: Injector | None,
        byte_faults: list[ByteFault],
        random: Random,
        note: Callable[[str], None],
    ) -> None:
        """Configure TLS with clients and with brokers. If ``client_tls`` is None, clients use no TLS."""
        self._to = to
        self._client_tls = client_tls
        self._broker_tls = broker_tls
        self.taps = taps
        self.injector = injector
        self.byte_faults = byte_faults
        self.random = random
        self._note = note
        self._noted = ""
        self._opened = 0
        """Number of ports for brokers besides ``--to``."""
        self.relays: set[Relay] = set()
        """Open connections."""
        self._numbers = itertools.count()
        self.enabled = True
        """Whether the ports are open."""
        self._ports: dict[int, _ClientHandler] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        """Tasks that accept clients or set up a connection."""

    def start(self, bind: str, port: int, advertised: str) -> None:
        """Listen. Raises LocalError if the address is in use or not local."""
        self._bind = bind
        sock = self.bound_socket(port)
        host = advertised or bind
        self.host = "localhost" if host in _ANY else f"[{host}]" if ":" in host else host
        own = f"{self.host}:{sock.getsockname()[1]}"
        self.addresses = BrokerAddresses(
            self._to, own, tls=self._client_tls is not None, open_listener=self._open_listener
        )
        self._serve(sock, self._to)

    @property
    def service_url(self) -> str:
        """The URL for clients."""
        return self.addresses.url(self._to)

    async def stop(self) -> None:
        """Reset the open connections and stop listening."""
        for task in self.tasks:
            task.cancel()
        for relay in list(self.relays):
            relay.cut("the proxy stops")
        for _ in range(3):  # the event loop reports a closed socket only in a later iteration
            await asyncio.sleep(0)

    def number(self) -> int:
        """Return the number of a new connection."""
        return next(self._numbers)

    def set_byte_faults(self, faults: list[ByteFault]) -> None:
        """Replace the byte faults, also those of open connections."""
        self.byte_faults = faults
        for relay in self.relays:
            relay.apply_byte_faults()

    async def set_enabled(self, *, enabled: bool) -> None:
        """Open all ports, or close them and reset all connections.

        Raises LocalError if a port is in use. Then no port is open.
        """
        if enabled == self.enabled:
            return
        if enabled:
            self._open_ports()
            self.enabled = True
            return
        self.enabled = False
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for relay in list(self.relays):
            relay.cut("the proxy is down")
        await asyncio.sleep(0)  # the sockets are closed in the next iteration

    def _open_ports(self) -> None:
        with ExitStack() as opened:
            sockets = {port: opened.enter_context(self.bound_socket(port)) for port in self._ports}
            opened.pop_all()
        for port, sock in sockets.items():
            self.serve(sock, self._ports[port])

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], broker: ServiceUrl) -> str:
        """Connect to a broker. Return the reason for a failure, or an empty string."""
        loop, reason = asyncio.get_running_loop(), ""
        for host, port in broker.hosts:
            context = self._broker_tls if broker.tls else None
            try:
                async with asyncio.timeout(_CONNECT):
                    await loop.create_connection(factory, host, port, ssl=context)
            except (OSError, UnicodeError) as fault:  # the idna codec raises UnicodeError for an invalid host name
                reason = reason_of(fault)
            else:
                return ""
        return reason

    def note(self, text: str) -> None:
        """Report a problem to the user unless it is the same as the previous problem."""
        if text != self._noted:
            self._noted = text
            self._note(text)

    def allow_repeated_note(self) -> None:
        """Report the next problem even if it equals the last problem. This is called when a broker has responded."""
        self._noted = ""

    def _open_listener(self, broker: ServiceUrl) -> str:
        if not self.enabled:
            return ""
        try:
            if self._opened >= _MAX_LISTENERS:
                raise LocalError(f"the limit is {_MAX_LISTENERS}")
            sock = self.bound_socket(0)
        except LocalError as fault:
            self.note(f"no port for {broker}, so clients connect to it directly: {fault.text}")
            return ""
        self._opened += 1
        self._serve(sock, broker)
        return f"{self.host}:{sock.getsockname()[1]}"

    def bound_socket(self, port: int) -> socket.socket:
        """Return a socket that listens on this port.

        Raises LocalError if the port is in use or the address is not local.
        """
        family = socket.AF_INET6 if ":" in self._bind else socket.AF_INET
        try:
            return socket.create_server((self._bind, port), family=family, backlog=_BACKLOG)
        except (OSError, UnicodeError) as fault:
            raise LocalError(f"port {port} of {self._bind}: {reason_of(fault)}") from None

    def serve(self, sock: socket.socket, handle: _ClientHandler) -> None:
        """Accept clients without asyncio's server, which would not report why a handshake failed."""
        sock.settimeout(0)
        self._start_task(self._accept(sock, handle)).add_done_callback(lambda _: sock.close())
        self._ports[sock.getsockname()[1]] = handle

    async def _accept(self, sock: socket.socket, handle: _ClientHandler) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(sock)
            except OSError as fault:  # for example, no file descriptor is left
                self.note(f"a client could not be accepted: {reason_of(fault)}")
                await asyncio.sleep(_PAUSE)
            else:
                self._start_task(handle(client, address[:2])).add_done_callback(partial(_close_if_cancelled, client))

    def _serve(self, sock: socket.socket, broker: ServiceUrl) -> None:
        self.serve(sock, lambda client, address: self._relay_client(client, address, broker))

    async def _relay_client(self, client: socket.socket, address: Address, broker: ServiceUrl) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Relay(self, self.number(), address, broker).client, client, ssl=self._client_tls
            )
        except OSError as fault:
            self.note(f"a client at {address[0]}: {reason_of(fault)}")

    def _start_task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


def _close_if_cancelled(client: socket.socket, task: asyncio.Task[None]) -> None:
    """Close the socket of a client whose task was cancelled, possibly before its first step."""
    if task.cancelled():
        client.close()


def reason_of(fault: OSError | UnicodeError) -> str:
    """Return the reason why there is no connection, as the end of a sentence.

    Text that asyncio adds to errors is removed.
    """
    if isinstance(fault, UnicodeError):
        return "invalid host name"
    reason = getattr(fault, "verify_message", None) or getattr(fault, "reason", None)
    if isinstance(reason, str):
        return f"no TLS: {reason.lower().replace('_', ' ')}"
    # Errors of name resolution have negative numbers.
    text = os.strerror(fault.errno) if fault.errno is not None and fault.errno > 0 else fault.strerror or str(fault)
    return text.lower().partition(" (while ")[0] or _TEXTS[isinstance(fault, TimeoutError)]
