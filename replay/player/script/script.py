"""The script of a replay, as data: connections, captured frames in the order of the replay, and calls to REST."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pcli.codec.capture import CapturedFrame
from pcli.codec.errors import LocalError
from pcli.codec.wire.commands import name_of
from pcli.codec.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pcli.codec.observe import Consumer, LayoutUpdate, Producer, Request


@dataclass(slots=True, eq=False)
class Step:
    """One event in the capture: a frame or the end of a connection. Steps are compared by identity."""

    index: int
    """The index in the script."""
    stream: int
    """The connection (``tcp.stream``)."""
    time_ms: float
    """The time in milliseconds since 1970."""
    from_client: bool
    frame: CapturedFrame | None
    """The frame; None if this side closed the connection."""
    peer: Producer | Consumer | None = None
    """The producer or consumer of the frame, if known from the capture."""
    request: Request | None = None
    """The request to which the frame is the response."""
    layout: LayoutUpdate | None = None
    """The layout in a SCALABLE_TOPIC_UPDATE."""
    reset: bool = False
    """Whether the connection ended with an RST."""
    name: str = field(init=False)
    """Name of the command; ``END`` for the end of a connection."""

    def __post_init__(self) -> None:
        self.name = name_of(self.frame.type) if self.frame is not None else "END"

    @property
    def composed(self) -> bool:
        """Whether the step is not in the capture, but follows from later frames."""
        return self.frame is not None and self.frame.number < 0

    @property
    def type(self) -> int:
        """Command type; 0 for the end of a connection."""
        return self.frame.type if self.frame is not None else 0

    @property
    def content(self) -> bytes:
        """Metadata and payload of a SEND or MESSAGE; empty for other commands."""
        return self.frame.data[self.frame.parts.checked_start :] if self.frame is not None else b""

    @property
    def topic(self) -> str:
        """The topic of the step's producer or consumer; empty if unknown."""
        return self.peer.topic if self.peer is not None else ""


@dataclass(slots=True)
class CapturedConnection:
    """One replayed connection."""

    number: int
    client: tuple[str, int]
    server: tuple[str, int]


@dataclass(slots=True)
class Script:
    """The steps and connections of one replay."""

    steps: list[Step] = field(default_factory=list)
    connections: dict[int, CapturedConnection] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of connections or frames that are not replayed, by reason."""
    composed: list[str] = field(default_factory=list)
    """The commands at the start of connections that were composed, each with the frame from which it follows."""


FEATURES_OF_5: Final = ("supports_scalable_topics", "supports_tc_metadata_discovery")
"""The feature flags that commands of Pulsar 5.0 require."""
SEED_STREAM: Final = -1
"""The number of the connection that publishes the messages from before the capture (seed_messages.py)."""
TOGETHER_MS: Final = 2000
"""Maximum time in milliseconds between the effects of one change on the captured broker."""

# -- calls of the REST interface --------------------------------------------------------------------------------------

Rename = Callable[[str], str]
"""A function that maps a captured topic name to the live topic name."""


@dataclass(frozen=True, slots=True)
class RestCall:
    """One call."""

    method: str
    path: str
    """The path after ``/admin/v2/``."""
    body: object = None
    position: tuple[int, int] | None = None
    """A captured message id that becomes the body when its live id is known."""
    segments: tuple[str, ...] = ()
    """The captured names of the segments in the path: its end consists of their ids, or it contains one descriptor
    (``0000-7fff-1``). The call has their live ids."""


RESTART = RestCall("RESTART", "")
"""A restart. It is not a REST call, and only an embedded mini-broker supports it."""


def topic_path(topic: str | TopicName) -> str:
    """Return the REST path of a topic. An invalid name is returned unchanged, and the broker refuses it."""
    try:
        name = topic if isinstance(topic, TopicName) else TopicName.parse(str(topic))
    except LocalError:
        return str(topic)
    if name.domain == "segment":
        local, _, descriptor = name.local.rpartition("/")
        return f"segments/{name.tenant}/{name.namespace}/{replace(name, local=local).encoded_local}/{descriptor}"
    domain = "scalable" if name.domain == "topic" else name.domain
    return f"{domain}/{name.tenant}/{name.namespace}/{name.encoded_local}"
