"""State of an observer, and the facts about one frame.

The state consists of connections, their producers and consumers, and open requests. The classes have slots, because one
object is created per frame or per request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from google.protobuf.unknown_fields import UnknownFieldSet

from pcli.codec.observe.decoding.decode_plans import command_plan, part_plan
from pcli.codec.observe.decoding.message_decoder import walk
from pcli.codec.observe.decoding.message_layouts import MessageLayout, layout_of
from pcli.codec.observe.decoding.value_kinds import Values
from pcli.codec.proto import pb
from pcli.codec.scalable.layout import Layout
from pcli.codec.wire.commands import COMMANDS, PAYLOAD_TYPES
from pcli.codec.wire.frame import Parts
from pcli.codec.wire.problems import Problem

if TYPE_CHECKING:
    from pcli.codec.payload.entry import Entry

Opener = Callable[["Facts"], "Entry | None"]
"""A function that decodes the payload of an observed frame."""


class StreamLike(Protocol):
    """The TCP connection of a frame, as in pcli.codec.capture."""

    @property
    def number(self) -> int:
        """``tcp.stream``."""

    @property
    def client(self) -> tuple[str, int]:
        """Address and port."""

    @property
    def server(self) -> tuple[str, int]:
        """Address and port."""


class ObservedFrame(Protocol):
    """A frame with its position in a capture: the properties of a CapturedFrame that an observer needs.

    It is a `typing.Protocol`, so that frames of a live connection can be observed too. The first properties are those
    of pcli.codec.wire's Frame.
    """

    @property
    def data(self) -> bytes:
        """The frame's bytes, length prefix included."""

    @property
    def type(self) -> int:
        """Number of the command type; -1 if it cannot be read."""

    @property
    def length(self) -> int:
        """Length of the whole frame in bytes according to its length prefix."""

    @property
    def offset(self) -> int:
        """Start of the frame in its direction of the stream."""

    @property
    def missing(self) -> int:
        """Number of bytes that ``data`` lacks according to the length prefix."""

    @property
    def parts(self) -> Parts:
        """The offsets of the parts."""

    @property
    def command(self) -> pb.BaseCommand:
        """The command."""

    @property
    def body(self) -> Any:
        """The message in the command; None if the type is unknown."""

    @property
    def metadata(self) -> pb.MessageMetadata | None:
        """The message metadata, or None if there is none."""

    @property
    def broker_entry(self) -> pb.BrokerEntryMetadata | None:
        """The broker entry metadata, or None if there is none."""

    @property
    def payload(self) -> bytes | None:
        """The payload as transmitted, or None if there is none."""

    @property
    def checksum(self) -> str | None:
        """``good``, ``bad``, ``none``, or None (see Frame.checksum)."""

    @property
    def problems(self) -> list[Problem]:
        """All problems that can be detected in this frame alone."""

    @property
    def number(self) -> int:
        """``pulsar.number``."""

    @property
    def packet(self) -> int:
        """``frame.number``."""

    @property
    def time_ns(self) -> int:
        """Nanoseconds since 1970."""

    @property
    def stream(self) -> StreamLike:
        """The frame's TCP connection."""

    @property
    def from_client(self) -> bool:
        """Whether the client sent the frame."""

    @property
    def sync(self) -> str:
        """How the frame's start was found: ``start``, ``anchored`` or ``resync``."""

    @property
    def capture_problems(self) -> tuple[Problem, ...]:
        """Problems caused by the capture."""


class Producer:
    """A producer on a connection, from its PRODUCER until it is closed."""

    __slots__ = ("again", "closed", "id", "name", "record", "sends", "system", "topic")

    def __init__(self, id: int, topic: str = "", name: str = "", *, system: bool = False) -> None:  # noqa: A002
        self.id = id
        self.topic = topic
        """The topic; empty if the PRODUCER command is not in the capture."""
        self.name = name
        """The name that the broker assigned or, before that, the requested name; empty if unknown."""
        self.system = system
        """Whether the broker itself created the producer."""
        self.closed = False
        """Whether a side has closed the producer; frames may still follow."""
        self.record: Any = None
        """The record that a user of the observer attaches to this object."""
        self.sends: dict[int, tuple[int, int]] = {}
        """SENDs without a receipt, oldest first: (frame number, time) by sequence id."""
        self.again: dict[int, deque[tuple[int, int]]] | None = None
        """Later open SENDs whose sequence id is already in ``sends``: chunks of one message, or resends."""


@dataclass(slots=True, eq=False, repr=False)
class Consumer:
    """A consumer on a connection, from its SUBSCRIBE until it is closed."""

    id: int
    topic: str = ""
    """The topic. Topic, subscription, name and type are empty if the SUBSCRIBE is not in the capture."""
    subscription: str = ""
    name: str = ""
    type: str = ""
    """Exclusive, Shared, Failover, Key_Shared, STREAM or CHECKPOINT."""
    system: bool = False
    """Whether the broker itself created the consumer."""
    record: Any = None
    """The record that a user of the observer attaches to this object."""
    closed: bool = False
    """Whether a side has closed the consumer; frames may still follow."""


class Request:
    """A request without a response so far, or the request that a frame answers."""

    __slots__ = ("id", "number", "peer", "stream", "subscription", "system", "time_ns", "topic", "type")

    def __init__(self, number: int, time_ns: int, type: int, stream: int, id: int) -> None:  # noqa: A002
        self.number = number
        """``pulsar.number`` of the request."""
        self.time_ns = time_ns
        self.type = type
        """Number of the request's command type."""
        self.stream = stream
        self.id = id
        """Request, sequence, session or watch id; -1 if paired by order."""
        self.peer: Producer | Consumer | None = None
        self.topic: str | list[str] = ""
        """The topic or topics of the request; empty if none."""
        self.subscription: str | list[str] = ""
        self.system = False


class LayoutUpdate(NamedTuple):
    """The layout in a SCALABLE_TOPIC_UPDATE and the layout that its session had before."""

    topic: str
    """The scalable topic, or the classic topic that the session looked up."""
    before: Layout | None
    """The earlier layout; None if the update is the first of its session in the capture."""
    after: Layout


@dataclass(slots=True, eq=False, repr=False)
class Connection:
    """A TCP connection with its open requests."""

    stream: int
    """``tcp.stream``."""
    connected: bool = True
    """Whether the handshake is complete, or took place before the capture."""
    system: bool | None = None
    """Whether the connection belongs to the broker's own client; None if no name was captured yet."""
    producers: dict[int, Producer] = field(default_factory=dict)
    consumers: dict[int, Consumer] = field(default_factory=dict)
    scalable: dict[int, Consumer] = field(default_factory=dict)
    """Consumers at the controller of a scalable topic. They have a separate id space."""
    layouts: dict[int, LayoutUpdate] = field(default_factory=dict)
    """The last layout of each session of a scalable topic, by session id."""
    requests: dict[tuple[bool, str, int], Request] = field(default_factory=dict)
    """Open requests by direction (True: from the client), name of the first possible response, and request id."""
    keyed: dict[tuple[bool, int, int], Request] = field(default_factory=dict)
    """Open lookups and watches by direction, type and session or watch id."""
    ordered: dict[tuple[bool, tuple[str, ...]], deque[Request]] = field(default_factory=dict)
    """Open requests without ids by direction and possible responses, oldest first."""
    waiting: dict[tuple[bool, int], Request] = field(default_factory=dict)
    """PRODUCER requests that await a second response, because the first has producer_ready false."""


class Facts:
    """The facts known about a frame when it was observed."""

    __slots__ = (
        "_parts",
        "answer_number",
        "frame",
        "latency_ns",
        "layout",
        "opener",
        "peer",
        "request",
        "request_number",
        "system",
    )

    def __init__(self, frame: ObservedFrame, opener: Opener) -> None:
        self.frame = frame
        self.opener = opener
        self.peer: Producer | Consumer | None = None
        """The producer or consumer of the frame."""
        self.layout: LayoutUpdate | None = None
        """The layout in a SCALABLE_TOPIC_UPDATE, or the last layout of the session that a SCALABLE_TOPIC_CLOSE ends."""
        self.request: Request | None = None
        """The request that this frame answers; None for receipts, because their producer is the peer."""
        self.request_number = 0
        """``pulsar.number`` of that request; 0 if there is none or it is unknown."""
        self.latency_ns = -1
        """Nanoseconds since that request; -1 if unknown."""
        self.answer_number = 0
        """``pulsar.number`` of the response to this request; 0 without a second pass."""
        self.system = False
        """Whether the frame is traffic of the broker's own client."""
        # One slot for all lazily decoded parts, because most frames need none of them.
        self._parts: _Parts | None = None

    @property
    def command_layout(self) -> MessageLayout | None:
        """The layout of the command, or None if it has no known layout."""
        parts = self._parts
        if parts is None:
            parts = self._parts = _Parts()
        layout: MessageLayout | None = parts.command_layout
        if layout is _UNKNOWN:
            frame = self.frame
            layout = layout_of(command_plan(frame.type), frame.data, 8, 8 + _u32(frame.data, 4)[0])
            parts.command_layout = layout
        return layout

    @property
    def metadata_layout(self) -> MessageLayout | None:
        """The layout of the message metadata, or None if it has no known layout."""
        parts = self._parts
        if parts is None:
            parts = self._parts = _Parts()
        layout: MessageLayout | None = parts.metadata_layout
        if layout is _UNKNOWN:
            places = self.frame.parts
            layout = layout_of(_METADATA, self.frame.data, places.metadata_start, places.metadata_end)
            parts.metadata_layout = layout
        return layout

    @property
    def command(self) -> Values:
        """The fields of the command by name, not converted."""
        layout = self.command_layout
        parts = self._parts
        assert parts is not None
        values = parts.command
        if values is None:
            frame = self.frame
            values = parts.command = {}
            if layout is not None:
                layout.put(frame.data, 8, values)
            else:
                ok = walk(frame.data, 8, 8 + _u32(frame.data, 4)[0], command_plan(frame.type), values)
                parts.broken |= not ok
        return values

    def command_value(self, key: str) -> Any:
        """Return a value of the command, or None. Other fields are not decoded if the layout lacks the field."""
        layout = self.command_layout
        return None if layout is not None and key not in layout.keys else self.command.get(key)

    @property
    def error(self) -> tuple[str, str]:
        """Name and message of the ServerError in a response; both are empty if there is none."""
        fields = _ERRORS.get(self.frame.type)
        if fields is None:
            return "", ""
        field, name, text = fields
        body = self.frame.body
        # protobuf stores an error of a newer version as an unknown field
        if not body.HasField(field) and not len(UnknownFieldSet(body)):
            return "", ""
        error = self.command.get(name)
        return ("", "") if error is None else (str(error), str(self.command.get(text, "")))

    @property
    def metadata(self) -> Values:
        """The fields of the message metadata, not converted; empty if there is none."""
        layout = self.metadata_layout
        parts = self._parts
        assert parts is not None
        values = parts.metadata
        if values is None:
            places = self.frame.parts
            values = parts.metadata = {}
            if layout is not None:
                layout.put(self.frame.data, places.metadata_start, values)
            elif places.metadata_start >= 0:
                ok = walk(self.frame.data, places.metadata_start, places.metadata_end, _METADATA, values)
                parts.broken |= not ok
        return values

    @property
    def entry(self) -> Values:
        """The fields of the broker entry metadata, not converted; empty if there is none."""
        parts = self._parts
        if parts is None:
            parts = self._parts = _Parts()
        values = parts.entry
        if values is None:
            places = self.frame.parts
            values = parts.entry = {}
            if places.entry_start >= 0:
                ok = walk(self.frame.data, places.entry_start, places.entry_end, _ENTRY, values)
                parts.broken |= not ok
        return values

    @property
    def broken(self) -> bool:
        """Whether one of the parts decoded so far is invalid protobuf."""
        return self._parts is not None and self._parts.broken

    @property
    def opened(self) -> Entry | None:
        """The decoded payload, or None if there is none."""
        parts = self._parts
        if parts is None:
            parts = self._parts = _Parts()
        if parts.opened is None and self.frame.type in PAYLOAD_TYPES:
            parts.opened = self.opener(self)
        return parts.opened

    @property
    def batch(self) -> list[Values]:
        """The messages of a batch, not converted: index, payload and metadata of each; empty if it is not a batch."""
        parts = self._parts
        if parts is None:
            parts = self._parts = _Parts()
        if parts.batch is None:
            opened = self.opened if "pulsar.metadata.num_messages_in_batch" in self.metadata else None
            parts.batch = [] if opened is None else list(_singles(opened))
        return parts.batch


_UNKNOWN: Final[Any] = object()
"""The value of a layout that was not looked up yet."""


class _Parts:
    """The fields of the parts of a frame; None if not decoded yet."""

    __slots__ = (
        "batch", "broken", "command", "command_layout", "entry", "metadata", "metadata_layout", "opened",
    )  # fmt: skip

    def __init__(self) -> None:
        self.command_layout = self.metadata_layout = _UNKNOWN
        self.command: Values | None = None
        self.metadata: Values | None = None
        self.entry: Values | None = None
        self.batch: list[Values] | None = None
        self.opened: Entry | None = None
        self.broken = False


def _singles(opened: Entry) -> Iterator[Values]:
    for message in opened.messages:
        if message.single is not None:
            values: Values = {"index": message.index}
            data = message.single.SerializePartialToString()
            layout = layout_of(_BATCH, data, 0, len(data))
            if layout is not None:
                layout.put(data, 0, values)
            else:
                walk(data, 0, len(data), _BATCH, values)
            values["payload"] = message.payload
            yield values


_ERRORS: Final = {
    number: (path, f"pulsar.{row.field}.{path}", f"pulsar.{row.field}.{'error_message' if '_' in path else 'message'}")
    for number, row in COMMANDS.items()
    for path in [row.ids.get("error", "")]
    if path
}
"""The field with the ServerError by command type, and the keys of its name and its message."""


def open_frame(facts: Facts) -> Entry | None:
    """Decode the entry of a SEND or MESSAGE.

    The payload is not decrypted, chunks are not joined, and schemas are not applied. Return None if there is no entry.
    """
    from pcli.codec.payload.entry import open_entry

    frame = facts.frame
    metadata, payload = frame.metadata, frame.payload
    if metadata is None or payload is None:
        return None
    return open_entry(metadata, payload, missing=frame.missing)


_u32 = Struct(">I").unpack_from
_METADATA = part_plan("metadata")
_ENTRY = part_plan("entry")
_BATCH = part_plan("batch")
