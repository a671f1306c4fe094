"""Producer access modes and the epoch of a topic.

Rules of this file (AbstractTopic.incrementTopicEpochIfNeeded, handleProducerRemoved)
1. A topic can have an exclusive producer, a queue of producers that wait for exclusive access, and an epoch. The epoch
   increases with each new exclusive producer. A former exclusive producer that reconnects has a lower epoch and is
   fenced.
2. A claim with an epoch sets the topic epoch. A claim without an epoch increases the topic epoch by one; the first
   epoch is 0. Epochs are Java longs and wrap from the largest value to the smallest.
3. A waiting producer that leaves keeps its place in the queue and the epoch that it claimed. When the place is first in
   the queue, its claim changes the topic epoch, and access passes to the next producer, whose epoch is one higher (as
   on 4.2.4).
4. Fencing closes producers only on the broker. A fenced client is not notified; its next SEND closes the connection.
   Waiting producers receive an error.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pcli.codec.proto import pb
from pcli.codec.wire.message_id import signed
from pcli.minibroker.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Claimant(Protocol):
    """The part of a producer that access modes use."""

    @property
    def name(self) -> str:
        """The producer's name."""

    @property
    def access_mode(self) -> int:
        """The access mode (ProducerAccessMode)."""

    @property
    def topic_epoch(self) -> int | None:
        """The topic epoch that the producer claims, or None for the next epoch."""

    def refuse(self, refusal: Refused) -> None:
        """Respond with ERROR."""

    def leave(self) -> None:
        """Close without a command to the client."""


_P = TypeVar("_P", bound=Claimant)


@dataclass(frozen=True, slots=True)
class _VacatedPlace:
    """The place of a producer that left while it was waiting."""

    topic_epoch: int | None
    """The epoch that the producer claimed, or None for the next epoch."""


class ProducerAccess(Generic[_P]):
    """The access state of one topic. ``producers`` is the topic's table of attached producers by name."""

    __slots__ = ("_waiting", "epoch", "exclusive", "holder", "producers")

    def __init__(self, producers: Mapping[str, _P]) -> None:
        self.producers = producers
        self.exclusive = False
        self.holder: str | None = None
        """Name of the exclusive producer."""
        self._waiting: deque[_P | _VacatedPlace] = deque()
        self.epoch: int | None = None
        """The topic epoch, or None if the topic never had an exclusive producer."""

    @property
    def waiting(self) -> int:
        """Number of producers in the queue, including those that have left."""
        return len(self._waiting)

    def admit(self, producer: _P) -> bool:
        """Return True if a producer is admitted now, and False if it must wait. Raises Refused."""
        return _MODES[producer.access_mode](self, producer)

    def next_holder(self) -> _P | None:
        """After a producer has left, apply the next claims. Return the producer that gets exclusive access, or None."""
        if not self.exclusive and (self.producers or not self._waiting):
            return None
        self.exclusive, self.holder = False, None
        while self._waiting:
            one = self._waiting.popleft()
            if not isinstance(one, _VacatedPlace):
                self._become_holder(one)
                return one
            self._set_epoch(one.topic_epoch)
        return None

    def remove_waiting(self, producer: _P) -> None:
        """Remove a waiting producer; its place in the queue remains."""
        for place, one in enumerate(self._waiting):
            if one is producer:
                self._waiting[place] = _VacatedPlace(producer.topic_epoch)
                return

    def drop_waiting(self) -> list[_P]:
        """Empty the queue. Return the producers that were still waiting."""
        waiting = [one for one in self._waiting if not isinstance(one, _VacatedPlace)]
        self._waiting.clear()
        return waiting

    def reset(self) -> None:
        """Remove the exclusive producer and the queue; the epoch remains."""
        self.exclusive, self.holder = False, None
        self._waiting.clear()

    # -- access modes --------------------------------------------------------------------------------------------------

    def _admit_shared(self, _: _P) -> bool:
        if self.exclusive or self._waiting:
            raise Refused(pb.ProducerBusy, f"Topic has an existing exclusive producer: {self._holder_text}")
        return True

    def _admit_exclusive(self, producer: _P) -> bool:
        if self.exclusive or self._waiting:
            raise Refused(pb.ProducerFenced, f"Topic has an existing exclusive producer: {self._holder_text}")
        if self.producers:
            raise Refused(pb.ProducerFenced, "Topic has existing shared producers")
        self._claim(producer)
        return True

    def _admit_waiting(self, producer: _P) -> bool:
        if self.exclusive or self.producers:
            self._waiting.append(producer)
            return False
        self._claim(producer)
        return True

    def _admit_fencing(self, producer: _P) -> bool:
        for waiting in self.drop_waiting():
            waiting.refuse(Refused(pb.ProducerFenced, "Fenced out"))
        for attached in list(self.producers.values()):
            attached.leave()
        self._claim(producer)
        return True

    @property
    def _holder_text(self) -> str:
        return "null" if self.holder is None else self.holder

    def _claim(self, producer: _P) -> None:
        wanted, current = producer.topic_epoch, -1 if self.epoch is None else self.epoch
        if wanted is not None and wanted < current:
            text = f"Topic epoch has already moved. Current epoch: {current}, Producer epoch: {wanted}"
            raise Refused(pb.ProducerFenced, text)
        self._become_holder(producer)

    def _become_holder(self, producer: _P) -> None:
        self.exclusive, self.holder = True, producer.name
        self._set_epoch(producer.topic_epoch)

    def _set_epoch(self, wanted: int | None) -> None:
        if wanted is not None:
            self.epoch = wanted
        else:
            self.epoch = 0 if self.epoch is None else signed((self.epoch + 1) % (1 << 64))


_MODES: Final[dict[int, Callable[[ProducerAccess[Any], Any], bool]]] = {
    pb.Shared: ProducerAccess._admit_shared,
    pb.Exclusive: ProducerAccess._admit_exclusive,
    pb.WaitForExclusive: ProducerAccess._admit_waiting,
    pb.ExclusiveWithFencing: ProducerAccess._admit_fencing,
}
