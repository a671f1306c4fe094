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

    def holds(self, life: Lifecycle) -> bool:
        """Whether a life is wanted."""
        return (
            (self.message_id is None or _has_id(life, self.message_id))
            and (self.sequence_id < 0 or self._has_sequence_id(life))
            and (not self.unacked or life.state == "unacked" or any(life.unacked.values()))
            and (not self.redelivered or _was_redelivered(life))
            and (self.slower_ns < 0 or duration_ns(life) > self.slower_ns)
            and all(any(number in frames for number in _frames(life)) for frames in self.frames)
        )

    def _has_sequence_id(self, life: Lifecycle) -> bool:
        names = {life.producer_name, life.producer.name if life.producer is not None else ""}
        last = max(life.sequence_id, life.highest_sequence_id)
        return self.producer in names and life.sequence_id <= self.sequence_id <= last


def is_system(life: Lifecycle) -> bool:
    """Whether it is the broker's own: of a system topic, or a marker in an application's.

    Of unknown topic, whoever sent or got it tells.
    """
    if life.topic is not None:
        return life.marker or life.topic.system
    peers = [one.consumer for deliveries in life.deliveries.values() for one in deliveries]
    return life.marker or any(peer is not None and peer.system for peer in (life.producer, *peers))


def badness(life: Lifecycle) -> tuple[bool, int, int]:
    """A key that puts first what ended badly, then what came most often, then what took longest."""
    most = max(map(len, life.deliveries.values()), default=0)
    return life.state in _BAD, most, duration_ns(life)


def _has_id(life: Lifecycle, wanted: MessageId) -> bool:
    if wanted.partition >= 0 and 0 <= life.partition != wanted.partition:
        return False
    ids = [(life.ledger, life.entry), *life.other_ids, *((ledger, entry) for _, _, ledger, entry in life.chunks)]
    return (wanted.ledger, wanted.entry) in ids


def _was_redelivered(life: Lifecycle) -> bool:
    return any(
        one.redelivery_count or one.why for deliveries in life.deliveries.values() for one in deliveries
    )  # fmt: skip


def _frames(life: Lifecycle) -> Iterator[int]:
    yield from (step.frame for step in steps_of(life))
    yield from (frame for _, frame, _, _ in life.chunks)
