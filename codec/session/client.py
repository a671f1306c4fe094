"""The client's side of a connection: the handshake, requests with their ids, and which answer belongs to which.

Rules of this file
1. Who answers whom, and by which key, is read from the table of commands. An answer gives its request along; what
   answers nothing is an event of its own (MESSAGE, CLOSE_CONSUMER, an answer to a request that was never sent).
2. An answer closes its request, but for PRODUCER_SUCCESS with producer_ready = false: the same request is answered once
   more, when the producer is ready.
3. An ERROR without a known request id answers the handshake while that is open (a broker that refuses a CONNECT has no
   id to name), and ends the connection.
4. PING is answered here. Nothing else is sent without being asked for.
5. Bytes that no client can go on with set ``error`` and end the session; nothing is raised.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.errors import LocalError, RemoteError
from pcli.codec.proto import pb
from pcli.codec.session.keepalive import Beat, KeepAlive
from pcli.codec.session.states import State
from pcli.codec.session.strict import read_command
from pcli.codec.session.versions import NEWEST, PINGS
from pcli.codec.wire.build import command_of, push_frame
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.constants import FRAME_OVERHEAD
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader

__all__ = ["ClientSession", "Event"]

_CONNECT: Final = BY_NAME["CONNECT"].number
_CONNECTED: Final = BY_NAME["CONNECTED"].number
_ERROR: Final = BY_NAME["ERROR"].number
_PING: Final = BY_NAME["PING"].number
_IDS: Final = ("request_id", "session_id", "watch_id")
"""The words of ``paired_by`` that name a field."""

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """A command that came."""

    name: str
    """Of its type: ``MESSAGE``, ``SUCCESS``."""
    body: Any
    """The command's own message, of the class that ``pb`` has for it."""
    frame: Frame
    request: Message | None = None
    """What it answers; None: nothing that was asked here."""


class ClientSession:
    """One connection, seen from the client. ``output`` is what is to be written."""

    def __init__(
        self,
        *,
        client_version: str = "pcli",
        version: int = NEWEST,
        features: tuple[str, ...] = (),
        keep_alive: KeepAlive | None = None,
    ) -> None:
        self.client_version = client_version
        self.offered = version
        """The version that CONNECT names."""
        self.features = features
        """The feature flags that CONNECT sets."""
        self.keep_alive = keep_alive or KeepAlive(0, 0)
        self.state = State.START
        self.version = 0
        """Of both sides together; 0 before the handshake."""
        self.connected: pb.CommandConnected | None = None
        """What the broker says of itself."""
        self.error: RemoteError | None = None
        """Why the session ended; None while it goes on."""
        self._reader = FrameReader()
        self._output: list[bytes] = []
        self._next_request = 1
        self._open: dict[_Key, tuple[int, Message]] = {}
        self._ordered: dict[int, deque[Message]] = {}

    # -- out -------------------------------------------------------------------------------------------------------

    def connect(self, **fields: Any) -> None:
        """Begin the handshake; ``fields`` of CommandConnect replace what the session would say."""
        if self.state is not State.START:
            raise LocalError("the handshake has already begun")
        flags = pb.FeatureFlags(**dict.fromkeys(self.features, True))
        body = pb.CommandConnect(client_version=self.client_version, protocol_version=self.offered, feature_flags=flags)
        body.MergeFrom(pb.CommandConnect(**fields))
        self.state = State.CONNECTING
        self.send(body)

    def send(self, body: Any, entry: bytes = b"") -> Message:
        """Send a command, behind SEND its entry; gives the body as it was sent, with its request id.

        A request id that is missing is given. LocalError: the body is no command, or lacks a required field.
        """
        number = command_of(body).type
        row = COMMANDS[number]
        if "request_id" in row.ids and row.answers and not body.HasField("request_id") and row.name != "ACK":
            body.request_id = self.next_request_id()
        frame = push_frame(body, entry)
        if row.paired_by == "order":
            self._ordered.setdefault(number, deque()).append(body)
        elif row.answers and (key := _key(number, body)) is not None:
            self._open[key] = (number, body)
        self._output.append(frame)
        return body  # type: ignore[no-any-return]

    def post(self, body: Any, entry: bytes = b"") -> None:
        """Send a command without waiting for an answer: whatever comes of it is an event of its own."""
        self._output.append(push_frame(body, entry))

    def post_frame(self, frame: bytes) -> None:
        """The same with a whole frame, made by the fast writers of ``codec.wire.hot``."""
        self._output.append(frame)

    def next_request_id(self) -> int:
        """An id that no other request of this session has."""
        number = self._next_request
        self._next_request += 1
        return number

    def output(self) -> bytes:
        """What is to be written now."""
        data = b"".join(self._output)
        self._output.clear()
        return data

    @property
    def open_requests(self) -> list[Message]:
        """What has not been answered yet; those without ids last."""
        return [
            *(body for _, body in self._open.values()),
            *(body for queue in self._ordered.values() for body in queue),
        ]

    def tick(self, now: int) -> Beat:
        """The keep-alive tick that is due; a PING is in the output then."""
        beat = self.keep_alive.tick(now, connected=self.state is State.CONNECTED, pings=self.version >= PINGS)
        if beat is Beat.PING:
            self.send(pb.CommandPing())
        elif beat is Beat.CLOSE:
            self._fail(RemoteError("the broker sent nothing"))
        return beat

    # -- in --------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """Bytes of the broker; the commands that are whole now, each with what it answers."""
        events = []
        for frame in self._reader.feed(data):
            if self.error is not None:
                break
            try:
                events.append(self._take(frame))
            except RemoteError as fault:
                self._fail(fault)
        if self._reader.error is not None and self.error is None:
            self._fail(self._reader.error)
        return events

    def _take(self, frame: Frame) -> Event:
        command, body = read_command(frame.data[8 : frame.parts.command_end])
        row = COMMANDS[command.type]
        if not row.broker_may_send:
            raise RemoteError(f"{row.name} from a broker")
        self.keep_alive.outstanding = False
        if row.number == _PING:
            self._output.append(push_frame(pb.CommandPong()))
        elif row.number == _CONNECTED:
            self._complete(body)
        return Event(row.name, body, frame, self._answered(row.number, body))

    def _complete(self, body: Any) -> None:
        if self.state is not State.CONNECTING:
            raise RemoteError("CONNECTED without a CONNECT")
        self.state = State.CONNECTED
        self.connected = body
        self.version = min(self.offered, body.protocol_version)
        if body.HasField("max_message_size"):
            self._reader.max_frame_size = max(0, body.max_message_size) + FRAME_OVERHEAD

    def _answered(self, number: int, body: Any) -> Message | None:
        """The request that this answers, closed unless more is to come."""
        asked_by = _ASKED_BY.get(number, ())
        for key in (_key(asked, body) for asked in asked_by):
            found = self._open.get(key) if key is not None else None
            if key is not None and found is not None and found[0] in asked_by:
                if COMMANDS[number].name != "PRODUCER_SUCCESS" or body.producer_ready:
                    del self._open[key]
                return found[1]
        if number == _ERROR and self.state is State.CONNECTING:
            self._fail(RemoteError(f"the broker refused the connection: {body.message}"))
        for asked in asked_by:
            queue = self._ordered.get(asked)
            if queue and (number != _ERROR or asked == _CONNECT):
                return queue.popleft()
        return None

    def _fail(self, fault: RemoteError) -> None:
        self.error = fault
        self.state = State.FAILED


def _key(number: int, body: Any) -> _Key | None:
    """What a request and its answer have in common; None: it has no id."""
    by = COMMANDS[number].paired_by
    if by == "sequence":
        return number, body.producer_id, body.sequence_id
    if by in _IDS and by in body.DESCRIPTOR.fields_by_name and body.HasField(by):
        # One number is one request, whatever its type: a broker tells them apart by nothing else.
        return by, getattr(body, by)
    return None


_ASKED_BY: Final[dict[int, tuple[int, ...]]] = {
    number: tuple(row.number for row in COMMANDS.values() if COMMANDS[number].name in row.answers)
    for number in COMMANDS
}
"""The requests that a command may answer."""
