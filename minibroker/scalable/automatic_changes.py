"""Automatic changes of layouts, as the controller of each topic makes them (measured on 5.0.1).

Rules of this file
1. A tick follows the election of the controller every ``scalableTopicAutoScaleIntervalSeconds``. At a tick, the segment
   with the highest rate above a split threshold is split. Otherwise, the last two adjacent segments are merged that
   were below all merge thresholds for the merge window. ``maxDagDepth`` limits the merges among the ancestors of a
   segment. Each kind has a cool-down, which counts manual changes too.
2. A stream consumer that registers can cause a rebucket: if there are more consumers than entry buckets, each segment
   gets the next power of two of its share of the consumers. If a segment receives messages at a sufficient rate, it is
   split instead.
3. Every 60 seconds after the election, the sealed segments without parents are pruned that all subscriptions have
   drained and that retention does not keep. Their children can be pruned 60 seconds later.
4. Every ``scalableTopicLoadReportIntervalSeconds``, the owner of the segments reports their rates: first once, and then
   when one of them changed by more than ``scalableTopicLoadReportRateChangeThreshold``. The last report holds.
5. A change of a segment whose topic REST has deleted fails, and is tried again at the next tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

from pcli.codec.scalable import Segment
from pcli.codec.wire.topic_name import TopicName
from pcli.minibroker.errors import Refused
from pcli.minibroker.policies.auto_scale_policy import AUTO_SCALE_POLICY, AutoScalePolicy, effective_policy
from pcli.minibroker.scalable.layout_changes import buckets
from pcli.minibroker.scalable.scalable_topic import ScalableTopic, SegmentLoad
from pcli.minibroker.scheduler import Interval
from pcli.minibroker.topic_names import namespace_of

if TYPE_CHECKING:
    from pcli.minibroker.scalable.scalable_broker import ScalableBroker
    from pcli.minibroker.scalable.subscription_coordinator import SubscriptionCoordinator
    from pcli.minibroker.topics.topic import Topic

_PRUNE_INTERVAL_MS: Final = 60_000


class LayoutChanges(Protocol):
    """The changes of layouts (implemented by `ScalableTopicService`)."""

    topics: dict[str, ScalableTopic]

    def split(self, topic: ScalableTopic, number: int, *, automatic: bool = False) -> None:
        """Split a segment."""

    def merge(self, topic: ScalableTopic, first: int, second: int, *, automatic: bool = False) -> None:
        """Merge two segments."""

    def rebucket(self, topic: ScalableTopic, number: int, count: int, *, automatic: bool = False) -> None:
        """Give a segment another number of entry buckets."""

    def prune(self, topic: ScalableTopic, numbers: Sequence[int]) -> None:
        """Remove sealed segments and their topics."""

    def publish(self, topic: ScalableTopic) -> None:
        """Send the layout to all sessions."""

    def segment_topic(self, topic: ScalableTopic, segment: Segment) -> Topic | None:
        """Return the topic that stores a segment, or None if it was deleted."""


class AutomaticChanges:
    """The automatic changes of all topics of a broker."""

    def __init__(self, service: LayoutChanges, broker: ScalableBroker) -> None:
        self._service = service
        self._broker = broker
        if broker.settings.scalableTopicsEnabled:
            Interval(broker, broker.settings.scalableTopicLoadReportIntervalSeconds * 1000, self._report_loads)

    def policy(self, topic: ScalableTopic) -> AutoScalePolicy:
        """Return the effective policy of a topic."""
        namespace = self._broker.policies.namespaces.get(namespace_of(TopicName.parse(topic.name)))
        of_namespace: Any = None if namespace is None else namespace.policies.get(AUTO_SCALE_POLICY)
        return effective_policy(self._broker.settings, of_namespace, topic.policy)

    def controller_elected(self, topic: ScalableTopic) -> None:
        """Start the ticks of a topic."""
        interval = self._broker.settings.scalableTopicAutoScaleIntervalSeconds * 1000
        topic.ticks = [
            Interval(self._broker, interval, partial(self._tick, topic)),
            Interval(self._broker, _PRUNE_INTERVAL_MS, partial(self._prune, topic)),
        ]

    def _cooled_down(self, topic: ScalableTopic, kind: str, seconds: int) -> bool:
        last = topic.last_by_kind.get(kind)
        return last is None or self._broker.now - last >= seconds * 1000

    # -- split and merge -----------------------------------------------------------------------------------------------

    def _tick(self, topic: ScalableTopic) -> None:
        policy = self.policy(topic)
        if policy.enabled and not policy.error and not self._split(topic, policy, policy.split_limits):
            self._merge(topic, policy)

    def _split(self, topic: ScalableTopic, policy: AutoScalePolicy, limits: tuple[float, ...]) -> bool:
        """Split the segment with the highest rate above one of the limits; return whether there was one."""
        found = [
            (load.messages_in, -one.id)
            for one in topic.layout.active
            if one.start < one.end
            and (load := topic.loads.get(one.id)) is not None
            and any(rate > limit for rate, limit in zip(load.rates, limits, strict=True))
        ]
        room = len(topic.layout.active) < policy.maxSegments
        if not (found and room and self._cooled_down(topic, "split", policy.splitCooldownSeconds)):
            return False
        with suppress(Refused):
            self._service.split(topic, -max(found)[1], automatic=True)
        return True

    def _merge(self, topic: ScalableTopic, policy: AutoScalePolicy) -> None:
        active = topic.layout.active
        if len(active) <= policy.minSegments or not self._cooled_down(topic, "merge", policy.mergeCooldownSeconds):
            return
        long_ago = self._broker.now - policy.mergeWindowSeconds * 1000
        for one, other in reversed([*pairwise(active)]):
            cold = all(topic.cold_since.get(segment.id, self._broker.now) <= long_ago for segment in (one, other))
            if cold and max(_merges(topic, one), _merges(topic, other)) < policy.maxDagDepth:
                with suppress(Refused):
                    self._service.merge(topic, one.id, other.id, automatic=True)
                return

    # -- rebucket ------------------------------------------------------------------------------------------------------

    def consumer_registered(self, topic: ScalableTopic, coordinator: SubscriptionCoordinator) -> None:
        """Add entry buckets if a subscription has more stream consumers than there are buckets."""
        active, policy, consumers = topic.layout.active, self.policy(topic), len(coordinator.consumers)
        crowded = coordinator.stream and consumers > sum(map(buckets, active))
        if not crowded or not policy.enabled or policy.error:
            return
        floor = policy.splitVsRebucketMinMsgRateInThreshold
        if self._split(topic, policy, (floor, *[float("inf")] * 3)):
            return
        if not self._cooled_down(topic, "rebucket", policy.rebucketCooldownSeconds):
            return
        share = -(-consumers // len(active))
        count = min(1 << (share - 1).bit_length(), self._broker.settings.scalableTopicEntryBucketMaxPerSegment)
        for one in active:
            if buckets(one) < count:
                with suppress(Refused):
                    self._service.rebucket(topic, one.id, count, automatic=True)

    # -- prune ---------------------------------------------------------------------------------------------------------

    def _prune(self, topic: ScalableTopic) -> None:
        roots = [one for one in topic.layout.sealed if not one.parents]
        finished = [one.id for one in roots if self._finished(topic, one)]
        if finished:
            self._service.prune(topic, finished)

    def _finished(self, topic: ScalableTopic, segment: Segment) -> bool:
        stored = self._service.segment_topic(topic, segment)
        if stored is None:
            return True
        minutes = stored.effective("defaultRetentionTimeInMinutes")
        retained = minutes < 0 or self._broker.now - segment.sealed_ms < minutes * 60_000
        return not retained and all(one.backlog == 0 for one in stored.subscriptions.values())

    # -- load reports --------------------------------------------------------------------------------------------------

    def _report_loads(self) -> None:
        for topic in self._service.topics.values():
            segments = [one for one in topic.layout.segments.values() if not one.legacy_topic]
            if sum(self._report(topic, one) for one in segments):
                self._service.publish(topic)

    def _report(self, topic: ScalableTopic, segment: Segment) -> bool:
        """Report the load of a segment if it changed enough; return whether it did."""
        stored, former = self._broker.topics.get(topic.segment_name(segment)), topic.loads.get(segment.id)
        if stored is None:
            return False
        incoming = [self._broker.rates.of(one) for one in stored.producers.values()]
        outgoing = [self._broker.rates.of(one) for one in stored.consumers]
        load = SegmentLoad(
            sum(one.messages_in for one in incoming),
            sum(one.bytes_in for one in incoming),
            sum(one.messages_out for one in outgoing),
            sum(one.bytes_out for one in outgoing),
            self._broker.now,
        )
        threshold = self._broker.settings.scalableTopicLoadReportRateChangeThreshold
        if former is not None and not any(
            abs(new - old) > threshold * old for new, old in zip(load.rates, former.rates, strict=True)
        ):
            return False
        topic.loads[segment.id] = load
        limits = self.policy(topic).merge_limits
        if all(rate < limit for rate, limit in zip(load.rates, limits, strict=True)):
            topic.cold_since.setdefault(segment.id, self._broker.now)
        else:
            topic.cold_since.pop(segment.id, None)
        return True


def _merges(topic: ScalableTopic, segment: Segment) -> int:
    """Return the number of merges on the path to a segment with the most merges."""
    merges: dict[int, int] = {}
    for one in sorted(topic.layout.segments.values()):  # parents have lower ids than their children
        merges[one.id] = max((merges[parent] for parent in one.parents), default=0) + (len(one.parents) > 1)
    return merges[segment.id]
