"""Which lives of messages somebody wants to see.

Everything that is asked must hold. What a life itself does not tell (keys inside a batch, payloads, fields of a
filter) is asked of its frames: `Wanted.frames` holds those that match, a set for each question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pcli.codec.observe.bit_set import Bits
from pcli.codec.observe.tracking.message_timeline import duration_ns, steps_of
from pcli.codec.observe.tracking.records.lifecycle import Lifecycle
from pcli.codec.wire.message_id import MessageId

__all__ = ["LifecycleFilter", "badness", "is_system"]

_BAD: Final = ("in_flight", "never_delivered", "unacked", "refused", "lost")
"""States that are no good end."""


@dataclass(slots=True)
class LifecycleFilter:
    """What is asked of lives; without any question all are wanted."""

    message_id: MessageId | None = None
    """Of the entry, of one of its chunks, or one more that a resend was given. A batch index chooses the entry."""
    producer: str = ""
    sequence_id: int = -1
    """Of an entry of the producer of that name, or one of the sequence ids of its batch; -1: not asked."""
    unacked: bool = False
    """Something of it is left unacknowledged."""
    redelivered: bool = False
    slower_ns: int = -1
    """From the first step to the last it took longer than that; -1: not asked."""
    frames: list[Bits] = field(default_factory=list)
    """Frames of which a life must have one, for each set."""

    def holds(self, lifecycle: Lifecycle) -> bool:
        """Whether a life is wanted."""
        return (
            (self.message_id is None or _has_id(lifecycle, self.message_id))
            and (self.sequence_id < 0 or self._has_sequence_id(lifecycle))
            and (not self.unacked or lifecycle.state == "unacked" or any(lifecycle.unacked.values()))
            and (not self.redelivered or _was_redelivered(lifecycle))
            and (self.slower_ns < 0 or duration_ns(lifecycle) > self.slower_ns)
            and all(any(number in frames for number in _frames(lifecycle)) for frames in self.frames)
        )

    def _has_sequence_id(self, lifecycle: Lifecycle) -> bool:
        names = {lifecycle.producer_name, lifecycle.producer.name if lifecycle.producer is not None else ""}
        last = max(lifecycle.sequence_id, lifecycle.highest_sequence_id)
        return self.producer in names and lifecycle.sequence_id <= self.sequence_id <= last


def is_system(lifecycle: Lifecycle) -> bool:
    """Whether it is the broker's own: of a system topic, or a marker in an application's.

    Of unknown topic, whoever sent or got it tells.
    """
    if lifecycle.topic is not None:
        return lifecycle.marker or lifecycle.topic.system
    peers = [one.consumer for deliveries in lifecycle.deliveries.values() for one in deliveries]
    return lifecycle.marker or any(peer is not None and peer.system for peer in (lifecycle.producer, *peers))


def badness(lifecycle: Lifecycle) -> tuple[bool, int, int]:
    """A key that puts first what ended badly, then what came most often, then what took longest."""
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
