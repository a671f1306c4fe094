"""The turn of Shared (AbstractDispatcherMultipleConsumers.getNextConsumer).

Consumers stand in order of priority levels, 0 first. The turn goes on behind the one picked last; while it points to
a level that is not the best, one of a better level goes first; who is not available is passed over for others of its
level, then for worse ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer

__all__ = ["RoundRobin"]


class RoundRobin:
    """Whose turn it is; works on the dispatcher's own list of consumers."""

    __slots__ = ("consumers", "index")

    def __init__(self, consumers: list[Consumer]) -> None:
        self.consumers = consumers
        self.index = 0

    def add(self, consumer: Consumer) -> None:
        """A newcomer stands last, but before all of a worse level."""
        consumers = self.consumers
        sort = bool(consumers) and consumer.priority < consumers[-1].priority
        consumers.append(consumer)
        if sort:
            consumers.sort(key=lambda one: one.priority)

    def any_available(self) -> Consumer | None:
        """The first that may get something; nobody's turn is over."""
        for consumer in self.consumers:
            if consumer.available:
                return consumer
        return None

    def next(self) -> Consumer | None:
        """Pick; None: nobody is available."""
        consumers = self.consumers
        count = len(consumers)
        if not count:
            return None
        if self.index >= count:
            self.index = 0
        start = self.index
        level = consumers[start].priority
        if level != 0:
            for place in range(count):
                if consumers[place].priority >= level:
                    break
                if consumers[place].available:
                    return self._pick(place)
        for step in range(count):
            place = (start + step) % count
            if consumers[place].priority == level and consumers[place].available:
                return self._pick(place)
        for place in range(count):
            if consumers[place].priority > level and consumers[place].available:
                return self._pick(place)
        return None

    def _pick(self, place: int) -> Consumer:
        self.index = place + 1
        return self.consumers[place]
