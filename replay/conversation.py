"""Clients of single commands, for tests that read like the conversation on the wire.

::

    with MiniBroker() as broker, Conversation(broker.service_url) as talk:
        client = talk.connect()
        client.say("CONNECT", client_version="test", protocol_version=21)
        client.hear("CONNECTED", server_version=ANY, protocol_version=21, max_message_size=ANY, feature_flags=ANY)

Rules of this file
1. Commands, their fields and the values of enumerations have the names of the proto file (expectations.py: how values
   are written, and when an answer is the expected one).
2. ``say`` returns when the broker has taken the command: a PING goes behind it, and its PONG is waited for. So the
   broker hears all clients in the order of the test. The handshake has its own answers.
3. ``hear`` takes the first answer of that name that speaks to the same producer, consumer or request; others wait for
   their own line. What nobody asked for at the end is an error, so a message too many is seen.
4. What is wrong is an AssertionError: the broker is what is tested.
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
from pcli.replay.expectations import check_entry, entry, ids, place, plain, said, same
from pcli.replay.service_url import ServiceUrl

__all__ = ["ANY", "Client", "Conversation", "entry", "ids", "place"]

_KEEP_ALIVE: Final = ("PING", "PONG")
_LOGIN: Final = ("CONNECT", "AUTH_RESPONSE")
_TO_WHOM: Final = ("request_id", "producer_id", "consumer_id", "sequence_id", "watcher_id")
_READ: Final = 1 << 16


class Conversation:
    """A broker, and the clients that a test opens to it. Leaving it closes them."""

    def __init__(self, service_url: str, http_url: str = "", *, timeout: float = 5) -> None:
        """``http_url``: its REST interface, for `admin`; ``timeout``: how long an answer may take, seconds."""
        self._address = ServiceUrl.parse(service_url).hosts[0]
        self._http_url, self._timeout = http_url, timeout
        self._clients: list[Client] = []

    def connect(self) -> Client:
        """Open a connection; nothing is said yet."""
        client = Client(self._address, self._timeout, self._clients)
        self._clients.append(client)
        return client

    def admin(self, method: str, path: str, body: object = None) -> int:
        """A call of the REST interface, behind ``/admin/v2/``; its status."""
        from pcli.replay.player.asyncio_player import call_rest
        from pcli.replay.player.script.rest_calls import Call

        return call_rest(self._http_url, Call(method, path, said(body)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        try:
            for client in self._clients if kind is None else ():
                client.check()
        finally:
            for client in self._clients:
                client.drop()


class Client:
    """One connection."""

    def __init__(self, address: tuple[str, int], timeout: float, others: list[Client]) -> None:
        """Connect. ``others``: who listens too while this one waits. OSError: nobody is there."""
        self._socket = socket.create_connection(address, timeout)
        self._timeout, self._others = timeout, others
        self._session = ClientSession()
        self._heard: list[Event] = []
        self._pongs = 0
        self._over = self._closed = False

    # -- out -------------------------------------------------------------------------------------------------------

    def say(self, name: str, /, *, entry: bytes = b"", **fields: Any) -> None:
        """Say a command; returns when the broker has taken it, or has closed the connection."""
        session = self._session
        values = {key: said(value) for key, value in fields.items()}
        if name == "CONNECT" and session.state is State.START:
            session.connect(**values)
        else:
            session.post(_body(name)(**values), entry)
        if name in _LOGIN:
            self._write()
        else:
            self._settle()

    def _settle(self) -> None:
        """Wait until the broker has taken everything."""
        wanted = self._pongs + 1
        self._session.post(pb.CommandPing())
        self._write()
        until = time.monotonic() + self._timeout
        while self._pongs < wanted and not self._over:
            assert self._read(until), "no PONG: the broker does not answer"

    def _write(self) -> None:
        try:
            self._socket.sendall(self._session.output())
        except OSError:
            self._over = True

    # -- in --------------------------------------------------------------------------------------------------------

    def hear(self, name: str, /, *, entry: bytes | None = None, broker_entry: Any = None, **fields: Any) -> Any:
        """Wait for an answer, which must be this; gives the command's own message.

        ``entry``: metadata and payload of a MESSAGE; ``broker_entry``: the fields of BrokerEntryMetadata before it.
        """
        until = time.monotonic() + self._timeout
        while (event := self._find(name, fields)) is None:
            assert not self._over, (
                f"expected << {name} {fields}, but the broker has closed the connection{self._rest()}"
            )
            assert self._read(until), f"expected << {name} {fields}, but it did not come{self._rest()}"
        self._heard.remove(event)
        found = plain(event.body)
        assert same(fields, found), f"expected << {name} {fields}\n   heard << {name} {found}"
        if entry is not None:
            check_entry(event.frame, entry)
            mine = event.frame.broker_entry
            assert same(broker_entry, None if mine is None else plain(mine)), f"expected {broker_entry}, heard {mine}"
        return event.body

    def hear_end(self) -> None:
        """Wait until the broker closes the connection."""
        until = time.monotonic() + self._timeout
        while not self._over:
            assert self._read(until), "the broker does not close the connection"

    def _find(self, name: str, fields: dict[str, Any]) -> Event | None:
        """The first answer of that name to the same; AssertionError when the request was answered otherwise."""
        wanted = {key: fields[key] for key in _TO_WHOM if key in fields}
        for event in self._heard:
            ours = plain(event.body)
            if any(ours.get(key) != value for key, value in wanted.items()):
                continue
            if event.name == name:
                return event
            assert "request_id" not in wanted, f"expected << {name} {fields}\n   heard << {event.name} {ours}"
        return None

    def _read(self, until: float) -> bool:
        """Wait until anybody hears something; False: nobody did in time.

        All listen, since a broker may ask one client whether it is still there before it answers another.
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
                self._heard.append(event)
        error = self._session.error
        assert error is None or _refused(error, self._heard), f"the broker breaks the protocol: {error}"
        self._write()

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection, and wait until the broker has seen it. AssertionError as `check`."""
        self.check()
        self.drop()

    def check(self) -> None:
        """AssertionError: the broker said something that the test did not ask for."""
        if not self._over and self._session.state is State.CONNECTED:
            self._settle()
        rest = self._rest()
        assert not rest, f"the test did not expect this{rest}"

    def drop(self) -> None:
        """Close the connection, whatever was said."""
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
        """What was heard and nobody asked for yet, a line each."""
        return "".join(f"\n   heard << {event.name} {plain(event.body)}" for event in self._heard)


def _refused(error: RemoteError, heard: list[Event]) -> bool:
    """Whether a session ended because its login was refused, which a test may expect."""
    return any(event.name == "ERROR" and event.body.message in str(error) for event in heard)


def _body(name: str) -> Any:
    return type(getattr(pb.BaseCommand(), BY_NAME[name].field))
