"""Where clients come: the listener for the broker of ``--to``, and a door for every other broker that is named.

Rules of this file
1. Everything here belongs to the loop that calls `start`.
2. A broker is tried host by host, as its URL lists them.
3. What a user should know and no connection can carry is a note: one line, not said twice before all is well again.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Final

from pcli.codec.errors import LocalError
from pcli.replay.proxy.broker_addresses import Doors
from pcli.replay.proxy.byte_faults import ByteFault, Shaper
from pcli.replay.proxy.relay import Relay

if TYPE_CHECKING:
    import ssl
    from random import Random

    from pcli.codec.capture.tap import Address, Tap
    from pcli.codec.faults import Injector
    from pcli.replay.service_url import ServiceUrl

__all__ = ["Listener", "reason_of"]

_Welcome = Callable[[socket.socket, "Address"], Coroutine[None, None, None]]
"""What is done with a client that was accepted."""

_ANY: Final = ("0.0.0.0", "::", "")  # noqa: S104  (compared with, not bound to)
_BACKLOG: Final = 1024
"""Connections that may wait to be accepted, as at a broker."""
_PAUSE: Final = 1.0
"""Seconds before accepting is tried again."""
_CONNECT: Final = 10.0
"""Seconds for a connection to one host of a broker, TLS and all, as the clients' connectionTimeoutMs."""
_WORDLESS: Final = {True: "it took too long", False: "no TLS: it ended the connection"}
"""Of errors without words: a time-out of asyncio, or else the end of a handshake."""
_DOORS: Final = 1000
"""Brokers beside that of ``--to``. A cluster has fewer; what names more is mad, and each takes a port."""


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
        """``client_tls``, ``broker_tls``: how TLS is spoken to either side; None for clients: not at all."""
        self._to = to
        self._client_tls = client_tls
        self._broker_tls = broker_tls
        self.taps = taps
        self.injector = injector
        self._byte_faults = byte_faults
        self._random = random
        self._note = note
        self._noted = ""
        self._opened = 0
        """Doors beside the listener."""
        self.relays: set[Relay] = set()
        """Connections that are open."""
        self._numbers = itertools.count()
        self.tasks: set[asyncio.Task[None]] = set()
        """What listens, and what begins."""

    def start(self, bind: str, port: int, advertised: str) -> None:
        """Listen. LocalError when the address is taken, or not ours."""
        self._bind = bind
        sock = self.bound(port)
        host = advertised or bind
        self.host = "localhost" if host in _ANY else f"[{host}]" if ":" in host else host
        own = f"{self.host}:{sock.getsockname()[1]}"
        self.doors = Doors(self._to, own, tls=self._client_tls is not None, open_door=self._open_door)
        self._serve(sock, self._to)

    @property
    def service_url(self) -> str:
        """The URL that clients are given."""
        return self.doors.url(self._to)

    async def stop(self) -> None:
        """Reset what is still open, and listen no more."""
        for task in self.tasks:
            task.cancel()
        for relay in list(self.relays):
            relay.cut("the proxy stops")
        for _ in range(3):  # a closed socket says so in the loop's next round
            await asyncio.sleep(0)

    def number(self) -> int:
        """The number of a new connection."""
        return next(self._numbers)

    def shapers(self) -> tuple[Shaper | None, Shaper | None]:
        """What befalls the bytes of a new connection: on their way to the broker, and to the client."""
        befalling = [fault for fault in self._byte_faults if fault.befalls(self._random)]
        ways = ([fault for fault in befalling if fault.side in ("", side)] for side in ("client", "broker"))
        to_broker, to_client = (Shaper(faults, self._random) if faults else None for faults in ways)
        return to_broker, to_client

    async def connect(self, factory: Callable[[], asyncio.BaseProtocol], broker: ServiceUrl) -> str:
        """Connect to a broker; why not, empty when it is done."""
        loop, reason = asyncio.get_running_loop(), ""
        for host, port in broker.hosts:
            context = self._broker_tls if broker.tls else None
            try:
                async with asyncio.timeout(_CONNECT):
                    await loop.create_connection(factory, host, port, ssl=context)
            except (OSError, UnicodeError) as fault:  # a name that is none breaks the codec of names (idna)
                reason = reason_of(fault)
            else:
                return ""
        return reason

    def note(self, text: str) -> None:
        """Tell the user."""
        if text != self._noted:
            self._noted = text
            self._note(text)

    def all_is_well(self) -> None:
        """A broker has answered: what goes wrong from now on is news."""
        self._noted = ""

    def _open_door(self, broker: ServiceUrl) -> str:
        try:
            if self._opened >= _DOORS:
                raise LocalError(f"{_DOORS} have one already")
            sock = self.bound(0)
        except LocalError as fault:
            self.note(f"no door for {broker}, clients go there directly: {fault.text}")
            return ""
        self._opened += 1
        self._serve(sock, broker)
        return f"{self.host}:{sock.getsockname()[1]}"

    def bound(self, port: int) -> socket.socket:
        """A socket that listens at this port. LocalError when it is taken, or the address is not ours."""
        family = socket.AF_INET6 if ":" in self._bind else socket.AF_INET
        try:
            return socket.create_server((self._bind, port), family=family, backlog=_BACKLOG)
        except (OSError, UnicodeError) as fault:
            raise LocalError(f"port {port} of {self._bind}: {reason_of(fault)}") from None

    def serve(self, sock: socket.socket, welcome: _Welcome) -> None:
        """Accept clients, by ourselves: a server of the loop would not say why a handshake failed."""
        sock.settimeout(0)
        self._begin(self._accept(sock, welcome)).add_done_callback(lambda _: sock.close())

    async def _accept(self, sock: socket.socket, welcome: _Welcome) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, address = await loop.sock_accept(sock)
            except OSError as fault:  # no file descriptor is left, say
                self.note(f"a client can't come in: {reason_of(fault)}")
                await asyncio.sleep(_PAUSE)
            else:
                self._begin(welcome(client, address[:2])).add_done_callback(partial(_left, client))

    def _serve(self, sock: socket.socket, broker: ServiceUrl) -> None:
        self.serve(sock, lambda client, address: self._welcome(client, address, broker))

    async def _welcome(self, client: socket.socket, address: Address, broker: ServiceUrl) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Relay(self, self.number(), address, broker).client, client, ssl=self._client_tls
            )
        except OSError as fault:
            self.note(f"a client at {address[0]}: {reason_of(fault)}")

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


def _left(client: socket.socket, task: asyncio.Task[None]) -> None:
    """Close the socket of a client whose task was cancelled, perhaps before its first step."""
    if task.cancelled():
        client.close()


def reason_of(fault: OSError | UnicodeError) -> str:
    """Why there is no connection, as the end of a sentence. A loop wraps the system's words in words of its own."""
    if isinstance(fault, UnicodeError):
        return "no host's name"
    told = getattr(fault, "verify_message", None) or getattr(fault, "reason", None)
    if isinstance(told, str):
        return f"no TLS: {told.lower().replace('_', ' ')}"
    # Errors of name look-ups have negative numbers.
    text = os.strerror(fault.errno) if fault.errno is not None and fault.errno > 0 else fault.strerror or str(fault)
    return text.lower().partition(" (while ")[0] or _WORDLESS[isinstance(fault, TimeoutError)]
