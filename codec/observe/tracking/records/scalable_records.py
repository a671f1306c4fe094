"""Records of scalable topics: segments, changes of the layout, sessions, assignments. The module contains only data.

Times are nanoseconds since 1970, -1 if unknown. Frames are ``pulsar.number``, 0 if unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pcli.codec.bounded_dict import BoundedDict
from pcli.codec.observe.tracking.records.counters import Occurrences
from pcli.codec.scalable.layout import Change, Layout, Segment
from pcli.codec.scalable.segment_name import SegmentName

if TYPE_CHECKING:
    from pcli.codec.observe.tracking.records.topic_records import SubscriptionRecord, TopicRecord

MAX_SESSIONS: Final = 1_000
"""Maximum number of sessions of a topic, and of connections of classic clients that it refused."""

MAX_KEYS: Final = 20_000
"""Maximum number of keys of a topic whose order across segments is checked."""


@dataclass(slots=True)
class SegmentRecord:
    """A segment of a scalable topic."""

    topic: ScalableTopicRecord = field(repr=False)
    id: int
    start: int
    end: int
    """Last hash of the range."""
    segment: Segment | None = None
    """The segment in the last layout that contains it; None if the capture has no such layout."""
    first_ns: int = -1
    """Time of the first layout that contains it."""
    owner: str = ""
    """URL of its broker in that layout; empty if the segment is sealed or the layout has none."""
    sealed_ns: int = -1
    """Time of the first layout in which it is sealed."""
    sealed_frame: int = 0
    pruned_ns: int = -1
    """Time of the first layout in which it is absent."""
    pruned_frame: int = 0
    straddling: Occurrences = field(default_factory=Occurrences)
    """SENDs whose entry hashes belong to more than one entry bucket; the sample is the range of the hashes."""
    misrouted: Occurrences = field(default_factory=Occurrences)
    """SENDs whose key has a hash outside the range of the segment; the sample is the key."""
    topic_record: TopicRecord | None = field(default=None, repr=False)
    """The topic that stores the segment; None if no producer or consumer opened it in the capture."""

    @property
    def name(self) -> str:
        """The name of the topic that stores the segment."""
        if self.segment is not None:
            return self.segment.name(self.topic.name)
        return str(SegmentName(self.topic.name, self.start, self.end, self.id))

    def subscription(self, name: str) -> SubscriptionRecord | None:
        """Return the record of a subscription on the segment, or None."""
        return None if self.topic_record is None else self.topic_record.subscriptions.get(name)

    def drained(self, name: str, backlog: int | None) -> tuple[int, int]:
        """Return the time and frame since which a subscription has no message of the sealed segment in its backlog.

        The time is -1 if the segment is not sealed, or the current backlog of the subscription is not 0.
        """
        record = self.subscription(name)
        if not self.sealed or record is None or backlog != 0:
            return -1, 0
        acks = [(one.last_ack_ns, one.last_ack_frame) for one in record.consumers.values()]
        return max([*acks, (self.sealed_ns, self.sealed_frame)])

    @property
    def sealed(self) -> bool:
        """Whether a layout in the capture shows it sealed."""
        return self.sealed_ns >= 0

    @property
    def state(self) -> str:
        """``active``, ``sealed``, ``pruned`` or ``unknown``, according to the last layout."""
        if self.segment is None:
            return "unknown"
        return "pruned" if self.pruned_ns >= 0 else "active" if self.segment.active else "sealed"


@dataclass(slots=True)
class LayoutChange:
    """A change of a layout, at the first update that shows it."""

    change: Change
    time_ns: int
    frame: int


@dataclass(slots=True)
class LayoutSessionRecord:
    """A session of a producer, a consumer or another reader of the layout (SCALABLE_TOPIC_LOOKUP)."""

    stream: int
    id: int
    began_ns: int
    frame: int
    ended_ns: int = -1
    updates: int = 0
    repeated: int = 0
    """Updates that repeat the layout before."""
    epochs: list[tuple[int, int, int]] = field(default_factory=list)
    """The last epochs that the session received: epoch, time and frame of the first update."""
    error: str = ""
    """The error in an update, with its message."""


@dataclass(slots=True)
class Assignment:
    """The segments that the controller assigns to a consumer."""

    epoch: int
    time_ns: int
    frame: int
    segments: dict[int, tuple[tuple[int, int], ...]]
    """Ranges of the entry buckets by segment id; empty if the consumer has the whole segment."""


@dataclass(slots=True)
class ControlledConsumerRecord:
    """A stream or checkpoint consumer that is registered with the controller (SCALABLE_TOPIC_SUBSCRIBE)."""

    topic: ScalableTopicRecord = field(repr=False)
    subscription: str
    name: str
    type: str
    """STREAM or CHECKPOINT; empty if unknown."""
    stream: int
    id: int
    began_ns: int
    frame: int
    ended_ns: int = -1
    ended_frame: int = 0
    end: str = ""
    """``closed`` after SCALABLE_TOPIC_UNSUBSCRIBE, or a key of ENDS; empty while the consumer is registered."""
    given_up: bool = False
    """Whether the consumer was lost and other consumers have all its segments: the grace period is over."""
    error: str = ""
    """The error of the response, with its message."""
    assignments: list[Assignment] = field(default_factory=list)
    """The assignments in their order, the last MAX_ASSIGNMENTS."""

    @property
    def segments(self) -> dict[int, tuple[tuple[int, int], ...]]:
        """The segments of the last assignment, as in `Assignment.segments`."""
        return self.assignments[-1].segments if self.assignments else {}


@dataclass(slots=True)
class HandOver:
    """A segment that the controller took from one consumer and assigned to another."""

    segment: int
    subscription: str
    before: str
    """Name of the consumer that had the segment."""
    after: str
    time_ns: int
    """Time of the assignment to the new consumer."""
    frame: int
    busy: Occurrences = field(default_factory=Occurrences)
    """SUBSCRIBEs of the new consumer that were refused with ConsumerBusy."""
    waited_ns: int = 0
    """The longest time that a SUBSCRIBE of the new consumer waited for its response."""
    ready_ns: int = -1
    """Time of the response to the successful SUBSCRIBE of the new consumer."""
    ready_frame: int = 0
    withdrawn_ns: int = -1
    """Time at which the new consumer left, or the controller assigned the segment to another consumer, before the
    SUBSCRIBE succeeded."""


@dataclass(slots=True)
class UnattendedSegment:
    """A segment that no stream consumer receives while the controller waits for a lost consumer."""

    segment: int
    subscription: str
    consumer: ControlledConsumerRecord = field(repr=False)
    """The lost consumer."""
    since_ns: int
    since_frame: int
    until_ns: int = -1
    """Time at which a consumer received the segment, or the lost consumer registered again."""
    until_frame: int = 0


@dataclass(slots=True)
class ScalableTopicRecord:
    """A scalable topic, by its name ``topic://tenant/namespace/name``."""

    name: str
    layout: Layout | None = None
    """The latest layout; None if the capture contains only segments."""
    segments: dict[int, SegmentRecord] = field(default_factory=dict)
    """All segments that the capture names, by id."""
    changes: list[LayoutChange] = field(default_factory=list)
    """Changes between layouts in the capture, and those that the first layout still shows; the last MAX_CHANGES."""
    first_ns: int = -1
    """Time of the first layout."""
    sessions: list[LayoutSessionRecord] = field(default_factory=list)
    """The last MAX_SESSIONS sessions."""
    consumers: list[ControlledConsumerRecord] = field(default_factory=list)
    """The last MAX_CONSUMERS registrations with the controller."""
    hand_overs: list[HandOver] = field(default_factory=list)
    """The last MAX_HAND_OVERS hand-overs."""
    unattended: list[UnattendedSegment] = field(default_factory=list)
    """The last MAX_HAND_OVERS periods in which a segment has no consumer."""
    refused: BoundedDict[int, Occurrences] = field(default_factory=lambda: BoundedDict(MAX_SESSIONS))
    """Requests of classic clients that the broker refused because the name is that of a scalable topic, by connection;
    the frames are those of the request and the response."""
    newest_of_key: BoundedDict[tuple[str, str], tuple[int, int]] = field(default_factory=lambda: BoundedDict(MAX_KEYS))
    """The newest segment, apart from those without parents, of which a subscription has received a key, and the frame
    of the MESSAGE, by subscription and key."""
    overtaken: dict[str, Occurrences] = field(default_factory=dict)
    """Messages that a subscription received after messages with the same key of a descendant of their segment. The
    frames are the two MESSAGEs; the sample is the key."""
    controller: str = ""
    """URL of the controller's broker in the latest layout."""
    updates: int = 0
    """Number of layouts in all sessions."""
    contradictions: dict[str, int] = field(default_factory=dict)
    """What is impossible in a layout, with the frame of its first update."""
    doubts: set[str] = field(default_factory=set)

    @property
    def system(self) -> bool:
        """Whether the topic is the broker's own: never, because system topics are not scalable."""
        return False
