"""The round robin of Shared (AbstractDispatcherMultipleConsumers.getNextConsumer).

On persistent topics, consumers are ordered by priority level, with level 0 first. Selection continues after the
consumer that was selected last. An available consumer with a better level than the next consumer is selected first. If
no consumer of a level is available, the consumers after this level are considered.
"""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcli.minibroker.topics.consumer import Consumer


class RoundRobin:
    """The round robin over the dispatcher's list of consumers."""

    __slots__ = ("consumers", "index")

    def __init__(self, consumers: list[Consumer]) -> None:
        self.consumers = consumers
        self.index = 0

    def add(self, consumer: Consumer) -> None:
        """Add a consumer after all consumers of the same or a better level."""
        consumers = self.consumers
        sort = bool(consumers) and consumer.priority < consumers[-1].priority
        consumers.append(consumer)
        if sort:
            consumers.sort(key=lambda one: one.priority)

    def any_available(self) -> Consumer | None:
        """Return the first available consumer without advancing."""
        for consumer in self.consumers:
            if consumer.available:
                return consumer
        return None

    def next(self) -> Consumer | None:
        """Select the next available consumer, or None."""
        consumers = self.consumers
        count = len(consumers)
        if not count:
            return None
        if self.index >= count:
            self.index = 0
        start = self.index
        level = consumers[start].priority
        if level == 0 and consumers[start].available:
            return self._pick(start)
        better = takewhile(lambda place: consumers[place].priority < level, range(count)) if level else ()
        end = next((place for place in range(start, count) if consumers[place].priority != level), count)
        same = (place for place in range(start) if consumers[place].priority == level)
        for place in chain(better, range(start, end), same, range(end, count)):
            if consumers[place].available:
                return self._pick(place)
        return None

    def _pick(self, place: int) -> Consumer:
        self.index = place + 1
        return self.consumers[place]
