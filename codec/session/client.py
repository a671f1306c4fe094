"""The client's side of a connection: the handshake, request ids, and the pairing of responses with requests.

Rules of this file
1. The table of commands defines the responses to each request, and the key that pairs them with the request. The event
   for a response contains its request. The event for any other command (MESSAGE, CLOSE_CONSUMER, an unexpected
   response) has no request.
2. A response closes its request, except PRODUCER_SUCCESS with producer_ready = false: the broker sends a second
   response when the producer is ready.
3. An ERROR without a known request id during the handshake is the response to CONNECT, which has no request id. It
   ends the connection.
4. The session responds to PING. It sends nothing else that the caller did not request.
5. Bytes that a client cannot process set ``error`` and end the session; nothing is raised.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from pcli.codec.errors import LocalError, RemoteError
from pcli.codec.proto import pb
from pcli.codec.session.keepalive import KeepAlive, TickAction
from pcli.codec.session.states import State
from pcli.codec.session.strict import read_command
from pcli.codec.session.versions import NEWEST, PINGS
from pcli.codec.wire.build import command_of, push_frame
from pcli.codec.wire.commands import BY_NAME, COMMANDS
from pcli.codec.wire.constants import FRAME_OVERHEAD
from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader

_CONNECT: Final = BY_NAME["CONNECT"].number
_CONNECTED: Final = BY_NAME["CONNECTED"].number
_ERROR: Final = BY_NAME["ERROR"].number
_PING: Final = BY_NAME["PING"].number
_IDS: Final = ("request_id", "session_id", "watch_id")
"""The values of ``paired_by`` that name a field."""

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """A received command."""

    name: str
    """The name of the command type, such as ``MESSAGE``."""
    body: Any
    """The message in the command, an object of its class in ``pb``."""
    frame: Frame
    request: Message | None = None
    """The request that this command answers; None if no request of this session matches."""


class ClientSession:
    """One connection from the client's side. The caller writes ``output()`` to the socket."""

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
        """The protocol version in CONNECT."""
        self.features = features
        """The feature flags set in CONNECT."""
        self.keep_alive = keep_alive or KeepAlive(0, 0)
        self.state = State.START
        self.version = 0
        """The negotiated protocol version; 0 before the handshake."""
        self.connected: pb.CommandConnected | None = None
        """The broker's CONNECTED command; None before the handshake."""
        self.error: RemoteError | None = None
        """The reason why the session ended; None while it is active."""
        self._reader = FrameReader()
        self._output: list[bytes] = []
        self._next_request = 1
        self._open: dict[_Key, tuple[int, Message]] = {}
        self._ordered: dict[int, deque[Message]] = {}

    # -- output ----------------------------------------------------------------------------------------------------

    def connect(self, **fields: Any) -> None:
        """Begin the handshake. ``fields`` of CommandConnect override the session's values."""
        if self.state is not State.START:
            raise LocalError("the handshake has already begun")
        flags = pb.FeatureFlags(**dict.fromkeys(self.features, True))
        body = pb.CommandConnect(client_version=self.client_version, protocol_version=self.offered, feature_flags=flags)
        body.MergeFrom(pb.CommandConnect(**fields))
        self.state = State.CONNECTING
        self.send(body)

    def send(self, body: Any, entry: bytes = b"") -> Message:
        """Send a command, and the entry of a SEND. Return the body as sent, with its request id.

        A missing request id is assigned. Raise LocalError if the body is not a command or lacks a required field.
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
        """Send a command without recording a request. The event for a response then has no request."""
        self._output.append(push_frame(body, entry))

    def post_frame(self, frame: bytes) -> None:
        """Send a whole frame, like ``post``. The fast writers in ``codec.wire.hot`` create such frames."""
        self._output.append(frame)

    def next_request_id(self) -> int:
        """Return a request id not yet used in this session."""
        number = self._next_request
        self._next_request += 1
        return number

    def output(self) -> bytes:
        """Return and clear the bytes to be written."""
        data = b"".join(self._output)
        self._output.clear()
        return data

    @property
    def open_requests(self) -> list[Message]:
        """The requests that have no response yet; requests without ids are last."""
        return [
            *(body for _, body in self._open.values()),
            *(body for queue in self._ordered.values() for body in queue),
        ]

    def tick(self, now: int) -> TickAction:
        """Run the keep-alive tick that is due, and add a PING to the output if it requires one."""
        action = self.keep_alive.tick(now, connected=self.state is State.CONNECTED, pings=self.version >= PINGS)
        if action is TickAction.PING:
            self.send(pb.CommandPing())
        elif action is TickAction.CLOSE:
            self._fail(RemoteError("the broker sent nothing"))
        return action

    # -- input -----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """Add bytes from the broker. Return the commands that are now complete, each with its request."""
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
        """Return the request that this command answers. Close it unless another response will follow."""
        request_types = _REQUEST_TYPES.get(number, ())
        for key in (_key(request_type, body) for request_type in request_types):
            found = self._open.get(key) if key is not None else None
            if key is not None and found is not None and found[0] in request_types:
                if COMMANDS[number].name != "PRODUCER_SUCCESS" or body.producer_ready:
                    del self._open[key]
                return found[1]
        if number == _ERROR and self.state is State.CONNECTING:
            self._fail(RemoteError(f"the broker refused the connection: {body.message}"))
        for request_type in request_types:
            queue = self._ordered.get(request_type)
            if queue and (number != _ERROR or request_type == _CONNECT):
                return queue.popleft()
        return None

    def _fail(self, fault: RemoteError) -> None:
        self.error = fault
        self.state = State.FAILED


def _key(number: int, body: Any) -> _Key | None:
    """Return the key that a request and its response share, or None if the command has no id."""
    by = COMMANDS[number].paired_by
    if by == "sequence":
        return number, body.producer_id, body.sequence_id
    if by in _IDS and by in body.DESCRIPTOR.fields_by_name and body.HasField(by):
        # The type is not part of the key, because a broker distinguishes requests only by their ids.
        return by, getattr(body, by)
    return None


_REQUEST_TYPES: Final[dict[int, tuple[int, ...]]] = {
    number: tuple(row.number for row in COMMANDS.values() if COMMANDS[number].name in row.answers)
    for number in COMMANDS
}
"""The types of the requests that each command type may answer."""
