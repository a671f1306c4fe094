"""Filter of message lifecycles.

A lifecycle must satisfy all conditions. Conditions on data that a lifecycle does not contain (keys inside a batch,
payloads, filter fields) are evaluated on frames: `LifecycleFilter.frames` contains a set of matching frames per
condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.observe.bit_set import Bits
from pcli.codec.observe.tracking.message_timeline import duration_ns, steps_of
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.wire.message_id import MessageId

_BAD: Final = ("in_flight", "never_delivered", "unacked", "refused", "lost")
"""Unsuccessful states."""


@dataclass(slots=True)
class LifecycleFilter:
    """Conditions on lifecycles. If there are none, all lifecycles match."""

    message_id: MessageId | None = None
    """The id of the entry, of one of its chunks, or of a copy that a resend stored. A batch index is ignored."""
    producer: str = ""
    sequence_id: int = -1
    """A sequence id of the named producer, or an id within a batch of that producer; -1 for no condition."""
    unacked: bool = False
    """Whether at least one message must be unacknowledged."""
    redelivered: bool = False
    slower_ns: int = -1
    """Minimum duration from the first step to the last, exclusive; -1 for no condition."""
    frames: list[Bits] = field(default_factory=list)
    """Sets of frames. A lifecycle must have a frame in each set."""

    def holds(self, lifecycle: Lifecycle) -> bool:
        """Return whether a lifecycle satisfies all conditions."""
        return (
            (self.message_id is None or _has_id(lifecycle, self.message_id))
            and (self.sequence_id < 0 or self._has_sequence_id(lifecycle))
            and (not self.unacked or lifecycle.state == "unacked" or any(lifecycle.unacked.values()))
            and (not self.redelivered or _was_redelivered(lifecycle))
            and (self.slower_ns < 0 or duration_ns(lifecycle) > self.slower_ns)
            and all(any(number in frames for number in _frames(lifecycle)) for frames in self.frames)
        )

    def _has_sequence_id(self, lifecycle: Lifecycle) -> bool:
        for one in (lifecycle, *lifecycle.earlier):
            names = {one.producer_name, one.producer.name if one.producer is not None else ""}
            last = max(one.sequence_id, one.highest_sequence_id)
            if self.producer in names and one.sequence_id <= self.sequence_id <= last:
                return True
        return False


def is_system(lifecycle: Lifecycle) -> bool:
    """Return whether a lifecycle belongs to the broker: it is in a system topic, or is a marker.

    If the topic is unknown, its producer and consumers determine the result.
    """
    if lifecycle.topic is not None:
        return lifecycle.marker or lifecycle.topic.system
    peers = [one.consumer for deliveries in lifecycle.deliveries.values() for one in deliveries]
    return lifecycle.marker or any(peer is not None and peer.system for peer in (lifecycle.producer, *peers))


def severity_key(lifecycle: Lifecycle) -> tuple[bool, int, int]:
    """Return a sort key: unsuccessful states, number of deliveries, duration."""
    most = max(map(len, lifecycle.deliveries.values()), default=0)
    return lifecycle.state in _BAD, most, duration_ns(lifecycle)


def _has_id(lifecycle: Lifecycle, wanted: MessageId) -> bool:
    if wanted.partition >= 0 and 0 <= lifecycle.partition != wanted.partition:
        return False
    ids = [
        (lifecycle.ledger, lifecycle.entry),
        *lifecycle.other_ids,
        *((ledger, entry) for _, _, ledger, entry in lifecycle.chunks),
    ]
    return (wanted.ledger, wanted.entry) in ids


def _was_redelivered(lifecycle: Lifecycle) -> bool:
    return any(
        one.redelivery_count or one.why for deliveries in lifecycle.deliveries.values() for one in deliveries
    )  # fmt: skip


def _frames(lifecycle: Lifecycle) -> Iterator[int]:
    yield from (step.frame for step in steps_of(lifecycle))
    yield from (frame for _, frame, _, _ in lifecycle.chunks)
