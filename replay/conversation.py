"""A test client that sends single commands and checks the responses.

::

    with MiniBroker() as broker, Conversation(broker.service_url) as conversation:
        client = conversation.connect()
        client.send("CONNECT", client_version="test", protocol_version=21)
        client.expect("CONNECTED", server_version=ANY, protocol_version=21, max_message_size=ANY, feature_flags=ANY)

Rules of this file
1. Commands, fields and enum values have their names in the proto file. expectations.py defines how values are written
   and when a response matches.
2. ``send`` returns when the broker has processed the command. To detect this, it sends a PING and waits for the PONG.
   The broker therefore processes the commands of all clients in the order of the test. Login commands need no PING.
3. ``expect`` returns the first response with this name and the same producer, consumer or request. Other responses
   remain queued. A response that is still queued at the end fails the test. This check detects extra messages.
4. A failed check raises an AssertionError.
"""

from __future__ import annotations

import select
import socket
import time
from types import TracebackType
from typing import Any, Final, Self
from unittest.mock import ANY

from pcli.codec.errors import RemoteError
from pcli.codec.proto import pb
from pcli.codec.session.client import ClientSession, Event
from pcli.codec.session.states import State
from pcli.codec.wire.commands import BY_NAME
from pcli.replay.expectations import check_entry, entry, ids, place, plain, same, to_protobuf
from pcli.replay.service_url import ServiceUrl

__all__ = ["ANY", "Conversation", "ConversationClient", "entry", "ids", "place"]

_KEEP_ALIVE: Final = ("PING", "PONG")
_LOGIN: Final = ("CONNECT", "AUTH_RESPONSE")
_ID_FIELDS: Final = (
    *("request_id", "producer_id", "consumer_id", "sequence_id", "watcher_id"),
    *("session_id", "watch_id"),
)
_READ: Final = 1 << 16


class Conversation:
    """The clients that a test connects to a broker. They are closed at the end of the ``with`` block."""

    def __init__(self, service_url: str, http_url: str = "", *, timeout: float = 5) -> None:
        """``http_url`` is the URL of the REST interface for `admin`. ``timeout`` limits each wait, in seconds."""
        self._address = ServiceUrl.parse(service_url).hosts[0]
        self._http_url, self._timeout = http_url, timeout
        self._clients: list[ConversationClient] = []

    def connect(self) -> ConversationClient:
        """Open a connection without sending anything."""
        client = ConversationClient(self._address, self._timeout, self._clients)
        self._clients.append(client)
        return client

    def admin(self, method: str, path: str, body: object = None) -> int:
        """Make a REST call with a path after ``/admin/v2/``, and return its status."""
        from pcli.replay.player.asyncio_player import call_rest
        from pcli.replay.player.script.script import RestCall

        return call_rest(self._http_url, RestCall(method, path, to_protobuf(body)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        try:
            for client in self._clients if kind is None else ():
                client.check()
        finally:
            for client in self._clients:
                client.drop()


class ConversationClient:
    """One connection."""

    def __init__(self, address: tuple[str, int], timeout: float, others: list[ConversationClient]) -> None:
        """Connect.

        ``others`` are clients that also read while this client waits. Raises OSError if the connection fails.
        """
        self._socket = socket.create_connection(address, timeout)
        self._timeout, self._others = timeout, others
        self._session = ClientSession()
        self._received: list[Event] = []
        self._pongs = 0
        self._over = self._closed = False

    # -- sending ---------------------------------------------------------------------------------------------------

    def send(self, name: str, /, *, entry: bytes = b"", **fields: Any) -> None:
        """Send a command. Return when the broker has processed it or closed the connection."""
        session = self._session
        values = {key: to_protobuf(value) for key, value in fields.items()}
        if name == "CONNECT" and session.state is State.START:
            session.connect(**values)
        else:
            session.post(_body(name)(**values), entry)
        if name in _LOGIN:
            self._write()
        else:
            self._settle()

    def _settle(self) -> None:
        """Wait until the broker has processed all commands."""
        wanted = self._pongs + 1
        self._session.post(pb.CommandPing())
        self._write()
        until = time.monotonic() + self._timeout
        while self._pongs < wanted and not self._over:
            assert self._read(until), "the broker sent no PONG in time"

    def _write(self) -> None:
        try:
            self._socket.sendall(self._session.output())
        except OSError:
            self._over = True

    # -- receiving -------------------------------------------------------------------------------------------------

    def expect(self, name: str, /, *, entry: bytes | None = None, broker_entry: Any = None, **fields: Any) -> Any:
        """Wait for a response with these fields and return its body.

        ``entry`` is the metadata and payload of a MESSAGE; ``broker_entry`` contains the fields of its
        BrokerEntryMetadata.
        """
        until = time.monotonic() + self._timeout
        while (event := self._find(name, fields)) is None:
            assert not self._over, (
                f"expected << {name} {fields}, but the broker has closed the connection{self._rest()}"
            )
            assert self._read(until), f"expected << {name} {fields}, but it did not arrive in time{self._rest()}"
        self._received.remove(event)
        found = plain(event.body)
        assert same(fields, found), f"expected << {name} {fields}\n   received << {name} {found}"
        if entry is not None:
            check_entry(event.frame, entry)
            mine = event.frame.broker_entry
            assert same(broker_entry, None if mine is None else plain(mine)), (
                f"expected {broker_entry}, received {mine}"
            )
        return event.body

    def expect_close(self) -> None:
        """Wait until the broker closes the connection."""
        until = time.monotonic() + self._timeout
        while not self._over:
            assert self._read(until), "the broker did not close the connection in time"

    def _find(self, name: str, fields: dict[str, Any]) -> Event | None:
        """Return the first response with this name and ids. Raises AssertionError if the request's response differs."""
        wanted = {key: fields[key] for key in _ID_FIELDS if key in fields}
        for event in self._received:
            ours = plain(event.body)
            if any(ours.get(key) != value for key, value in wanted.items()):
                continue
            if event.name == name:
                return event
            assert "request_id" not in wanted, f"expected << {name} {fields}\n   received << {event.name} {ours}"
        return None

    def _read(self, until: float) -> bool:
        """Wait until any client receives bytes. Return False after the timeout.

        All clients read, because a broker may send a PING to one client before it responds to a different client.
        """
        listening = {client._socket: client for client in self._others if not client._over}
        ready, _, _ = select.select(list(listening), [], [], max(0.0, until - time.monotonic()))
        for one in ready:
            listening[one]._take()
        return bool(ready)

    def _take(self) -> None:
        try:
            data = self._socket.recv(_READ)
        except OSError:
            data = b""
        self._over = not data
        for event in self._session.receive(data):
            self._pongs += event.name == "PONG"
            if event.name not in _KEEP_ALIVE:
                self._received.append(event)
        error = self._session.error
        assert error is None or _refused(error, self._received), f"the broker violates the protocol: {error}"
        self._write()

    # -- closing ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection and wait until the broker has closed it. Raises the AssertionErrors of `check`."""
        self.check()
        self.drop()

    def check(self) -> None:
        """Raise AssertionError if the broker sent a response that the test did not expect."""
        if not self._over and self._session.state is State.CONNECTED:
            self._settle()
        rest = self._rest()
        assert not rest, f"the broker sent unexpected responses:{rest}"

    def drop(self) -> None:
        """Close the connection without checks."""
        if self._closed:
            return
        self._closed = self._over = True
        with self._socket:
            try:
                self._socket.shutdown(socket.SHUT_WR)
                self._socket.settimeout(self._timeout)
                while self._socket.recv(_READ):
                    pass
            except OSError:
                return

    def _rest(self) -> str:
        """Return the queued responses, one on each line."""
        return "".join(f"\n   received << {event.name} {plain(event.body)}" for event in self._received)


def _refused(error: RemoteError, received: list[Event]) -> bool:
    """Return whether a session ended because the login was refused, which a test may expect."""
    return any(event.name == "ERROR" and event.body.message in str(error) for event in received)


def _body(name: str) -> Any:
    return type(getattr(pb.BaseCommand(), BY_NAME[name].field))
