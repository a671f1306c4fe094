"""One scalable topic: its layout, and the messages that show it to clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pcli.codec.proto import pb
from pcli.codec.scalable import Layout, Segment

if TYPE_CHECKING:
    from pcli.minibroker.scalable.subscription_coordinator import SubscriptionCoordinator
    from pcli.minibroker.scheduler import Interval


class LayoutOperation(NamedTuple):
    """A change of the layout, for the statistics."""

    kind: str
    """split, merge, rebucket or prune."""
    automatic: bool
    segments: tuple[int, ...]
    """Ids of the segments that were replaced or removed."""
    at: int
    """Milliseconds since 1970."""
    error: str = ""
    """The exception that the real broker reports if it failed; empty after a success."""


class SegmentLoad(NamedTuple):
    """The rates of a segment, each per second, as its broker reported them last."""

    messages_in: float
    bytes_in: float
    messages_out: float
    bytes_out: float
    at: int
    """Time of the report, in milliseconds since 1970."""

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """The four rates, in the order of the fields."""
        return self[:4]


@dataclass(slots=True, eq=False)
class ScalableTopic:
    """A scalable topic."""

    name: str
    """``topic://tenant/namespace/name``."""
    layout: Layout
    properties: dict[str, str] = field(default_factory=dict)
    policy: dict[str, Any] | None = None
    """The topic's values of the policy of automatic changes; None if there are none."""
    subscription_types: dict[str, str] = field(default_factory=dict)
    """The subscriptions that REST created: STREAM or QUEUE by name."""
    coordinators: dict[str, SubscriptionCoordinator] = field(default_factory=dict)
    """The subscriptions with registered consumers."""
    controlled: bool = False
    """Whether a controller was elected."""
    ticks: list[Interval] = field(default_factory=list)
    """The ticks of the controller."""
    last: LayoutOperation | None = None
    """The last change of the layout since the election."""
    last_by_kind: dict[str, int] = field(default_factory=dict)
    """Times of the last split, merge and rebucket since the election, in milliseconds since 1970."""
    loads: dict[int, SegmentLoad] = field(default_factory=dict)
    """Reported loads by segment id."""
    cold_since: dict[int, int] = field(default_factory=dict)
    """Times since which the loads of segments are below the thresholds of a merge."""

    def segment_name(self, segment: Segment) -> str:
        """Return the name of the topic that stores a segment."""
        return segment.name(self.name)


def dag_message(layout: Layout, broker: str, controller: str) -> pb.ScalableTopicDAG:
    """Return the message of a layout. ``broker`` owns all segments; ``controller`` is empty if none was elected."""
    segments = layout.segments.values()
    own = [one.id for one in segments if one.active and not one.legacy_topic]
    return pb.ScalableTopicDAG(
        epoch=layout.epoch,
        segments=map(_segment_message, segments),
        segment_brokers=[pb.SegmentBrokerAddress(segment_id=one, broker_url=broker) for one in own],
        controller_broker_url=controller or None,
    )


def _segment_message(one: Segment) -> pb.SegmentInfoProto:
    return pb.SegmentInfoProto(
        segment_id=one.id,
        hash_start=one.start,
        hash_end=one.end,
        state=pb.ACTIVE if one.active else pb.SEALED,
        parent_ids=one.parents,
        child_ids=one.children,
        created_at_epoch=one.created_epoch,
        sealed_at_epoch=None if one.active else one.sealed_epoch,
        created_at_ms=one.created_ms,
        sealed_at_ms=None if one.active else one.sealed_ms,
        legacy_topic_name=one.legacy_topic or None,
        entry_bucket_splits=one.bucket_starts,
    )
