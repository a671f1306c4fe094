"""What an observer remembers: connections, the producers and consumers on them, open requests; and what it says of
one frame.

Plain slotted classes: one of each is made per frame or per request.
"""

from __future__ import annotations

from typing import Any, Protocol

from pcli.codec.observe.plans import command_plan, part_plan
from pcli.codec.observe.values import RAW, Values
from pcli.codec.observe.walk import walk
from pcli.codec.proto import pb
from pcli.codec.wire.frame import Parts
from pcli.codec.wire.problems import Problem

__all__ = ["Connection", "Consumer", "Facts", "ObservedFrame", "Producer", "Request", "StreamLike"]


class StreamLike(Protocol):
    """The TCP connection of a frame, as pcli.codec.capture tells of it."""

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
    """A frame with its place in a recording: what an observer needs of pcli.codec.capture's CapturedFrame.

    A protocol, so that frames of a live connection can be observed too. The first part is pcli.codec.wire's Frame.
    """

    @property
    def data(self) -> bytes: ...  # noqa: D102  (as in Frame)
    @property
    def type(self) -> int: ...  # noqa: D102
    @property
    def length(self) -> int: ...  # noqa: D102
    @property
    def missing(self) -> int: ...  # noqa: D102
    @property
    def parts(self) -> Parts: ...  # noqa: D102
    @property
    def command(self) -> pb.BaseCommand: ...  # noqa: D102
    @property
    def metadata(self) -> pb.MessageMetadata | None: ...  # noqa: D102
    @property
    def payload(self) -> bytes | None: ...  # noqa: D102
    @property
    def checksum(self) -> str | None: ...  # noqa: D102
    @property
    def problems(self) -> list[Problem]: ...  # noqa: D102

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
        """Its TCP connection."""
    @property
    def from_client(self) -> bool:
        """Whether the client sent it."""
    @property
    def sync(self) -> str:
        """How its beginning is known: ``start``, ``anchored`` or ``resync``."""
    @property
    def capture_problems(self) -> tuple[Problem, ...]:
        """What the capture did to it."""


class Producer:
    """A producer on a connection, from its PRODUCER until it is closed."""

    __slots__ = ("again", "closed", "id", "name", "sends", "system", "topic")

    def __init__(self, id: int, topic: str = "", name: str = "", *, system: bool = False) -> None:  # noqa: A002
        self.id = id
        self.topic = topic
        """Empty when its PRODUCER is not in the capture."""
        self.name = name
        """As asked for or, later, as given by the broker; empty when unknown."""
        self.system = system
        """Whether it is the broker's own."""
        self.closed = False
        """Whether a side has closed it; frames may still be on their way."""
        self.sends: dict[int, tuple[int, int]] = {}
        """SENDs without receipt: sequence id to number and time of the frame; the oldest first."""
        self.again: dict[int, list[tuple[int, int]]] | None = None
        """Further open SENDs with the same sequence id: chunks of one message, repetitions."""


class Consumer:
    """A consumer on a connection, from its SUBSCRIBE until it is closed."""

    __slots__ = ("closed", "id", "name", "subscription", "system", "topic", "type")

    def __init__(
        self,
        id: int,  # noqa: A002
        topic: str = "",
        subscription: str = "",
        name: str = "",
        type: str = "",  # noqa: A002
        *,
        system: bool = False,
    ) -> None:
        self.id = id
        self.topic = topic
        """Empty when its SUBSCRIBE is not in the capture; so are subscription, name and type."""
        self.subscription = subscription
        self.name = name
        self.type = type
        """Exclusive, Shared, Failover, Key_Shared, STREAM or CHECKPOINT."""
        self.system = system
        """Whether it is the broker's own."""
        self.closed = False
        """Whether a side has closed it; frames may still be on their way."""


class Request:
    """A request whose answer has not come, or the one that a frame answers."""

    __slots__ = ("id", "number", "peer", "stream", "subscription", "system", "time_ns", "topic", "type")

    def __init__(self, number: int, time_ns: int, type: int, stream: int, id: int) -> None:  # noqa: A002
        self.number = number
        """``pulsar.number`` of the request."""
        self.time_ns = time_ns
        self.type = type
        """Number of its command type."""
        self.stream = stream
        self.id = id
        """Request, sequence, session or watch id; -1 when paired by order."""
        self.peer: Producer | Consumer | None = None
        self.topic: str | list[str] = ""
        """The topic or topics that it asked about; empty: none."""
        self.subscription: str | list[str] = ""
        self.system = False


class Connection:
    """One TCP connection and all that is open on it."""

    __slots__ = (
        "connected",
        "consumers",
        "handshake",
        "keyed",
        "ordered",
        "producers",
        "requests",
        "scalable",
        "stream",
        "system",
        "waiting",
    )

    def __init__(self, stream: int) -> None:
        self.stream = stream
        """``tcp.stream``."""
        self.connected = False
        """Whether the handshake is over."""
        self.system: bool | None = None
        """Whether the broker's own client speaks here; None: no name was seen yet."""
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.scalable: dict[int, Consumer] = {}
        """Consumers known to the controller of a scalable topic; their ids are counted apart."""
        self.requests: dict[tuple[bool, int], Request] = {}
        """Open requests by direction (True: from the client) and request id."""
        self.keyed: dict[tuple[bool, int, int], Request] = {}
        """Open lookups and watches by direction, type and session or watch id."""
        self.ordered: dict[tuple[bool, tuple[str, ...]], list[Request]] = {}
        """Open requests without ids by direction and possible answers; the oldest first."""
        self.waiting: dict[int, Request] = {}
        """PRODUCERs answered with "wait": a second answer follows."""


class Facts:
    """What is known of one frame when it has been seen."""

    __slots__ = (
        "_batch",
        "_command",
        "_entry",
        "_metadata",
        "answer_number",
        "frame",
        "hot",
        "latency_ns",
        "peer",
        "request",
        "request_number",
        "system",
    )

    def __init__(self, frame: ObservedFrame) -> None:
        self.frame = frame
        self.peer: Producer | Consumer | None = None
        """The producer or consumer of this connection that the frame speaks of."""
        self.request: Request | None = None
        """The request that this frame answers; None for receipts too, whose producer is the peer."""
        self.request_number = 0
        """``pulsar.number`` of that request; 0: none or unknown."""
        self.latency_ns = -1
        """Time since that request; -1: unknown."""
        self.answer_number = 0
        """``pulsar.number`` of the answer to this request: known in a second pass only, else 0."""
        self.system = False
        """Whether this is traffic of the broker's own client."""
        self.hot: tuple[Any, ...] | None = None
        """What pcli.codec.wire.hot read of a SEND, SEND_RECEIPT, MESSAGE, ACK or FLOW; None: an unusual one."""
        self._command: Values | None = None
        self._metadata: Values | None = None
        self._entry: Values | None = None
        self._batch: list[Values] | None = None

    @property
    def command(self) -> Values:
        """The fields of the command by their names, raw (see values.py)."""
        if self._command is None:
            self._command = {}
            parts = self.frame.parts
            plan = command_plan(self.frame.type, RAW)
            walk(self.frame.data, parts.command_start, parts.command_end, plan, self._command)
        return self._command

    @property
    def metadata(self) -> Values:
        """The fields of the message metadata, raw; empty when there is none."""
        if self._metadata is None:
            self._metadata = {}
            parts = self.frame.parts
            if parts.metadata_start >= 0:
                walk(self.frame.data, parts.metadata_start, parts.metadata_end, _METADATA, self._metadata)
        return self._metadata

    @property
    def entry(self) -> Values:
        """The fields of the broker entry metadata, raw; empty when there is none."""
        if self._entry is None:
            self._entry = {}
            parts = self.frame.parts
            if parts.entry_start >= 0:
                walk(self.frame.data, parts.entry_start, parts.entry_end, _ENTRY, self._entry)
        return self._entry


_METADATA = part_plan("metadata", RAW)
_ENTRY = part_plan("entry", RAW)
